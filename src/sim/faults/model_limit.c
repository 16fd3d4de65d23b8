/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/faults/model.h"

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
        if (it->rank[it->least][copies] == it->least)
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
        model_error(it, parts, MODEL_EVERYONE) <= it->settings.error_limit)
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
