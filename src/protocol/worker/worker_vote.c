/* SPDX-License-Identifier: Apache-2.0 */
/* TARRY_SUM_EVERYWHERE: what protocol/vote/member.h says, as effects. */
#include <string.h>

#include <tarry/worker.h>

#include "base/diagnostic.h"
#include "protocol/worker/worker_state.h"
#include "route/route.h"

static void begin(tarry_worker *worker)
{
    static const tarry_effect_type types[] = {
        [MEMBER_REDUCES] = TARRY_EFFECT_REDUCE,
        [MEMBER_FETCHES] = TARRY_EFFECT_FETCH,
        [MEMBER_LOADS] = TARRY_EFFECT_LOAD,
        [MEMBER_STEPS] = TARRY_EFFECT_STEP,
    };
    const member *it = &worker->vote;
    tarry_effect *effect = worker_emit(worker, types[it->task]);
    effect->sum = it->sum;
    effect->from = it->from;
    effect->digests = it->digests;
}

static int carry_out(tarry_worker *worker, const member_says *says)
{
    if (says->rejects)
        return worker_reject(worker, says->why);
    if (says->abandons)
        worker_emit(worker, TARRY_EFFECT_ABANDON);
    if (says->stops)
        worker_emit(worker, TARRY_EFFECT_STOP)->sum = worker->vote.sum;
    if (says->begins)
        begin(worker);
    if (says->answers) {
        tarry_message *answer = &worker_emit(worker, TARRY_EFFECT_SEND)->message;
        *answer = says->answer;
        answer->round = worker->round;
    }
    return TARRY_OK;
}

int worker_vote_order(tarry_worker *worker, const tarry_message *order)
{
    if (!worker_sums_everywhere(worker))
        return worker_reject(worker, TARRY_REJECT_MISPLACED);
    member_says says = member_order(&worker->vote, order);
    if (!says.rejects && order->type == TARRY_MESSAGE_ASK)
        worker_arrive(worker, order->epoch);
    else if (!says.rejects && worker->vote.task != MEMBER_ENCODES)
        bitset_clear(worker->pending, worker->stripes);
    if (!says.rejects && worker_steps(worker))
        worker_stop(worker); /* the round is over, and its parameters are about to go */
    return carry_out(worker, &says);
}

/* With the step done, what waited for the new parameters begins. */
int worker_vote_ended(tarry_worker *worker, const tarry_event *event)
{
    if (!worker_sums_everywhere(worker))
        return TARRY_ERROR_ARGUMENT;
    member_says says = member_ended(&worker->vote, event);
    int error = carry_out(worker, &says);
    if (!says.rejects && event->type == TARRY_EVENT_STEPPED && worker->active && !worker->stopped)
        worker_go_on(worker); /* the server may have told it other things meanwhile */
    return error;
}

/* Whether a piece of that length can be part of this attempt's sum. */
static bool may_stand(const tarry_worker *worker, const tarry_message *signal)
{
    layout cut =
        layout_make(worker->settings.dimension, signal->parts, worker->settings.stripe_length);
    if (signal->piece.step == 0)
        return signal->whole == 0;
    return signal->piece.step == signal->sum.step && signal->whole > 0 &&
           signal->whole <= cut.part_length && layout_stand(&cut, signal->whole) == signal->whole;
}

/* Whether those who take part can make a sum in that shape. */
static bool has_shape(const tarry_worker *worker, const tarry_message *signal)
{
    uint32_t members = (uint32_t)bitset_count(signal->group, worker->plan->workers);
    return signal->shape.kind == TARRY_SHAPE_AUTO || route_is_legal(signal->shape, members);
}

bool worker_vote_signalled(tarry_worker *worker, const tarry_message *signal, tarry_reject *why)
{
    bool everywhere = worker_sums_everywhere(worker);
    *why = TARRY_REJECT_MISPLACED;
    if (everywhere != (signal->group != NULL) ||
        (everywhere && !bitset_test(signal->group, worker->settings.worker)))
        return false;
    if (!everywhere)
        return true;
    if (!may_stand(worker, signal) || !has_shape(worker, signal)) {
        *why = TARRY_REJECT_RANGE;
        return false;
    }
    member_says says = member_signal(&worker->vote, &signal->sum, &signal->piece);
    *why = says.why;
    if (says.rejects)
        return false;
    carry_out(worker, &says);
    if (signal->group != worker->group)
        memcpy(worker->group, signal->group,
               bitset_words(worker->plan->workers) * sizeof(uint64_t));
    worker->scale = signal->scale;
    worker->shape = signal->shape;
    worker->piece = signal->piece;
    worker->whole = signal->whole;
    worker->piece_from = signal->from;
    return true;
}

void worker_vote_reduce(tarry_worker *worker)
{
    if (worker->vote.task != MEMBER_ENCODES || worker->encoding)
        return;
    member_reduce(&worker->vote);
    tarry_effect *effect = worker_emit(worker, TARRY_EFFECT_REDUCE);
    effect->sum = worker->vote.sum;
    effect->message.group = worker->group;
    effect->message.shape = worker->shape;
    effect->message.piece = worker->piece;
    effect->message.whole = worker->whole;
    effect->message.from = worker->piece_from;
    effect->parts = worker->parts;
    effect->scale = worker->scale;
    effect->empty = !worker->contributes;
}

void worker_vote_end(tarry_worker *worker)
{
    member_says says = member_finish(&worker->vote);
    carry_out(worker, &says);
}

int tarry_worker_adopt(tarry_worker *worker, const tarry_worker *from, tarry_diagnostic *diagnostic)
{
    if (!worker_sums_everywhere(worker) || !worker_sums_everywhere(from) ||
        worker->settings.worker != from->settings.worker)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "worker %u: it goes on where worker %u sums among workers",
                        worker->settings.worker, from->settings.worker);
    if (worker->vote.epoch != 0 || from->vote.task == MEMBER_STEPS)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "worker %u: it is in use already, or the one before steps",
                        worker->settings.worker);
    worker->vote = (member){
        /* The server asks again, in the same arrival. */
        .epoch = from->vote.epoch > 0 ? from->vote.epoch - 1 : 0,
        .last = from->vote.last,
        .held = from->vote.held,
        .state = from->vote.state,
    };
    return TARRY_OK;
}
