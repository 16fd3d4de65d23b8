/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/executor_step.h"

#include <assert.h>

#include "base/bitset.h"
#include "coding/transfer.h"
#include "protocol/form.h"
#include "runtime/clock.h"

/* Of one step of the machine. */
enum { MOST_SENDS = 4 };

/* With the lock held: what may be done under it is done, what may not is kept here. */
typedef struct due {
    size_t fold_count; /* of the slate's folds */
    bool begins_sum;   /* the first of them */
    tarry_message sends[MOST_SENDS];
    size_t send_count;
    bool computes;   /* there is a task */
    uint32_t voided; /* residuals that were thrown away */
    bool encode;
    tarry_effect encode_effect;
    bool abandon; /* what goes on among the workers, */
    bool halt;    /* or, a REDUCE, with what it has come to */
    bool order;   /* REDUCE, FETCH, LOAD or STEP */
    tarry_effect order_effect;
    bool changed;          /* the executor leaves and has become idle */
    tarry_refusal refusal; /* nothing is sent any more */
    bool give_up;          /* the machine failed: the server shall do without this own */
} due;

void executor_free_place(executor *self, uint32_t slot)
{
    if (self->slate->keep == TARRY_KEEP_CREDITED)
        worker_slate_free_place(self->slate, slot);
}

/* The talking thread's, as what it encodes is: no numbers are moved. Gives back how many residuals
 * were thrown away. */
static uint32_t settle(worker_slate *seat, const tarry_effect *effect)
{
    uint32_t voided = 0;
    for (uint32_t stripe = 0; stripe < seat->shape.stripes; stripe++) {
        if (bitset_test(effect->stood, stripe))
            residuals_commit(seat->residuals, stripe);
        if (bitset_test(effect->voids, stripe))
            residuals_void(seat->residuals, stripe);
        voided += bitset_test(effect->voids, stripe);
    }
    return voided;
}

static void carry_out(executor *self, const tarry_effects *effects, due *todo)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            assert(todo->send_count < MOST_SENDS);
            todo->sends[todo->send_count++] = effect->message;
            break;
        case TARRY_EFFECT_COMPUTE:
            self->task = (executor_task){
                .ticket = ++self->tickets,
                .round = effect->round,
                .slot = effect->slot,
                .chunk = effect->chunk,
            };
            pthread_cond_broadcast(&self->change);
            break;
        case TARRY_EFFECT_CANCEL:
            self->task.ticket = 0;
            executor_free_place(self, effect->slot);
            pthread_cond_broadcast(&self->change);
            break;
        case TARRY_EFFECT_FOLD:
            todo->begins_sum = todo->begins_sum || effect->begins;
            self->slate->weights[todo->fold_count] = effect->weight;
            self->slate->folds[todo->fold_count++] = effect->slot;
            break;
        case TARRY_EFFECT_DROP:
            executor_free_place(self, effect->slot);
            break;
        case TARRY_EFFECT_SETTLE:
            todo->voided = settle(self->slate, effect);
            break;
        case TARRY_EFFECT_REFUSE:
            todo->refusal = effect->refusal;
            break;
        case TARRY_EFFECT_ENCODE:
            todo->encode = true;
            todo->encode_effect = *effect;
            break;
        case TARRY_EFFECT_ABANDON:
            todo->abandon = true;
            self->abandoning = true;
            break;
        case TARRY_EFFECT_STOP:
            todo->halt = true;
            break;
        case TARRY_EFFECT_REDUCE:
            collective_gather(self->settings.collective, effect->message.group);
            todo->order = true;
            todo->order_effect = *effect;
            break;
        case TARRY_EFFECT_FETCH:
        case TARRY_EFFECT_LOAD:
        case TARRY_EFFECT_STEP:
            todo->order = true;
            todo->order_effect = *effect;
            break;
        default: /* REJECT: stale or from a server gone astray: nothing to do; the server's */
            break;
        }
    }
}

/* With the lock held. */
static void follow_round(executor *self, const tarry_event *event, const tarry_effects *effects)
{
    if (event->type != TARRY_EVENT_MESSAGE)
        return;
    if (effects->count > 0 && effects->items[0].type == TARRY_EFFECT_REJECT)
        return;
    if (event->message->type == TARRY_MESSAGE_ROUND) {
        self->in_round = true;
        self->told = event->message->round;
        if (self->settings.collective != NULL && self->owed.stage == OWED_NOTHING)
            snapshots_label(self->settings.snapshots, self->told);
    } else if (event->message->type == TARRY_MESSAGE_FINISH) {
        self->in_round = false;
    }
}

/* Steps the machine; with the lock held. */
static void step(executor *self, const tarry_event *event, due *todo)
{
    const tarry_effects *effects;
    *todo = (due){0};
    int error = tarry_worker_step(self->slate->machine, clock_now_ns(), event, &effects);
    if (error == TARRY_OK) {
        bool was_in_round = self->in_round;
        follow_round(self, event, effects);
        todo->changed = self->leaving && was_in_round && !self->in_round;
        carry_out(self, effects, todo);
        todo->computes = self->task.ticket != 0;
    } else {
        todo->give_up = true;
    }
}

size_t executor_place_of(const worker_slate *seat, uint64_t round, uint32_t slot)
{
    return (size_t)(round % seat->banks) * seat->load + slot;
}

static bool is_leaving(executor *self)
{
    pthread_mutex_lock(&self->lock);
    bool leaving = self->leaving;
    pthread_mutex_unlock(&self->lock);
    return leaving;
}

void executor_claim(executor *self, size_t first, size_t count)
{
    const executor_uplink *uplink = &self->settings.uplink;
    if (self->settings.collective == NULL) /* else nobody else reads it, but in a REDUCE */
        uplink->claim(uplink->user, first, count);
}

/*
 * The gradient that z equals, number for number; NULL: none. Only for a sum among workers: it is
 * read there until the order is abandoned or over, and nothing is computed before that.
 */
static const float *lone_gradient(const executor *self, const tarry_effect *effect)
{
    const worker_slate *seat = self->slate;
    const float *found = NULL;
    if (self->settings.collective == NULL || effect->parts != 1)
        return NULL;
    for (uint32_t slot = 0; slot < seat->load; slot++) {
        if (effect->coefficients[slot] == 0)
            continue;
        if (found != NULL || effect->coefficients[slot] != 1)
            return NULL;
        found = seat->inputs[slot];
    }
    return found;
}

/* The stripe of z in the form in which it is sent, at `packed`, with what rounding lost of those
 * before, if that is kept. */
static void pack(executor *self, const tarry_effect *effect, compress_form form, const float *z,
                 size_t count, void *packed)
{
    const executor_settings *settings = &self->settings;
    const uint64_t key = compress_key(settings->compress_seed, effect->round, effect->attempt,
                                      settings->worker, effect->stripe);
    if (self->slate->residuals != NULL)
        residuals_encode(self->slate->residuals, effect->stripe, form, z, key, packed);
    else
        compress_encode(form, z, count, key, packed);
}

/* POWERSGD: lends the round's factor, in the parameters that it came with. False: these are not
 * there any more, and the round is over. */
static bool borrow_factor(const executor *self, uint64_t round, snapshot **held,
                          compress_form *form)
{
    const executor_settings *settings = &self->settings;
    const size_t numbers = form_factor_numbers(settings->form);
    if (numbers == 0)
        return true;
    *held = snapshots_hold(settings->snapshots);
    if (*held == NULL || (*held)->round != round)
        return false;
    *form = form_with(*form, (*held)->parameters + settings->snapshots->parameters - numbers);
    return true;
}

/* Sends the stripe of z. Who leaves leaves nothing behind: it is not rounded. */
static void post_stripe(executor *self, const tarry_effect *effect, const layout *cut)
{
    const executor_settings *settings = &self->settings;
    snapshot *held = NULL;
    size_t start = layout_stripe_start(cut, effect->stripe);
    size_t length = layout_stripe_length(cut, effect->stripe);
    const float *z = self->slate->part + start;
    void *packed = worker_slate_stripe(self->slate, cut, effect->stripe);
    const void *bytes = packed;
    tarry_message part = effect->message;
    compress_form form = form_of_stripe(
        form_in_round(settings->form, settings->dense, effect->round), cut, effect->stripe);
    const bool lent = borrow_factor(self, effect->round, &held, &form);
    part.form = form.kind;
    if (part.form != TARRY_COMPRESS_NONE)
        executor_claim(self, start, length);
    if (self->slate->residuals != NULL && (!lent || is_leaving(self))) {
        part.form = TARRY_COMPRESS_NONE;
        form = (compress_form){.kind = TARRY_COMPRESS_NONE};
        bytes = residuals_flush(self->slate->residuals, effect->stripe, z);
    } else if (part.form != TARRY_COMPRESS_NONE) {
        pack(self, effect, form, z, length, packed);
    }
    snapshots_release(settings->snapshots, held);
    settings->uplink.post_part(settings->uplink.user, &part,
                               &(executor_stripe){
                                   .first = start,
                                   .count = length,
                                   .bytes = bytes,
                                   .size = compress_bytes(form, length),
                               });
}

/*
 * The coefficients stay valid meanwhile: the machine takes no event that changes them before it has
 * heard of the end of the encoding, since only this thread brings it messages and nothing is
 * computed while it encodes.
 */
static void encode(executor *self, const tarry_effect *effect)
{
    const executor_settings *settings = &self->settings;
    worker_slate *seat = self->slate;
    layout cut = layout_make(settings->cut.dimension, effect->parts, settings->cut.stripe_length);
    size_t start = layout_stripe_start(&cut, effect->stripe);
    const float *lone = NULL;
    self->answering = true;
    if (seat->keep == TARRY_KEEP_ALL) { /* otherwise the part is the running sum */
        for (uint32_t slot = 0; slot < seat->load; slot++)
            seat->inputs[slot] = seat->gradient[executor_place_of(
                seat, effect->round + bitset_test(effect->stale, slot), slot)];
        lone = lone_gradient(self, effect);
        executor_claim(self, start, layout_stripe_length(&cut, effect->stripe));
        if (lone == NULL)
            transfer_encode(settings->kernels, &cut, effect->stripe, seat->inputs,
                            effect->coefficients, seat->load, seat->part + start, seat->scratch);
    }
    seat->coded = lone != NULL ? lone : seat->part;
    if (settings->masking != NULL)
        executor_post_secure(self, effect, &cut);
    else if (settings->collective == NULL)
        post_stripe(self, effect, &cut);
    self->encoded = true;
    self->encoded_event = (tarry_event){
        .type = TARRY_EVENT_ENCODED,
        .round = effect->round,
        .attempt = effect->attempt,
        .stripe = effect->stripe,
    };
}

/* Adds the gradients at the slate's folds to its running sum. */
static void fold_open(executor *self, size_t count, bool begins)
{
    const executor_settings *settings = &self->settings;
    bool taken = begins && settings->collective != NULL && !self->slate->lent &&
                 self->slate->weights[0] == 1;
    if (taken)
        worker_slate_begin_part(self->slate, self->slate->folds[0]);
    for (size_t i = taken; i < count; i++) {
        const float *gradient = self->slate->gradient[self->slate->folds[i]];
        settings->kernels->combine(self->slate->part, &gradient, &self->slate->weights[i], 1,
                                   settings->cut.dimension,
                                   begins && i == 0 ? KERNEL_SET : KERNEL_ADD);
    }
}

/* The server reads no part of an attempt that it has withdrawn, nor of a round that is over: it is
 * then that sums change. */
static void fold(executor *self, const due *todo)
{
    const executor_settings *settings = &self->settings;
    executor_claim(self, 0, settings->cut.dimension);
    if (settings->masking != NULL)
        executor_fold_secure(self, todo->fold_count, todo->begins_sum);
    else
        fold_open(self, todo->fold_count, todo->begins_sum);
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < todo->fold_count; i++)
        executor_free_place(self, self->slate->folds[i]);
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
}

/* Leaves the step to the replica's owner. */
static void owe_step(executor *self, const tarry_effect *effect)
{
    const executor_uplink *uplink = &self->settings.uplink;
    const float *numbers;
    int error = collective_lend(self->settings.collective, &effect->sum, &numbers);
    if (error != TARRY_OK) {
        uplink->broken(uplink->user, error);
        return;
    }
    pthread_mutex_lock(&self->lock);
    self->owed = (executor_owed){
        .stage = OWED_STEP, .sum = effect->sum, .numbers = numbers, .digests = effect->digests};
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
}

static void step_replica(executor *self, const tarry_effect *effect)
{
    const executor_uplink *uplink = &self->settings.uplink;
    uint64_t state = 0;
    int error = collective_step(self->settings.collective, &effect->sum, effect->digests, &state);
    if (error != TARRY_OK) {
        uplink->broken(uplink->user, error);
        return;
    }
    self->stepped = true;
    self->stepped_event =
        (tarry_event){.type = TARRY_EVENT_STEPPED, .sum = effect->sum, .state = state};
}

/* What is to be done among the workers. */
static void begin_order(executor *self, const tarry_effect *effect)
{
    collective *among = self->settings.collective;
    const worker_slate *seat = self->slate;
    switch (effect->type) {
    case TARRY_EFFECT_REDUCE:
        collective_reduce(among, &(collective_sum){
                                     .name = effect->sum,
                                     .plan = seat->plan,
                                     .parts = effect->parts,
                                     .scale = effect->scale,
                                     .shape = effect->message.shape,
                                     .part = effect->empty ? NULL : seat->coded,
                                     .piece = effect->message.piece,
                                     .whole = (size_t)effect->message.whole,
                                     .from = effect->message.from,
                                 });
        break;
    case TARRY_EFFECT_FETCH:
        collective_fetch(among, effect->from, &effect->sum);
        break;
    case TARRY_EFFECT_LOAD:
        collective_load(among, effect->from, &effect->sum, effect->digests);
        break;
    default:
        if (collective_is_stepped(among))
            owe_step(self, effect);
        else
            step_replica(self, effect);
        break;
    }
}

/* Nothing is computed before it is over: it may read gradients. */
static void abandon(executor *self)
{
    collective_abandon(self->settings.collective);
    pthread_mutex_lock(&self->lock);
    self->abandoning = false;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
}

void executor_voided(executor *self, uint32_t stripes)
{
    const executor_uplink *uplink = &self->settings.uplink;
    if (uplink->voided != NULL && stripes > 0)
        uplink->voided(uplink->user, stripes);
}

/* What a step left to be done without the lock. */
static void follow_up(executor *self, const due *todo)
{
    const executor_uplink *uplink = &self->settings.uplink;
    if (todo->abandon)
        abandon(self);
    if (todo->halt)
        collective_halt(self->settings.collective);
    executor_voided(self, todo->voided);
    if (todo->fold_count > 0)
        fold(self, todo);
    for (size_t i = 0; i < todo->send_count; i++)
        uplink->post(uplink->user, &todo->sends[i], todo->computes);
    if (todo->encode)
        encode(self, &todo->encode_effect);
    if (todo->order)
        begin_order(self, &todo->order_effect);
    if (todo->changed)
        uplink->changed(uplink->user);
    if (todo->refusal != TARRY_REFUSAL_NONE)
        executor_refuse(self, TARRY_ERROR_STATE, tarry_refusal_text(todo->refusal));
    if (todo->give_up)
        uplink->give_up(uplink->user);
}

bool executor_has_kept(const executor *self)
{
    const executor_task *task = &self->task;
    const worker_slate *seat = self->slate;
    if (task->begun || seat->keep != TARRY_KEEP_ALL)
        return false;
    uint64_t finished = seat->finished[executor_place_of(seat, task->round, task->slot)];
    return finished > 0 && finished == snapshots_generation(self->settings.snapshots, task->round);
}

static bool take_answer(executor *self, tarry_event *event)
{
    executor_task *task = &self->task;
    if (task->ticket == 0)
        return false;
    bool kept = executor_has_kept(self);
    bool refused = self->leaving && (!task->begun || clock_now_ns() >= self->grace_until_ns);
    if (!kept && !refused)
        return false;
    if (!kept)
        executor_free_place(self, task->slot);
    task->ticket = 0;
    pthread_cond_broadcast(&self->change);
    *event = (tarry_event){
        .type = TARRY_EVENT_COMPUTED, .round = task->round, .slot = task->slot, .failed = !kept};
    return true;
}

static void take_step(executor *self, const tarry_event *event)
{
    due todo;
    step(self, event, &todo);
    assert(event->type != TARRY_EVENT_COMPUTED ||
           (!todo.encode && !todo.order && todo.fold_count == 0));
    pthread_mutex_unlock(&self->lock);
    follow_up(self, &todo);
    pthread_mutex_lock(&self->lock);
}

void executor_answer(executor *self)
{
    tarry_event answer;
    while (take_answer(self, &answer))
        take_step(self, &answer);
}

void executor_step(executor *self, const tarry_event *event)
{
    take_step(self, event);
    executor_answer(self);
}
