/* SPDX-License-Identifier: Apache-2.0 */
/* The stop rule: whether a round signals, and with how many parts, goes on or fails. */
#include <math.h>

#include "sim/faults/model/model.h"

/* Whether an open chunk of the worker is of use: with a fixed order each one is, since the worker
 * computes them all. */
static bool has_more(const server_model *it, uint32_t worker, uint32_t among)
{
    uint32_t open = it->holds[worker] & ~it->members[worker].done & ~it->members[worker].failed;
    if (it->settings.pick == TARRY_PICK_PLAN)
        return open != 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        if ((open & bit(chunk)) && it->rank[it->most][model_credited(it, chunk, among)] < it->most)
            return true;
    return false;
}

static bool is_all_in(const server_model *it, uint32_t among)
{
    bool all_in = true;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        if (model_able(it, worker, among))
            all_in = all_in && !has_more(it, worker, among);
    }
    return all_in;
}

/* The rule takes whatever there is. */
static bool is_overdue(const server_model *it, uint64_t now, uint32_t among)
{
    bool late = now - it->result.start_ns >= it->settings.deadline_ns;
    return (it->settings.stop == TARRY_STOP_DEADLINE && (late || is_all_in(it, among))) ||
           (it->settings.stop == TARRY_STOP_ERROR && is_all_in(it, among));
}

static bool meets_rule(const server_model *it, uint32_t parts, uint32_t among)
{
    uint32_t whole = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        whole += model_able(it, worker, among) && model_whole(it, worker);
    if (it->settings.reproducible && !is_all_in(it, among))
        return false;
    if (it->settings.stop == TARRY_STOP_WORKERS)
        return whole >= it->settings.workers_needed;
    if (it->settings.stop == TARRY_STOP_ERROR)
        return model_at_most(model_error(it, parts, among), it->settings.error_limit);
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) /* those that count for nothing, too */
        if (model_in(it, chunk) && it->rank[parts][model_credited(it, chunk, among)] < parts)
            return false;
    return true;
}

uint32_t model_pick(const server_model *it, uint64_t now, uint32_t among)
{
    uint32_t picked = 0;
    double best = INFINITY;
    for (uint32_t parts = it->least; parts <= it->most; parts++)
        if ((it->complete == 0 || parts == it->parts) && meets_rule(it, parts, among))
            picked = parts;
    if (picked != 0 || !is_overdue(it, now, among))
        return picked;
    for (uint32_t parts = it->least; parts <= it->most; parts++) {
        double error = model_error(it, parts, among);
        if ((it->complete != 0 && parts != it->parts) || !model_at_most(error, best))
            continue;
        picked = parts;
        best = fmin(error, best);
    }
    return picked;
}

bool model_may_wait(const server_model *it, uint64_t now)
{
    uint32_t parts = model_pick(it, now, MODEL_EVERYONE);
    return parts != 0 && parts < it->most && it->attempt == 0 && !is_all_in(it, MODEL_EVERYONE) &&
           !is_overdue(it, now, MODEL_EVERYONE) && !it->settings.reproducible && it->longest > 0 &&
           now - it->ready <= it->longest * it->most;
}

void model_give_up_stripes(server_model *it, uint64_t now)
{
    uint32_t complete = it->complete;
    if (it->least == it->most || complete == 0 || model_pick(it, now, MODEL_EVERYONE) != 0)
        return;
    it->complete = 0;
    if (model_pick(it, now, MODEL_EVERYONE) == 0)
        it->complete = complete;
    else
        it->result.conditioning = 0;
}

bool model_hopeless(const server_model *it, uint32_t chunk, bool foresight)
{
    uint32_t possible = model_possible(it, chunk);
    if (!model_in(it, chunk) || it->raised_rank[it->least][possible] == it->least)
        return false;
    return foresight || set_size(possible) < it->least ||
           possible == model_credited(it, chunk, MODEL_EVERYONE);
}

static bool is_doomed(const server_model *it, bool foresight)
{
    uint32_t able = 0, capable = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        if (!model_able(it, worker, MODEL_EVERYONE))
            continue;
        able++;
        capable += it->members[worker].failed == 0;
    }
    bool hopeless = false;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        hopeless = hopeless || model_hopeless(it, chunk, foresight);
    return able == 0 || (it->settings.stop == TARRY_STOP_EXACT && hopeless) ||
           (it->settings.stop == TARRY_STOP_WORKERS && capable < it->settings.workers_needed);
}

model_verdict model_decide(const server_model *it, uint64_t now, bool foresight)
{
    if (it->phase == MODEL_IDLE || (it->phase == MODEL_CODING && !it->broken))
        return VERDICT_WAIT;
    bool anyone = false;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        anyone = anyone || model_able(it, worker, MODEL_EVERYONE);
    if (anyone && (model_pick(it, now, MODEL_EVERYONE) != 0 || model_must_raise(it)))
        return VERDICT_SIGNAL;
    if (is_doomed(it, foresight))
        return VERDICT_FAIL;
    return it->broken ? VERDICT_RESUME : VERDICT_WAIT;
}

/* ---- limits that are raised, where the rule can be met in no other way ---- */

/* Whether a worker that counts has an open chunk. */
static bool is_anyone_busy(const server_model *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const model_member *member = &it->members[worker];
        if (model_able(it, worker, MODEL_EVERYONE) &&
            (it->holds[worker] & ~member->done & ~member->failed) != 0)
            return true;
    }
    return false;
}

bool model_must_raise(const server_model *it)
{
    if (it->settings.stop != TARRY_STOP_EXACT || it->phase == MODEL_IDLE ||
        (it->settings.reproducible && is_anyone_busy(it)))
        return false;
    bool any = false;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t copies = model_credited(it, chunk, MODEL_EVERYONE);
        if (!model_in(it, chunk) || it->rank[it->least][copies] == it->least)
            continue;
        if (copies != model_possible(it, chunk) || it->raised_rank[it->least][copies] < it->least)
            return false;
        any = true;
    }
    return any;
}

uint32_t model_raised_pick(server_model *it)
{
    uint32_t missing = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        if (model_in(it, chunk))
            missing +=
                it->parts - it->raised_rank[it->parts][model_credited(it, chunk, MODEL_EVERYONE)];
    if (it->complete != 0 && missing == 0)
        return it->parts;
    it->complete = 0;
    it->result.conditioning = 0;
    return it->least;
}

bool model_raises(const server_model *it, uint32_t parts)
{
    if (it->settings.stop == TARRY_STOP_ERROR &&
        model_at_most(model_error(it, parts, MODEL_EVERYONE), it->settings.error_limit))
        return false;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        uint32_t copies = model_credited(it, chunk, MODEL_EVERYONE);
        if (it->raised_rank[parts][copies] > it->rank[parts][copies])
            return true;
    }
    return false;
}

double model_limit(const server_model *it)
{
    return it->raised ? TARRY_CONDITIONING_MOST : 0;
}
