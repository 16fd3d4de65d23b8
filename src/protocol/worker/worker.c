/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/worker/worker.h"

#include <assert.h>
#include <string.h>

#include <tarry/worker.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "coding/psi.h"
#include "plan/plan.h"
#include "privacy/secure/secure_member.h"
#include "protocol/form.h"
#include "protocol/order.h"
#include "protocol/worker/worker_shared.h"
#include "protocol/worker/worker_state.h"

static tarry_effect *worker_emit(tarry_worker *worker, tarry_effect_type type)
{
    assert(worker->effects.count < worker->capacity);
    tarry_effect *effect = &worker->items[worker->effects.count++];
    *effect = (tarry_effect){
        .type = type,
        .worker = worker->settings.worker,
        .round = worker->round,
        .attempt = worker->attempt,
    };
    return effect;
}

static tarry_effect *send_message(tarry_worker *worker, tarry_message_type type)
{
    tarry_effect *effect = worker_emit(worker, TARRY_EFFECT_SEND);
    effect->message.type = type;
    effect->message.round = worker->round;
    effect->message.epoch = worker->epoch;
    return effect;
}

/* Says what is being computed, once nothing changes any more in this step. */
static void say_next(tarry_worker *worker, tarry_effect *word)
{
    word->message.next = worker->computing ? worker->slot : worker->load;
    worker->sequence = worker->sequence == UINT16_MAX ? 1 : worker->sequence + 1;
    word->message.sequence = worker->sequence;
}

static int worker_reject(tarry_worker *worker, tarry_reject why)
{
    worker_emit(worker, TARRY_EFFECT_REJECT)->reject = why;
    return TARRY_OK;
}

/* The fate of a finished copy is known. */
static void settle(tarry_worker *worker, uint32_t slot, bool credited)
{
    bitset_reset(worker->open, slot);
    worker->open_count--;
    tarry_effect *effect = worker_emit(worker, credited ? TARRY_EFFECT_FOLD : TARRY_EFFECT_DROP);
    effect->slot = slot;
    if (!credited)
        return;
    effect->begins = !worker->summing;
    effect->weight = worker->weighted ? worker->weights[slot] : 1;
    worker->summing = true;
    bitset_set(worker->folded, slot);
}

/* What nobody will ask for any more. */
static void drop_open(tarry_worker *worker)
{
    for (uint32_t slot = 0; slot < worker->load && worker->open_count > 0; slot++)
        if (bitset_test(worker->open, slot))
            settle(worker, slot, false);
}

/* Begins the next chunk, if there is one and nothing stands against it. */
/* With TARRY_KEEP_CREDITED not while too many finished gradients wait for their fate. */
static void worker_compute_next(tarry_worker *worker)
{
    assert(!worker->computing);
    if (worker_steps(worker))
        return;
    if (worker_keeps_credited(worker) && worker->open_count == worker->most_open)
        return;
    uint32_t slot = order_next(&(order_sets){.load = worker->load,
                                             .done = worker->done,
                                             .failed = worker->failed,
                                             .first = worker->first,
                                             .barred = worker->barred});
    if (slot == worker->load)
        return;
    tarry_effect *effect = worker_emit(worker, TARRY_EFFECT_COMPUTE);
    effect->slot = slot;
    effect->chunk = tarry_plan_chunk(worker->plan, worker->settings.worker, slot);
    worker->slot = slot;
    worker->computing = true;
}

static void cancel_computing(tarry_worker *worker)
{
    if (!worker->computing)
        return;
    tarry_effect *effect = worker_emit(worker, TARRY_EFFECT_CANCEL);
    effect->slot = worker->slot;
    worker->computing = false;
}

/* No chunk is begun until RESUME or the next round, and the one in progress is dropped. */
static void worker_stop(tarry_worker *worker)
{
    cancel_computing(worker);
    worker->stopped = true;
}

/* One stripe at a time, so that a new signal or round is heard in between. */
static void encode_next(tarry_worker *worker)
{
    if (worker->encoding)
        return;
    for (uint32_t stripe = 0; stripe < worker->stripes; stripe++) {
        if (!bitset_test(worker->pending, stripe))
            continue;
        tarry_effect *effect = worker_emit(worker, TARRY_EFFECT_ENCODE);
        effect->stripe = stripe;
        effect->coefficients = worker->coefficients;
        effect->stale = worker->stale;
        effect->message = (tarry_message){
            .type = TARRY_MESSAGE_PART,
            .round = worker->round,
            .epoch = worker->epoch,
            .attempt = worker->attempt,
            .stripe = stripe,
            .holders = worker->holders,
            .lives = worker->lives,
        };
        worker->encoding = true;
        worker->outdated = false;
        if (worker_feeds_back(&worker->settings))
            fates_encode(&worker->residuals, stripe, worker->round, worker->epoch);
        return;
    }
}

/* Copies that were dropped are to be computed after all; others can't be recalled. */
static void recall(tarry_worker *worker, const uint64_t *recalled)
{
    for (size_t word = 0; word < bitset_words(worker->load); word++)
        worker->done[word] &= ~recalled[word] | worker->folded[word] | worker->open[word];
}

/* Not news of something else. */
static bool says_order(const tarry_worker *worker, const tarry_message *message)
{
    return message->type != TARRY_MESSAGE_NEWS || message->sequence != 0 || worker->told == 0;
}

/* What the server says replaces what it said before. */
static void set_order(tarry_worker *worker, const tarry_message *message)
{
    size_t bytes = bitset_words(worker->load) * sizeof(uint64_t);
    worker->told = message->sequence;
    bitset_clear(worker->first, worker->load);
    bitset_clear(worker->barred, worker->load);
    if (message->first != NULL)
        memcpy(worker->first, message->first, bytes);
    if (message->barred != NULL)
        memcpy(worker->barred, message->barred, bytes);
}

static void set_term(tarry_worker *worker, const tarry_message *message)
{
    if (worker_keeps_credited(worker) && message->term > worker->term && message->recalled != NULL)
        recall(worker, message->recalled);
    worker->term = message->term;
}

/* Whether newer orders came before: what comes twice may come late. */
static bool is_outdated(const tarry_worker *worker, const tarry_message *message)
{
    return message->attempt < worker->attempt || message->term < worker->term ||
           (says_order(worker, message) &&
            (int16_t)(uint16_t)(message->sequence - worker->told) < 0);
}

/* Drops what is barred, begins what comes next, and tells the server if that changed anything:
 * what it knows of this worker may be older. */
static void worker_go_on(tarry_worker *worker)
{
    if (worker->computing && !bitset_test(worker->barred, worker->slot))
        return;
    bool resting = !worker->computing;
    cancel_computing(worker);
    worker_compute_next(worker);
    if (!resting || worker->computing)
        say_next(worker, send_message(worker, TARRY_MESSAGE_ALIVE));
}

/* What was finished for this arrival in the round before `round`, if it is still there. */
static void keep_previous(tarry_worker *worker, uint32_t epoch, uint64_t round)
{
    bitset_clear(worker->previous, worker->load);
    if (worker->settings.server.fill == TARRY_FILL_STALE && epoch == worker->epoch &&
        round == worker->round + 1)
        memcpy(worker->previous, worker->done, bitset_words(worker->load) * sizeof(uint64_t));
}

/* What the arrival before was told and has done is nothing to this one. */
static void worker_arrive(tarry_worker *worker, uint32_t epoch)
{
    cancel_computing(worker);
    drop_open(worker);
    bitset_clear(worker->done, worker->load);
    bitset_clear(worker->pending, worker->stripes);
    worker->epoch = epoch;
    worker->sequence = 0;
    worker->active = false;
    worker->arrived = true;
}

/*
 * Secure sums: what a worker's part is masked for it hears of the server, which may lie. So it
 * takes a signal only if all that it can see for itself is as it has to be: every chunk is there
 * once, of a worker that holds it; the group is that of the holders; and its own copies are those
 * that its running sum has. What others can't see it is held to by the masks, which cancel only for
 * those who were told the same.
 */

const char *tarry_refusal_text(tarry_refusal refusal)
{
    static const char *const texts[] = {
        [TARRY_REFUSAL_NONE] = "it kept all rules",
        [TARRY_REFUSAL_OPEN] = "it asked for a part without a mask",
        [TARRY_REFUSAL_SECRET] =
            "it asked for a masked part, but this worker was not told of masks",
        [TARRY_REFUSAL_FORM] =
            "it asked for what a secure sum has no room for: other rounds or weights",
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
    if (signal->lives == NULL || signal->slot != 0 || signal->stale != NULL ||
        signal->group != NULL)
        return TARRY_REFUSAL_FORM;
    tarry_refusal broken = judge_holders(worker, signal);
    if (broken == TARRY_REFUSAL_NONE && !agrees(worker, signal))
        broken = TARRY_REFUSAL_VIEW;
    return broken;
}

/* The rule that the signal breaks, or the round; a worker whose sums are not secure has one rule:
 * to be told nothing of holders. */
static tarry_refusal worker_secure_judge(const tarry_worker *worker, const tarry_message *message)
{
    bool signal = message->type == TARRY_MESSAGE_SIGNAL;
    if (worker_is_secure(worker) && signal)
        return judge_signal(worker, message);
    if (worker_is_secure(worker))
        return message->weights != NULL ? TARRY_REFUSAL_FORM : TARRY_REFUSAL_NONE;
    bool told = signal && (message->holders != NULL || message->lives != NULL);
    return told ? TARRY_REFUSAL_SECRET : TARRY_REFUSAL_NONE;
}

/* Takes over whose copies are summed; nothing where sums are not secure. */
static void worker_secure_take(tarry_worker *worker, const tarry_message *signal)
{
    if (!worker_is_secure(worker))
        return;
    memcpy(worker->holders, signal->holders, worker->plan->chunks * sizeof(*worker->holders));
    memcpy(worker->lives, signal->lives, worker->plan->workers * sizeof(*worker->lives));
}

/* Ends all that is in progress, and says why. */
static int worker_refuse(tarry_worker *worker, tarry_refusal refusal)
{
    worker_stop(worker);
    bitset_clear(worker->pending, worker->stripes);
    worker->active = false;
    worker->refused = true;
    worker_emit(worker, TARRY_EFFECT_REFUSE)->refusal = refusal;
    return TARRY_OK;
}

/* TARRY_SUM_EVERYWHERE: what protocol/vote/vote.h says, as effects. */

static void begin(tarry_worker *worker)
{
    static const tarry_effect_type types[] = {
        [VOTER_REDUCES] = TARRY_EFFECT_REDUCE,
        [VOTER_FETCHES] = TARRY_EFFECT_FETCH,
        [VOTER_LOADS] = TARRY_EFFECT_LOAD,
        [VOTER_STEPS] = TARRY_EFFECT_STEP,
    };
    const voter *it = &worker->vote;
    tarry_effect *effect = worker_emit(worker, types[it->task]);
    effect->sum = it->sum;
    effect->from = it->from;
    effect->digests = it->digests;
}

static int carry_out(tarry_worker *worker, const voter_says *says)
{
    if (says->rejects)
        return worker_reject(worker, says->why);
    if (says->abandons)
        worker_emit(worker, TARRY_EFFECT_ABANDON);
    if (says->begins)
        begin(worker);
    if (says->answers) {
        tarry_message *answer = &worker_emit(worker, TARRY_EFFECT_SEND)->message;
        *answer = says->answer;
        answer->round = worker->round;
    }
    return TARRY_OK;
}

/* ASK, BREAK, FETCH, LOAD, COMMIT. */
static int worker_vote_order(tarry_worker *worker, const tarry_message *order)
{
    if (!worker_sums_everywhere(worker))
        return worker_reject(worker, TARRY_REJECT_MISPLACED);
    voter_says says = voter_order(&worker->vote, order);
    if (!says.rejects && order->type == TARRY_MESSAGE_ASK)
        worker_arrive(worker, order->epoch);
    else if (!says.rejects && worker->vote.task != VOTER_ENCODES)
        bitset_clear(worker->pending, worker->stripes);
    if (!says.rejects && worker_steps(worker))
        worker_stop(worker); /* the round is over, and its parameters are about to go */
    return carry_out(worker, &says);
}

/* REDUCED, FETCHED, LOADED, STEPPED. */
/* With the step done, what waited for the new parameters begins. */
static int worker_vote_ended(tarry_worker *worker, const tarry_event *event)
{
    if (!worker_sums_everywhere(worker))
        return TARRY_ERROR_ARGUMENT;
    voter_says says = voter_ended(&worker->vote, event);
    int error = carry_out(worker, &says);
    if (!says.rejects && event->type == TARRY_EVENT_STEPPED && worker->active && !worker->stopped)
        worker_go_on(worker); /* the server may have told it other things meanwhile */
    return error;
}

/* Whether the signal is one for a sum among workers that this one is among, or none for a sum at
 * the server, and may come now; what it ends is ended then. */
static bool worker_vote_signalled(tarry_worker *worker, const tarry_message *signal,
                                  tarry_reject *why)
{
    bool everywhere = worker_sums_everywhere(worker);
    *why = TARRY_REJECT_MISPLACED;
    if (everywhere != (signal->group != NULL) ||
        (everywhere && !bitset_test(signal->group, worker->settings.worker)))
        return false;
    if (!everywhere)
        return true;
    voter_says says = voter_signal(&worker->vote, &signal->sum);
    *why = says.why;
    if (says.rejects)
        return false;
    carry_out(worker, &says);
    if (signal->group != worker->group)
        memcpy(worker->group, signal->group,
               bitset_words(worker->plan->workers) * sizeof(uint64_t));
    worker->scale = signal->scale;
    return true;
}

/* All is encoded: the sum begins, if it is made among workers. */
static void worker_vote_reduce(tarry_worker *worker)
{
    if (worker->vote.task != VOTER_ENCODES || worker->encoding)
        return;
    voter_reduce(&worker->vote);
    tarry_effect *effect = worker_emit(worker, TARRY_EFFECT_REDUCE);
    effect->sum = worker->vote.sum;
    effect->message.group = worker->group;
    effect->scale = worker->scale;
    effect->empty = !worker->contributes;
}

static void worker_vote_end(tarry_worker *worker)
{
    voter_says says = voter_finish(&worker->vote);
    carry_out(worker, &says);
}

int tarry_worker_adopt(tarry_worker *worker, const tarry_worker *from, tarry_diagnostic *diagnostic)
{
    if (!worker_sums_everywhere(worker) || !worker_sums_everywhere(from) ||
        worker->settings.worker != from->settings.worker)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: it goes on where worker %u sums among workers",
                        worker->settings.worker, from->settings.worker);
    if (worker->vote.epoch != 0 || from->vote.task == VOTER_STEPS)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "worker %u: it is in use already, or the one before steps",
                        worker->settings.worker);
    worker->vote = (voter){
        /* The server asks again, in the same arrival. */
        .epoch = from->vote.epoch > 0 ? from->vote.epoch - 1 : 0,
        .last = from->vote.last,
        .held = from->vote.held,
        .state = from->vote.state,
    };
    return TARRY_OK;
}

/* ---- messages and events ---- */

static bool is_old_round(const tarry_worker *worker, const tarry_message *message)
{
    if (worker_sums_everywhere(worker) && message->epoch != worker->epoch)
        return true; /* it has to be asked first */
    return message->epoch < worker->epoch ||
           (message->epoch == worker->epoch && message->round <= worker->round && !worker->arrived);
}

/* What is known by now of the parts of before. */
static void emit_settled(tarry_worker *worker, bool any)
{
    if (!any)
        return;
    tarry_effect *effect = worker_emit(worker, TARRY_EFFECT_SETTLE);
    effect->stood = worker->residuals.stood;
    effect->voids = worker->residuals.voids;
}

/* What the round says of its positions: nobody computes what was not sampled. */
static void set_round(tarry_worker *worker, const tarry_message *round)
{
    worker->weighted = round->weights != NULL;
    bitset_clear(worker->failed, worker->load);
    for (uint32_t slot = 0; worker->weighted && slot < worker->load; slot++) {
        worker->weights[slot] = round->weights[slot];
        bitset_put(worker->failed, slot, !(round->weights[slot] > 0));
    }
}

static int take_round(tarry_worker *worker, const tarry_message *message)
{
    if (is_old_round(worker, message))
        return worker_reject(worker, TARRY_REJECT_STALE);
    tarry_refusal refusal = worker_secure_judge(worker, message);
    if (refusal != TARRY_REFUSAL_NONE)
        return worker_refuse(worker, refusal);
    emit_settled(worker,
                 fates_begin(&worker->residuals, message->round, message->life, message->stood));
    cancel_computing(worker);
    worker_vote_end(worker);
    if (message->epoch != worker->epoch)
        worker->sequence = 0;
    worker->arrived = false;
    drop_open(worker);
    worker->summing = false;
    bitset_clear(worker->folded, worker->load);
    keep_previous(worker, message->epoch, message->round);
    worker->epoch = message->epoch;
    worker->round = message->round;
    worker->attempt = 0;
    worker->heard = message->attempt;
    worker->active = true;
    worker->stopped = false;
    bitset_clear(worker->done, worker->load);
    set_round(worker, message);
    worker->term = message->term;
    set_order(worker, message);
    bitset_clear(worker->pending, worker->stripes);
    worker_compute_next(worker);
    return TARRY_OK;
}

/* Whether the finished copy at `slot` was not dropped. */
static bool is_here(const tarry_worker *worker, uint32_t slot)
{
    return !worker_keeps_credited(worker) || bitset_test(worker->folded, slot) ||
           bitset_test(worker->open, slot);
}

/* Whether psi speaks of own copies, and whether all of these are really here, and, of a running
 * sum, no others. */
static bool own_copies(const tarry_worker *worker, const uint64_t *psi, const uint64_t *stale,
                       bool *here)
{
    bool any = false;
    *here = true;
    bool whole = true;
    for (psi_walk at = psi_begin(worker->plan, worker->settings.worker); psi_here(&at);
         psi_next(&at)) {
        uint32_t slot = at.position;
        if (bitset_test(psi, psi_own(&at))) {
            any = true;
            bool before = stale != NULL && bitset_test(stale, slot);
            *here = *here && bitset_test(before ? worker->previous : worker->done, slot) &&
                    is_here(worker, slot);
        } else if (bitset_test(worker->folded, slot)) {
            whole = false;
        }
    }
    *here = *here && (whole || !any);
    return any;
}

/* The signal decides on what no news came of: it is folded, or void. */
static void settle_by_psi(tarry_worker *worker, const uint64_t *psi)
{
    for (psi_walk at = psi_begin(worker->plan, worker->settings.worker);
         psi_here(&at) && worker->open_count > 0; psi_next(&at)) {
        if (!bitset_test(worker->open, at.position))
            continue;
        bool credited = bitset_test(psi, psi_own(&at));
        settle(worker, at.position, credited);
        bitset_put(worker->done, at.position, credited);
    }
}

/* The copies of what counts more than once do so together. A running sum has the weights in it. */
static void weigh(tarry_worker *worker)
{
    const uint32_t parts = worker->plan->parts;
    for (uint32_t slot = 0;
         worker->weighted && !worker_keeps_credited(worker) && slot < worker->load; slot++)
        for (uint32_t part = 0; part < parts; part++)
            worker->coefficients[(size_t)slot * parts + part] *= worker->weights[slot];
}

static int take_signal(tarry_worker *worker, const tarry_message *message)
{
    if (message->attempt <= worker->attempt)
        return worker_reject(worker, TARRY_REJECT_STALE);
    bool here;
    tarry_reject why;
    tarry_refusal refusal = worker_secure_judge(worker, message);
    if (refusal != TARRY_REFUSAL_NONE)
        return worker_refuse(worker, refusal);
    bool any = own_copies(worker, message->psi, message->stale, &here);
    if (!here)
        return worker_reject(worker, TARRY_REJECT_RANGE);
    if (any) {
        int error = coefficients_of_worker(worker->work, worker->settings.worker, message->psi,
                                           worker->coefficients);
        if (error != TARRY_OK)
            return error;
        weigh(worker);
    }
    if (!worker_vote_signalled(worker, message, &why))
        return worker_reject(worker, why);
    cancel_computing(worker);
    worker_secure_take(worker, message);
    worker->contributes = any;
    settle_by_psi(worker, message->psi);
    if (message->term > worker->term)
        worker->term = message->term;
    bitset_clear(worker->stale, worker->load);
    if (message->stale != NULL)
        memcpy(worker->stale, message->stale, bitset_words(worker->load) * sizeof(uint64_t));
    worker->attempt = worker->heard = message->attempt;
    worker->stopped = true;
    worker->outdated = true;
    for (uint32_t stripe = 0; stripe < worker->stripes; stripe++)
        bitset_put(worker->pending, stripe, any && bitset_test(message->stripes, stripe));
    encode_next(worker);
    worker_vote_reduce(worker);
    return TARRY_OK;
}

static int take_resume(tarry_worker *worker, const tarry_message *message)
{
    if (is_outdated(worker, message))
        return worker_reject(worker, TARRY_REJECT_STALE);
    worker_vote_end(worker);
    worker->attempt = worker->heard = message->attempt;
    worker->stopped = false;
    bitset_clear(worker->pending, worker->stripes);
    set_order(worker, message);
    set_term(worker, message);
    worker_go_on(worker);
    return TARRY_OK;
}

static int take_news(tarry_worker *worker, const tarry_message *message)
{
    if (is_outdated(worker, message))
        return worker_reject(worker, TARRY_REJECT_STALE);
    if (message->fate != TARRY_FATE_OPEN && message->slot >= worker->load)
        return worker_reject(worker, TARRY_REJECT_RANGE);
    if (message->fate != TARRY_FATE_OPEN && bitset_test(worker->open, message->slot))
        settle(worker, message->slot, message->fate == TARRY_FATE_CREDITED);
    if (says_order(worker, message))
        set_order(worker, message);
    set_term(worker, message);
    if (worker_keeps_credited(worker) && message->attempt > worker->heard) {
        /* Faster than the signal, which decides on what was reported before it: nothing more is. */
        worker_stop(worker);
    }
    if (!worker->stopped)
        worker_go_on(worker);
    return TARRY_OK;
}

static int take_finish(tarry_worker *worker, const tarry_message *message)
{
    emit_settled(worker, fates_finish(&worker->residuals, message->round, message->stood));
    cancel_computing(worker);
    drop_open(worker);
    worker_vote_end(worker);
    worker->active = false;
    bitset_clear(worker->pending, worker->stripes);
    return TARRY_OK;
}

static int take_message(tarry_worker *worker, const tarry_message *message)
{
    if (message->type == TARRY_MESSAGE_PROBE) {
        tarry_effect *effect = send_message(worker, TARRY_MESSAGE_ALIVE);
        effect->message.epoch = message->epoch;
        effect->message.round = message->round;
        effect->message.next = worker->load;
        /* Of a round that it has yet to begin it can say no more than that it is there. */
        if (message->epoch == worker->epoch && message->round == worker->round && !worker->arrived)
            say_next(worker, effect);
        return TARRY_OK;
    }
    if (message->type == TARRY_MESSAGE_ROUND)
        return take_round(worker, message);
    if (message->type >= TARRY_MESSAGE_ASK)
        return worker_vote_order(worker, message);
    if (message->epoch != worker->epoch || message->round != worker->round || !worker->active)
        return worker_reject(worker, TARRY_REJECT_STALE);
    switch (message->type) {
    case TARRY_MESSAGE_SIGNAL:
        return take_signal(worker, message);
    case TARRY_MESSAGE_RESUME:
        return take_resume(worker, message);
    case TARRY_MESSAGE_NEWS:
        return take_news(worker, message);
    case TARRY_MESSAGE_FINISH:
        return take_finish(worker, message);
    default:
        break;
    }
    return worker_reject(worker, TARRY_REJECT_MISPLACED);
}

static int take_computed(tarry_worker *worker, const tarry_event *event)
{
    if (!worker->computing || event->round != worker->round || event->slot != worker->slot)
        return worker_reject(worker, TARRY_REJECT_STALE);
    worker->computing = false;
    bitset_set(event->failed ? worker->failed : worker->done, event->slot);
    if (worker_keeps_credited(worker) && !event->failed) {
        bitset_set(worker->open, event->slot);
        worker->open_count++;
    }
    tarry_effect *effect = send_message(worker, TARRY_MESSAGE_REPORT);
    effect->message.slot = event->slot;
    effect->message.failed = event->failed;
    effect->message.term = worker->term;
    if (worker->active && !worker->stopped)
        worker_compute_next(worker);
    say_next(worker, effect);
    return TARRY_OK;
}

static int take_encoded(tarry_worker *worker, const tarry_event *event)
{
    if (!worker->encoding || event->stripe >= worker->stripes)
        return worker_reject(worker, TARRY_REJECT_STALE);
    worker->encoding = false;
    if (!worker->outdated)
        bitset_reset(worker->pending, event->stripe);
    encode_next(worker);
    worker_vote_reduce(worker);
    return TARRY_OK;
}

static int take_event(tarry_worker *worker, const tarry_event *event)
{
    switch (event->type) {
    case TARRY_EVENT_TIME:
        return TARRY_OK;
    case TARRY_EVENT_MESSAGE:
        return take_message(worker, event->message);
    case TARRY_EVENT_COMPUTED:
        return take_computed(worker, event);
    case TARRY_EVENT_ENCODED:
        return take_encoded(worker, event);
    case TARRY_EVENT_START:
    case TARRY_EVENT_ABORT:
    case TARRY_EVENT_JOINED:
    case TARRY_EVENT_LOST:
    case TARRY_EVENT_HEARD:
    case TARRY_EVENT_COMBINED:
    case TARRY_EVENT_REDUCED:
    case TARRY_EVENT_FETCHED:
    case TARRY_EVENT_LOADED:
    case TARRY_EVENT_STEPPED:
        return worker_vote_ended(worker, event);
    case TARRY_EVENT_LOGGED:
        break;
    }
    return TARRY_ERROR_ARGUMENT;
}

int tarry_worker_step(tarry_worker *worker, uint64_t now, const tarry_event *event,
                      const tarry_effects **effects)
{
    (void)now;
    worker->effects.count = 0;
    int error =
        worker->refused ? worker_reject(worker, TARRY_REJECT_MISPLACED) : take_event(worker, event);
    if (error == TARRY_OK)
        *effects = &worker->effects;
    return error;
}

uint64_t tarry_worker_deadline(const tarry_worker *worker)
{
    (void)worker;
    return TARRY_NEVER;
}

/* ---- create ---- */

/* Of one event, or: what is settled, a cancellation, all open copies' fates, something to compute
 * or encode. */
enum { USUAL_EFFECTS = 5, VOTE_EFFECTS = 3 /* what is ended, begun and answered */ };

struct worker_shared {
    tarry_allocator allocator;
    tarry_effect *items;
    size_t capacity;
    uint64_t *group; /* NULL where sums are at the server */
    coefficients *work;
};

/* Finished copies whose fate a worker with `load` chunks may wait for. */
static uint32_t most_open(const tarry_worker_settings *settings, uint32_t load)
{
    if (settings->server.keep != TARRY_KEEP_CREDITED)
        return 0;
    return settings->server.ahead < load ? settings->server.ahead + 1 : load;
}

int worker_shared_create(const tarry_plan *plan, const tarry_worker_settings *settings,
                         const tarry_allocator *allocator, worker_shared **shared)
{
    worker_shared *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    made->capacity = USUAL_EFFECTS + VOTE_EFFECTS + (size_t)most_open(settings, plan->max_load);
    made->items = memory_allocate(allocator, made->capacity, sizeof(*made->items));
    bool everywhere = settings->server.sum == TARRY_SUM_EVERYWHERE;
    if (everywhere)
        made->group = memory_allocate(allocator, bitset_words(plan->workers), sizeof(uint64_t));
    if (made->items == NULL || (everywhere && made->group == NULL) ||
        coefficients_create(plan, settings->server.conditioning_limit, allocator, &made->work) !=
            TARRY_OK) {
        worker_shared_free(made);
        return TARRY_ERROR_NO_MEMORY;
    }
    *shared = made;
    return TARRY_OK;
}

void worker_shared_free(worker_shared *shared)
{
    if (shared == NULL)
        return;
    tarry_allocator allocator = shared->allocator;
    coefficients_free(shared->work);
    memory_release(&allocator, shared->group);
    memory_release(&allocator, shared->items);
    memory_release(&allocator, shared);
}

uint64_t *worker_shared_group(worker_shared *shared)
{
    return shared->group;
}

/* Sets of a bit per position, one behind the other. */
enum { SLOT_SETS = 8 };

static int allocate(tarry_worker *worker, const tarry_allocator *allocator)
{
    size_t words = bitset_words(worker->load);
    uint64_t *sets = memory_allocate(allocator, SLOT_SETS * words + bitset_words(worker->stripes),
                                     sizeof(uint64_t));
    worker->coefficients =
        memory_allocate(allocator, (size_t)worker->load * worker->plan->parts, sizeof(float));
    worker->weights = memory_allocate(allocator, worker->load, sizeof(float));
    worker->done = sets;
    if (sets == NULL || worker->coefficients == NULL || worker->weights == NULL)
        return TARRY_ERROR_NO_MEMORY;
    uint64_t **const at[SLOT_SETS] = {
        &worker->done,     &worker->open,   &worker->folded, &worker->stale,
        &worker->previous, &worker->failed, &worker->first,  &worker->barred,
    };
    for (size_t set = 0; set < SLOT_SETS; set++)
        *at[set] = sets + set * words;
    worker->pending = sets + SLOT_SETS * words;
    if (worker_is_secure(worker)) {
        size_t chunks = worker->plan->chunks, workers = worker->plan->workers;
        worker->holders = memory_allocate(allocator, chunks + workers, sizeof(uint32_t));
        if (worker->holders == NULL)
            return TARRY_ERROR_NO_MEMORY;
        worker->lives = worker->holders + chunks;
    }
    return worker_feeds_back(&worker->settings)
               ? fates_init(&worker->residuals, worker->stripes, allocator)
               : TARRY_OK;
}

static void share(tarry_worker *worker, worker_shared *shared)
{
    worker->items = shared->items;
    worker->effects.items = shared->items;
    worker->capacity = shared->capacity;
    worker->group = shared->group;
    worker->work = shared->work;
}

static int check(const tarry_plan *plan, const tarry_worker_settings *settings,
                 tarry_diagnostic *diagnostic)
{
    if (settings->worker >= plan->workers || settings->server.dimension == 0 ||
        settings->server.stripe_length == 0 || !(settings->server.conditioning_limit > 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: the plan has %u workers, dimension and stripe_length must be "
                        "at least 1 and conditioning_limit above 1",
                        settings->worker, plan->workers);
    if ((unsigned)settings->server.keep > TARRY_KEEP_CREDITED ||
        (settings->server.keep == TARRY_KEEP_CREDITED && plan->parts > 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: with more than one part a worker has to keep all its gradients",
                        settings->worker);
    if (worker_feeds_back(settings) &&
        (plan->parts > 1 || settings->server.sum == TARRY_SUM_EVERYWHERE))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: feedback goes with one part and the sum at the server",
                        settings->worker);
    if (settings->server.secure != 0 &&
        ((settings->server.secure != 32 && settings->server.secure != 64) ||
         worker_feeds_back(settings) || settings->server.keep != TARRY_KEEP_CREDITED ||
         settings->server.sum != TARRY_SUM_SERVER))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: secure sums are of 32 or 64 bits, at the server, of credited "
                        "copies, without feedback",
                        settings->worker);
    if (!form_has_element(&settings->server, plan->parts))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: float64 goes with sums among workers, one part and no forms",
                        settings->worker);
    if ((unsigned)settings->server.sum > TARRY_SUM_EVERYWHERE)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "worker %u: unknown place of the sum",
                        settings->worker);
    return TARRY_OK;
}

int worker_create_shared(const tarry_plan *plan, const tarry_worker_settings *settings,
                         worker_shared *shared, const tarry_allocator *allocator,
                         tarry_worker **worker, tarry_diagnostic *diagnostic)
{
    int error = check(plan, settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_worker *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "worker");
    made->allocator = memory_allocator(allocator);
    made->plan = plan;
    made->settings = *settings;
    made->load = tarry_plan_load(plan, settings->worker);
    made->stripes = worker_cut(made).stripes;
    made->most_open = most_open(settings, made->load);
    made->vote.last = settings->last;
    share(made, shared);
    if (allocate(made, &made->allocator) != TARRY_OK) {
        tarry_worker_free(made);
        return diagnose_no_memory(diagnostic, "worker");
    }
    *worker = made;
    return TARRY_OK;
}

int tarry_worker_create(const tarry_plan *plan, const tarry_worker_settings *settings,
                        const tarry_allocator *allocator, tarry_worker **worker,
                        tarry_diagnostic *diagnostic)
{
    int error = check(plan, settings, diagnostic);
    if (error != TARRY_OK)
        return error;
    worker_shared *own;
    if (worker_shared_create(plan, settings, allocator, &own) != TARRY_OK)
        return diagnose_no_memory(diagnostic, "worker");
    error = worker_create_shared(plan, settings, own, allocator, worker, diagnostic);
    if (error == TARRY_OK)
        (*worker)->own = own;
    else
        worker_shared_free(own);
    return error;
}

void tarry_worker_free(tarry_worker *worker)
{
    if (worker == NULL)
        return;
    tarry_allocator allocator = worker->allocator;
    worker_shared_free(worker->own);
    fates_destroy(&worker->residuals, &allocator);
    memory_release(&allocator, worker->holders);
    memory_release(&allocator, worker->coefficients);
    memory_release(&allocator, worker->weights);
    memory_release(&allocator, worker->done);
    memory_release(&allocator, worker);
}

/* ---- fates ---- */

int fates_init(fates *self, uint32_t stripes, const tarry_allocator *allocator)
{
    size_t words = bitset_words(stripes);
    *self = (fates){.stripes = stripes};
    self->of = memory_allocate(allocator, stripes, sizeof(*self->of));
    self->stood = memory_allocate(allocator, 2 * words, sizeof(*self->stood));
    if (self->of == NULL || self->stood == NULL) {
        fates_destroy(self, allocator);
        return TARRY_ERROR_NO_MEMORY;
    }
    self->voids = self->stood + words;
    return TARRY_OK;
}

void fates_destroy(fates *self, const tarry_allocator *allocator)
{
    memory_release(allocator, self->of);
    memory_release(allocator, self->stood);
    *self = (fates){0};
}

void fates_encode(fates *self, uint32_t stripe, uint64_t round, uint32_t epoch)
{
    fate *of = &self->of[stripe];
    of->out = true;
    of->round = round;
    of->epoch = epoch;
}

static void commit(fates *self, uint32_t stripe)
{
    fate *of = &self->of[stripe];
    bitset_set(self->stood, stripe);
    of->since = of->epoch;
    of->out = false;
}

static void make_void(fates *self, uint32_t stripe)
{
    fate *of = &self->of[stripe];
    bitset_set(self->voids, stripe);
    of->since = 0;
    of->out = false;
    self->void_count++;
}

static void begin_settling(fates *self)
{
    bitset_clear(self->stood, self->stripes);
    bitset_clear(self->voids, self->stripes);
}

static bool has_settled(const fates *self)
{
    uint64_t any = 0;
    for (size_t word = 0; word < bitset_words(self->stripes); word++)
        any |= self->stood[word] | self->voids[word];
    return any != 0;
}

static void settle_stripe(fates *self, uint32_t stripe, const uint32_t *epochs)
{
    if (epochs[stripe] == self->of[stripe].epoch)
        commit(self, stripe);
    else
        self->of[stripe].out = false;
}

bool fates_finish(fates *self, uint64_t round, const uint32_t *epochs)
{
    if (self->stripes == 0)
        return false;
    begin_settling(self);
    for (uint32_t stripe = 0; epochs != NULL && stripe < self->stripes; stripe++)
        if (self->of[stripe].out && self->of[stripe].round == round)
            settle_stripe(self, stripe, epochs);
    return has_settled(self);
}

bool fates_begin(fates *self, uint64_t round, uint32_t life, const uint32_t *epochs)
{
    if (self->stripes == 0)
        return false;
    begin_settling(self);
    for (uint32_t stripe = 0; stripe < self->stripes; stripe++) {
        const fate *of = &self->of[stripe];
        bool lost = of->out && of->round != round && (epochs == NULL || of->round + 1 != round);
        if ((of->since != 0 && of->since < life) || (of->out && of->epoch < life) || lost)
            make_void(self, stripe);
        else if (of->out && of->round != round)
            settle_stripe(self, stripe, epochs);
    }
    return has_settled(self);
}
