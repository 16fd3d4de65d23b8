/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/vote/member.h"

#include "base/sum_id.h"

static member_says reject(tarry_reject why)
{
    return (member_says){.rejects = true, .why = why};
}

static void answer(member *it, member_says *says, tarry_message_type type, uint32_t from)
{
    bool state = type == TARRY_MESSAGE_STATE;
    says->answers = true;
    says->answer = (tarry_message){
        .type = type,
        .epoch = it->epoch,
        .attempt = it->answers,
        .sum = state ? it->held : it->sum,
        .from = from,
        .fetched = !state && it->task == MEMBER_FETCHES,
    };
    if (!state)
        return;
    says->answer.last = it->last;
    says->answer.state = it->state;
}

/* What is in progress, but a step, is in progress no more. */
static void end_task(member *it, member_says *says)
{
    says->abandons = it->task != MEMBER_RESTS && it->task != MEMBER_ENCODES;
    it->task = MEMBER_RESTS;
}

static void begin(member *it, member_says *says, member_task task, const tarry_sum_id *sum,
                  uint32_t from)
{
    it->task = task;
    it->sum = *sum;
    it->from = from;
    says->begins = true;
}

/* Another connection: transfers end, an engine goes on. */
static member_says take_ask(member *it, const tarry_message *ask)
{
    member_says says = {0};
    if (ask->epoch < it->epoch || (ask->epoch == it->epoch && ask->attempt <= it->orders))
        return reject(TARRY_REJECT_STALE);
    it->epoch = ask->epoch;
    it->orders = it->answers = ask->attempt;
    it->asked = it->task == MEMBER_STEPS;
    if (it->asked)
        return says;
    if (it->task != MEMBER_REDUCES)
        end_task(it, &says);
    answer(it, &says, TARRY_MESSAGE_STATE, TARRY_NO_WORKER);
    return says;
}

static member_says take_break(member *it, const tarry_message *order)
{
    member_says says = {0};
    bool about = it->task != MEMBER_RESTS && sum_id_named(&order->sum, &it->sum);
    if (!about && order->sum.digest == 0 && !sum_id_named(&order->sum, &it->held)) {
        /* It does not make that sum, and never will. */
        answer(it, &says, TARRY_MESSAGE_FAILED, TARRY_NO_WORKER);
        says.answer.sum = order->sum;
        says.answer.fetched = false;
        return says;
    }
    if (!about || it->task == MEMBER_STEPS)
        return reject(TARRY_REJECT_STALE);
    if (it->task == MEMBER_LOADS)
        answer(it, &says, TARRY_MESSAGE_STATE, it->from);
    else
        answer(it, &says, TARRY_MESSAGE_FAILED,
               it->task == MEMBER_FETCHES ? it->from : TARRY_NO_WORKER);
    end_task(it, &says);
    return says;
}

static member_says take_fetch(member *it, const tarry_message *order)
{
    member_says says = {0};
    end_task(it, &says);
    bool held = order->sum.step > 0 && sum_id_same(&it->held, &order->sum);
    begin(it, &says, MEMBER_FETCHES, &order->sum, order->from);
    if (held) {
        says.begins = false;
        answer(it, &says, TARRY_MESSAGE_HELD, order->from);
        it->task = MEMBER_RESTS;
        return says;
    }
    it->held = (tarry_sum_id){0};
    return says;
}

static member_says take_load(member *it, const tarry_message *order)
{
    member_says says = {0};
    end_task(it, &says);
    begin(it, &says, MEMBER_LOADS, &order->sum, order->from);
    it->digests = order->digests;
    return says;
}

static member_says take_commit(member *it, const tarry_message *order)
{
    member_says says = {0};
    end_task(it, &says);
    it->digests = order->digests;
    if (order->sum.step == it->last.step + 1 && sum_id_same(&it->held, &order->sum))
        begin(it, &says, MEMBER_STEPS, &order->sum, TARRY_NO_WORKER);
    else
        answer(it, &says, TARRY_MESSAGE_STATE, TARRY_NO_WORKER);
    return says;
}

member_says member_order(member *it, const tarry_message *order)
{
    if (order->type == TARRY_MESSAGE_ASK)
        return take_ask(it, order);
    if (order->epoch != it->epoch || order->attempt <= it->orders)
        return reject(TARRY_REJECT_STALE);
    it->orders = order->attempt;
    if (order->type == TARRY_MESSAGE_BREAK)
        return take_break(it, order);
    if (it->task == MEMBER_STEPS)
        return reject(TARRY_REJECT_MISPLACED);
    it->answers = order->attempt;
    if (order->type == TARRY_MESSAGE_FETCH)
        return take_fetch(it, order);
    if (order->type == TARRY_MESSAGE_LOAD)
        return take_load(it, order);
    if (order->type == TARRY_MESSAGE_COMMIT)
        return take_commit(it, order);
    return reject(TARRY_REJECT_MISPLACED);
}

member_says member_signal(member *it, const tarry_sum_id *name)
{
    member_says says = {0};
    if (it->task == MEMBER_STEPS)
        return reject(TARRY_REJECT_MISPLACED);
    if (name->step != it->last.step + 1)
        return reject(TARRY_REJECT_RANGE);
    end_task(it, &says);
    it->held = (tarry_sum_id){0};
    it->task = MEMBER_ENCODES;
    it->sum = *name;
    return says;
}

void member_reduce(member *it)
{
    it->task = MEMBER_REDUCES;
}

member_says member_finish(member *it)
{
    member_says says = {0};
    if (it->task == MEMBER_ENCODES || it->task == MEMBER_REDUCES)
        end_task(it, &says);
    return says;
}

static member_says has_stepped(member *it, const tarry_event *event)
{
    member_says says = {0};
    it->task = MEMBER_RESTS;
    it->last = it->sum;
    it->state = event->state;
    it->asked = false;
    answer(it, &says, TARRY_MESSAGE_STATE, TARRY_NO_WORKER);
    return says;
}

static member_says has_loaded(member *it, const tarry_event *event)
{
    member_says says = {0};
    if (!event->failed) {
        it->last = event->sum;
        it->held = (tarry_sum_id){0};
        it->state = event->state;
    }
    it->task = MEMBER_RESTS;
    answer(it, &says, TARRY_MESSAGE_STATE, it->from);
    return says;
}

/* An engine or a fetch. */
static member_says has_summed(member *it, const tarry_event *event)
{
    member_says says = {0};
    bool fetched = it->task == MEMBER_FETCHES;
    it->sum.digest = event->failed && !fetched ? 0 : event->sum.digest;
    answer(it, &says, event->failed ? TARRY_MESSAGE_FAILED : TARRY_MESSAGE_HELD,
           fetched         ? it->from
           : event->failed ? event->from
                           : TARRY_NO_WORKER);
    it->task = MEMBER_RESTS;
    if (!event->failed)
        it->held = it->sum;
    return says;
}

member_says member_ended(member *it, const tarry_event *event)
{
    static const struct {
        tarry_event_type type;
        member_task task;
    } ends[] = {
        {TARRY_EVENT_REDUCED, MEMBER_REDUCES},
        {TARRY_EVENT_FETCHED, MEMBER_FETCHES},
        {TARRY_EVENT_LOADED, MEMBER_LOADS},
        {TARRY_EVENT_STEPPED, MEMBER_STEPS},
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        if (ends[i].type != event->type)
            continue;
        bool same = sum_id_named(&event->sum, &it->sum) &&
                    (it->task == MEMBER_REDUCES || event->sum.digest == it->sum.digest);
        bool later = it->task == MEMBER_LOADS && !event->failed && event->sum.step > it->sum.step;
        if (ends[i].task != it->task || (!same && !later))
            break;
        if (it->task == MEMBER_STEPS)
            return has_stepped(it, event);
        return it->task == MEMBER_LOADS ? has_loaded(it, event) : has_summed(it, event);
    }
    return reject(TARRY_REJECT_STALE);
}
