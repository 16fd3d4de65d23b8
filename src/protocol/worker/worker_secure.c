/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secure sums: what a worker's part is masked for it hears of the server, which may lie. So it
 * takes a signal only if all that it can see for itself is as it has to be: every chunk is there
 * once, of a worker that holds it; the group is that of the holders; and its own copies are those
 * that its running sum has. What others can't see it is held to by the masks, which cancel only for
 * those who were told the same.
 */
#include <string.h>

#include "coding/psi.h"
#include "privacy/secure/secure_rules.h"
#include "protocol/worker/worker_state.h"

const char *tarry_refusal_text(tarry_refusal refusal)
{
    static const char *const texts[] = {
        [TARRY_REFUSAL_NONE] = "it kept all rules",
        [TARRY_REFUSAL_OPEN] = "it asked for a part without a mask",
        [TARRY_REFUSAL_SECRET] =
            "it asked for a masked part, but this worker was not told of masks",
        [TARRY_REFUSAL_FORM] = ("it asked for what a secure sum has no room for: several parts, a "
                                "raised limit, other rounds or weights"),
        [TARRY_REFUSAL_COVER] = "it named a holder that the plan does not give the chunk",
        [TARRY_REFUSAL_GROUP] = "those who are to mask their parts are not those who hold chunks",
        [TARRY_REFUSAL_LIFE] = "it named another life of this worker",
        [TARRY_REFUSAL_VIEW] = "what it said of this worker's chunks is not what it told all",
        [TARRY_REFUSAL_OWN] =
            "it named copies that this worker has not summed, or not all that it has",
    };
    return (unsigned)refusal < sizeof(texts) / sizeof(texts[0]) ? texts[refusal] : "?";
}

static bool agrees(const tarry_worker *worker, const tarry_message *signal)
{
    const tarry_plan *plan = worker->plan;
    for (psi_walk at = psi_begin(plan, worker->settings.worker); psi_here(&at); psi_next(&at))
        for (uint32_t i = 0; i < at.holders; i++)
            if (bitset_test(signal->psi, at.bit + i) !=
                (plan->holder_worker[at.first + i] == signal->holders[at.chunk]))
                return false;
    return true;
}

/* What the rules ask of the worker's own sum. */
typedef struct own_sum {
    const tarry_worker *worker;
    const tarry_message *signal;
} own_sum;

/* What still waits for its fate is folded if the signal says so, and dropped else. */
static bool has(const void *user, uint32_t chunk)
{
    const own_sum *of = user;
    const tarry_worker *worker = of->worker;
    uint32_t slot = 0;
    while (tarry_plan_chunk(worker->plan, worker->settings.worker, slot) != chunk)
        slot++;
    return bitset_test(worker->folded, slot) ||
           (bitset_test(worker->open, slot) &&
            of->signal->holders[chunk] == worker->settings.worker);
}

static tarry_refusal judge_holders(const tarry_worker *worker, const tarry_message *signal)
{
    static const tarry_refusal refusals[] = {
        [SECURE_RULE_NONE] = TARRY_REFUSAL_NONE,    [SECURE_RULE_HOLDER] = TARRY_REFUSAL_COVER,
        [SECURE_RULE_AWAY] = TARRY_REFUSAL_GROUP,   [SECURE_RULE_IDLE] = TARRY_REFUSAL_GROUP,
        [SECURE_RULE_LIFE] = TARRY_REFUSAL_LIFE,    [SECURE_RULE_MISSING] = TARRY_REFUSAL_OWN,
        [SECURE_RULE_LEFT_OUT] = TARRY_REFUSAL_OWN,
    };
    const tarry_plan *plan = worker->plan;
    const own_sum sum = {worker, signal};
    return refusals[secure_rules_check(&(secure_signal){
        .workers = plan->workers,
        .chunks = plan->chunks,
        .holders = signal->holders,
        .lives = signal->lives,
        .chunk_offset = plan->chunk_offset,
        .holder_worker = plan->holder_worker,
        .worker_offset = plan->worker_offset,
        .slot_chunk = plan->slot_chunk,
        .id = worker->settings.worker,
        .epoch = worker->epoch,
        .has = has,
        .user = &sum,
    })];
}

static tarry_refusal judge_signal(const tarry_worker *worker, const tarry_message *signal)
{
    if (signal->holders == NULL)
        return TARRY_REFUSAL_OPEN;
    if (signal->lives == NULL || signal->parts != 1 || signal->limit != 0 || signal->slot != 0 ||
        signal->stale != NULL || signal->group != NULL)
        return TARRY_REFUSAL_FORM;
    tarry_refusal broken = judge_holders(worker, signal);
    if (broken == TARRY_REFUSAL_NONE && !agrees(worker, signal))
        broken = TARRY_REFUSAL_VIEW;
    return broken;
}

tarry_refusal worker_secure_judge(const tarry_worker *worker, const tarry_message *message)
{
    bool signal = message->type == TARRY_MESSAGE_SIGNAL;
    if (worker_is_secure(worker) && signal)
        return judge_signal(worker, message);
    if (worker_is_secure(worker))
        return message->weights != NULL ? TARRY_REFUSAL_FORM : TARRY_REFUSAL_NONE;
    bool told = signal && (message->holders != NULL || message->lives != NULL);
    return told ? TARRY_REFUSAL_SECRET : TARRY_REFUSAL_NONE;
}

void worker_secure_take(tarry_worker *worker, const tarry_message *signal)
{
    if (!worker_is_secure(worker))
        return;
    memcpy(worker->holders, signal->holders, worker->plan->chunks * sizeof(*worker->holders));
    memcpy(worker->lives, signal->lives, worker->plan->workers * sizeof(*worker->lives));
}

int worker_refuse(tarry_worker *worker, tarry_refusal refusal)
{
    worker_stop(worker);
    bitset_clear(worker->pending, worker->stripes);
    worker->active = false;
    worker->refused = true;
    worker_emit(worker, TARRY_EFFECT_REFUSE)->refusal = refusal;
    return TARRY_OK;
}
