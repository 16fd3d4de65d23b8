/* SPDX-License-Identifier: Apache-2.0 */
/* The stop rule: whether a round signals, goes on or fails. */
#include "worlds/model/model.h"

/* Whether an open chunk of the worker is of use: with a fixed order each one is, since the worker
 * computes them all. */
static bool has_more(const server_model *it, uint32_t worker, uint32_t among)
{
    uint32_t open = it->holds[worker] & ~it->members[worker].done & ~it->members[worker].failed;
    if (it->settings.pick == TARRY_PICK_PLAN)
        return open != 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        if ((open & bit(chunk)) && it->rank[model_credited(it, chunk, among)] < it->parts)
            return true;
    return false;
}

static bool is_all_in(const server_model *it, uint32_t among)
{
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (model_able(it, worker, among) && has_more(it, worker, among))
            return false;
    return true;
}

/* The rule takes whatever there is. */
static bool is_overdue(const server_model *it, uint64_t now, uint32_t among)
{
    bool late = now - it->result.start_ns >= it->settings.deadline_ns;
    return (it->settings.stop == TARRY_STOP_DEADLINE && (late || is_all_in(it, among))) ||
           (it->settings.stop == TARRY_STOP_ERROR && is_all_in(it, among));
}

static bool meets_rule(const server_model *it, uint32_t among)
{
    uint32_t whole = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        whole += model_able(it, worker, among) && model_whole(it, worker);
    if (it->settings.reproducible && !is_all_in(it, among))
        return false;
    if (it->settings.stop == TARRY_STOP_WORKERS)
        return whole >= it->settings.workers_needed;
    if (it->settings.stop == TARRY_STOP_ERROR)
        return model_at_most(model_error(it, among), it->settings.error_limit);
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) /* those that count for nothing, too */
        if (model_in(it, chunk) && it->rank[model_credited(it, chunk, among)] < it->parts)
            return false;
    return true;
}

bool model_holds(const server_model *it, uint64_t now, uint32_t among)
{
    return meets_rule(it, among) || is_overdue(it, now, among);
}

bool model_hopeless(const server_model *it, uint32_t chunk, bool foresight)
{
    uint32_t possible = model_possible(it, chunk);
    if (!model_in(it, chunk) || it->rank[possible] == it->parts)
        return false;
    return foresight || set_size(possible) < it->parts ||
           possible == model_credited(it, chunk, MODEL_EVERYONE);
}

static bool is_doomed(const server_model *it, bool foresight)
{
    uint32_t able = model_all_able(it, MODEL_EVERYONE), capable = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        capable += (able & bit(worker)) && it->members[worker].failed == 0;
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
    bool anyone = model_all_able(it, MODEL_EVERYONE) != 0;
    if (anyone && model_holds(it, now, MODEL_EVERYONE))
        return VERDICT_SIGNAL;
    if (is_doomed(it, foresight))
        return VERDICT_FAIL;
    return it->broken ? VERDICT_RESUME : VERDICT_WAIT;
}
