/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that come back over another connection with what they had finished. */
#include "sim/faults/model/model.h"

static bool owes_stale(const server_model *it, uint32_t worker)
{
    bool stale = false;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        stale = stale || ((it->filled & bit(chunk)) && (it->psi[chunk] & bit(worker)));
    return it->phase == MODEL_CODING && it->members[worker].due != 0 && stale;
}

bool model_can_return(const server_model *it, uint32_t worker)
{
    return it->phase != MODEL_IDLE && it->settings.sum == TARRY_SUM_SERVER &&
           it->settings.keep == TARRY_KEEP_ALL && model_able(it, worker, MODEL_EVERYONE) &&
           !owes_stale(it, worker);
}

void model_return(server_model *it, uint64_t now, uint32_t worker)
{
    model_member *member = &it->members[worker];
    member->epoch++;
    member->heard = now;
    member->probed = TARRY_NEVER;
    member->before = member->failed = 0;
    member->owed = member->done;
    member->owed_until = now + it->settings.silence_ns;
    member->signal_due = member->due != 0;
    it->settled |= member->owed == 0 ? bit(worker) : 0;
}

void model_repay(server_model *it, uint32_t worker, uint32_t chunk)
{
    model_member *member = &it->members[worker];
    member->owed &= ~bit(chunk);
    it->settled |= member->owed == 0 ? bit(worker) : 0;
}

void model_forgo(server_model *it, uint32_t worker)
{
    model_member *member = &it->members[worker];
    member->done &= ~member->owed;
    member->owed = 0;
    member->signal_due = false;
    if (!member->participant || member->due == 0)
        return;
    it->broken = true;
    member->participant = false;
    member->due = 0;
}

void model_forgo_overdue(server_model *it, uint64_t now)
{
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->phase != MODEL_IDLE && it->members[worker].owed != 0 &&
            now >= it->members[worker].owed_until)
            model_forgo(it, worker);
}

uint32_t model_resent(const server_model *it)
{
    uint32_t set = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (it->phase == MODEL_CODING && (it->settled & bit(worker)) &&
            it->members[worker].signal_due)
            set |= bit(worker);
    return set;
}
