/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/secure_rules.h"

static bool holds(const secure_signal *signal, uint32_t worker, uint32_t chunk)
{
    for (uint32_t i = signal->chunk_offset[chunk]; i < signal->chunk_offset[chunk + 1]; i++) {
        if (signal->holder_worker[i] == worker)
            return true;
    }
    return false;
}

/* Whether some chunk is taken from the worker. */
static bool is_taken_from(const secure_signal *signal, uint32_t worker)
{
    for (uint32_t s = signal->worker_offset[worker]; s < signal->worker_offset[worker + 1]; s++) {
        if (signal->holders[signal->slot_chunk[s]] == worker)
            return true;
    }
    return false;
}

static secure_rule check_holders(const secure_signal *signal)
{
    for (uint32_t i = 0; i < signal->chunks; i++) {
        if (signal->holders[i] >= signal->workers || !holds(signal, signal->holders[i], i))
            return SECURE_RULE_HOLDER;
    }
    for (uint32_t i = 0; i < signal->chunks; i++) {
        if (signal->lives[signal->holders[i]] == 0)
            return SECURE_RULE_AWAY;
    }
    return SECURE_RULE_NONE;
}

static secure_rule check_own(const secure_signal *signal)
{
    const uint32_t life = signal->lives[signal->id];
    if (life != 0 && life != signal->epoch)
        return SECURE_RULE_LIFE;
    if (life == 0)
        return SECURE_RULE_NONE;
    secure_rule broken = SECURE_RULE_NONE;
    for (uint32_t s = signal->worker_offset[signal->id]; s < signal->worker_offset[signal->id + 1];
         s++) {
        const uint32_t chunk = signal->slot_chunk[s];
        const bool wanted = signal->holders[chunk] == signal->id;
        const bool has = signal->has(signal->user, chunk);
        if (wanted && !has)
            return SECURE_RULE_MISSING;
        if (has && !wanted)
            broken = SECURE_RULE_LEFT_OUT;
    }
    return broken;
}

secure_rule secure_rules_check(const secure_signal *signal)
{
    secure_rule broken = check_holders(signal);
    for (uint32_t j = 0; j < signal->workers && broken == SECURE_RULE_NONE; j++) {
        if (signal->lives[j] != 0 && !is_taken_from(signal, j))
            broken = SECURE_RULE_IDLE;
    }
    return broken == SECURE_RULE_NONE ? check_own(signal) : broken;
}

const char *secure_rule_text(secure_rule rule)
{
    static const char *const text[] = {
        [SECURE_RULE_NONE] = "the signal breaks no rule",
        [SECURE_RULE_HOLDER] = "a chunk is to be taken from a worker that does not hold it",
        [SECURE_RULE_AWAY] = "a chunk is to be taken from a worker outside of the group",
        [SECURE_RULE_IDLE] = "a worker of the group has no chunk in the sum",
        [SECURE_RULE_LIFE] = "the group has this worker in another life",
        [SECURE_RULE_MISSING] = "this worker is to send a chunk that it has not summed",
        [SECURE_RULE_LEFT_OUT] = "this worker has summed a chunk that is to be taken from another",
    };
    return text[rule];
}
