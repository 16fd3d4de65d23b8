/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "coding/psi.h"
#include "plan/plan.h"
#include "protocol/order.h"
#include "protocol/worker/worker_state.h"

tarry_effect *worker_emit(tarry_worker *worker, tarry_effect_type type)
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

int worker_reject(tarry_worker *worker, tarry_reject why)
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

/* With TARRY_KEEP_CREDITED not while too many finished gradients wait for their fate. */
void worker_compute_next(tarry_worker *worker)
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

void worker_stop(tarry_worker *worker)
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
        effect->parts = worker->parts;
        effect->stripe = stripe;
        effect->coefficients = worker->coefficients;
        effect->stale = worker->stale;
        effect->message = (tarry_message){
            .type = TARRY_MESSAGE_PART,
            .round = worker->round,
            .epoch = worker->epoch,
            .attempt = worker->attempt,
            .stripe = stripe,
            .parts = worker->parts,
            .holders = worker->holders,
            .lives = worker->lives,
        };
        worker->encoding = true;
        worker->outdated = false;
        if (worker->settings.feedback)
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

void worker_go_on(tarry_worker *worker)
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
    if (worker->settings.keeps_stale && epoch == worker->epoch && round == worker->round + 1)
        memcpy(worker->previous, worker->done, bitset_words(worker->load) * sizeof(uint64_t));
}

void worker_arrive(tarry_worker *worker, uint32_t epoch)
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

/* Whether the signal's limit is the usual one, or raised. */
static bool has_limit(const tarry_worker *worker, const tarry_message *signal)
{
    return signal->limit == 0 || (signal->limit > worker->settings.conditioning_limit &&
                                  signal->limit <= TARRY_CONDITIONING_MOST);
}

/* Whether the signal speaks of parts and stripes that there are. */
static bool has_stripes(const tarry_worker *worker, const tarry_message *signal)
{
    if (signal->parts < plan_least_parts(worker->plan) || signal->parts > worker->plan->parts)
        return false;
    for (uint32_t stripe = worker_stripes(worker, signal->parts); stripe < worker->stripes;
         stripe++)
        if (bitset_test(signal->stripes, stripe))
            return false;
    return true;
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
static void weigh(tarry_worker *worker, uint32_t parts)
{
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
    if (!here || !has_stripes(worker, message) || !has_limit(worker, message))
        return worker_reject(worker, TARRY_REJECT_RANGE);
    if (any) {
        coefficients_set_limit(worker->work, message->limit == 0
                                                 ? worker->settings.conditioning_limit
                                                 : message->limit);
        int error = coefficients_of_worker(worker->work, message->parts, worker->settings.worker,
                                           message->psi, worker->coefficients);
        if (error != TARRY_OK)
            return error;
        weigh(worker, message->parts);
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
    worker->parts = message->parts;
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
    case TARRY_MESSAGE_ROUND:
    case TARRY_MESSAGE_PROBE:
    case TARRY_MESSAGE_REPORT:
    case TARRY_MESSAGE_PART:
    case TARRY_MESSAGE_ALIVE:
    case TARRY_MESSAGE_ASK:
    case TARRY_MESSAGE_BREAK:
    case TARRY_MESSAGE_FETCH:
    case TARRY_MESSAGE_LOAD:
    case TARRY_MESSAGE_COMMIT:
    case TARRY_MESSAGE_HELD:
    case TARRY_MESSAGE_FAILED:
    case TARRY_MESSAGE_STATE:
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

uint64_t tarry_worker_voided(const tarry_worker *worker)
{
    return worker->residuals.void_count;
}

uint64_t tarry_worker_deadline(const tarry_worker *worker)
{
    (void)worker;
    return TARRY_NEVER;
}
