/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that send before all are done. */
#include "sim/faults/model/model.h"

static uint32_t open_of(const server_model *it, uint32_t worker)
{
    return it->holds[worker] & ~it->members[worker].done & ~it->members[worker].failed;
}

uint32_t model_left_open(const server_model *it, uint32_t chunk)
{
    uint32_t set = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->members[worker].left && (open_of(it, worker) & bit(chunk)))
            set |= bit(worker);
    return set;
}

bool model_may_leave(const server_model *it, uint32_t worker)
{
    const model_member *member = &it->members[worker];
    uint32_t left = open_of(it, worker);
    if (!it->settings.early || it->phase != MODEL_COMPUTING || it->attempt != 0 ||
        !model_able(it, worker, MODEL_EVERYONE) || member->left || member->kept == 0)
        return false;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        if ((left & bit(chunk)) && model_credited(it, chunk, MODEL_EVERYONE) == 0 &&
            model_possible(it, chunk) == bit(worker))
            return false; /* the last who could compute it */
    return it->settings.pick != TARRY_PICK_PLAN || left == 0;
}

void model_leave(server_model *it, uint64_t now, uint32_t worker)
{
    model_member *member = &it->members[worker];
    uint32_t stripes = (bit(it->stripes) - 1) & ~it->complete;
    if (!it->open) {
        it->open = true;
        it->senders = 0;
        it->filled = 0;
        it->raised = false;
        it->asked = set_size(stripes);
        it->first_stripe = TARRY_NEVER;
        for (uint32_t stripe = 0; stripe < it->stripes; stripe++)
            it->got[stripe] = it->put[stripe] = it->back[stripe] = 0;
    }
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        it->psi[chunk] = model_credited(it, chunk, MODEL_EVERYONE);
    it->senders |= bit(worker);
    member->left = member->participant = true;
    member->signalled = now;
    member->due = it->settings.sum == TARRY_SUM_SERVER ? stripes : 0;
    member->signal_term = ++member->term;
    it->result.workers_early++;
}

bool model_is_stuck(const server_model *it)
{
    bool nobody = true, hopeless = false, came_back = false;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        nobody = nobody && !model_able(it, worker, MODEL_EVERYONE);
        came_back = came_back || (it->members[worker].present && it->members[worker].stands != 0);
    }
    for (uint32_t chunk = 0; it->open && chunk < it->chunks; chunk++) {
        if (!model_hopeless(it, chunk, false))
            continue;
        hopeless = true;
        for (uint32_t worker = 0; worker < it->workers; worker++)
            if (it->members[worker].left && model_able(it, worker, MODEL_EVERYONE) &&
                (open_of(it, worker) & bit(chunk)))
                return true;
    }
    return it->open && came_back && (nobody || (hopeless && it->settings.stop == TARRY_STOP_EXACT));
}

void model_withdraw(server_model *it)
{
    uint32_t stood = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        model_member *member = &it->members[worker];
        stood |= member->stands;
        member->stands = 0;
        if (!member->left)
            continue;
        member->left = member->participant = false;
        member->due = 0;
    }
    model_recall(it, stood);
    it->attempt += it->open;
    it->result.attempts += it->open;
    it->open = false;
}
