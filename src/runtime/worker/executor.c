/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/executor.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tarry/compute.h>
#include <tarry/straggler.h>
#include <tarry/worker.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "coding/kernel.h"
#include "coding/layout.h"
#include "plan/plan.h"
#include "protocol/form.h"
#include "runtime/clock.h"
#include "runtime/worker/collective.h"
#include "runtime/worker/secure_sum.h"
#include "runtime/worker/worker_host.h"
#include "straggler/straggler.h"

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
    bool abandon; /* what goes on among the workers */
    bool order;   /* REDUCE, FETCH, LOAD or STEP */
    tarry_effect order_effect;
    bool changed;          /* the executor leaves and has become idle */
    tarry_refusal refusal; /* nothing is sent any more */
    bool give_up;          /* the machine failed: the server shall do without this own */
} due;

/* A spare place for the gradient at `slot`; there has to be one. */
static uint32_t worker_slate_take_place(worker_slate *self, uint32_t slot)
{
    assert(self->spare_count > 0 && self->gradient[slot] == TARRY_NO_PLACE);
    self->gradient[slot] = self->spare[--self->spare_count];
    return self->gradient[slot];
}

/* Gives the place of the gradient at `slot` back, if it has any. */
static void worker_slate_free_place(worker_slate *self, uint32_t slot)
{
    if (self->gradient[slot] != TARRY_NO_PLACE)
        self->spare[self->spare_count++] = self->gradient[slot];
    self->gradient[slot] = TARRY_NO_PLACE;
}

/* TARRY_KEEP_CREDITED: the gradient at `slot` becomes the part, and what the part was takes its
 * place. */
static void worker_slate_begin_part(worker_slate *self, uint32_t slot)
{
    const uint32_t part = self->part;
    self->part = self->gradient[slot];
    self->gradient[slot] = part;
}

/* The gradient at `slot` is not needed any more. With the lock held. */
static void executor_free_place(executor *self, uint32_t slot)
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
        case TARRY_EFFECT_REDUCE:
            collective_gather(self->collective, effect->message.group);
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
        if (self->collective != NULL && self->owed.stage == OWED_NOTHING)
            snapshots_label(self->snapshots, self->told);
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

/* The place of a slot's gradient with TARRY_KEEP_ALL. Rounds take turns with the banks, so that
 * the gradients of one stay while the next is computed. */
static size_t executor_place_of(const worker_slate *seat, uint64_t round, uint32_t slot)
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
    if (self->collective == NULL && uplink->claim != NULL) /* a REDUCE reads it in its time */
        uplink->claim(uplink->user, first, count);
}

/* Where the gradient at `slot` is that an ENCODE means, with TARRY_KEEP_ALL. */
static uint32_t kept_gradient(const worker_slate *seat, const tarry_effect *effect, uint32_t slot)
{
    const uint64_t round = effect->round + bitset_test(effect->stale, slot);
    return seat->gradient[executor_place_of(seat, round, slot)];
}

/* All of z, for a sum among workers of one part. A gradient that z equals, number for number, is
 * not copied: it is read until the order is abandoned or over, and nothing is computed before. */
static int encode_whole(worker_slate *seat, const tarry_effect *effect)
{
    tarry_vectors *owner = seat->vectors->owner;
    const float *coefficients = effect->coefficients;
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < seat->load; slot++) {
        if (coefficients[slot] == 0)
            continue;
        seat->addends[count] = kept_gradient(seat, effect, slot);
        seat->weights[count++] = coefficients[slot];
    }
    const bool lone = count == 1 && seat->weights[0] == 1;
    seat->coded = lone ? seat->addends[0] : seat->part;
    return lone ? TARRY_OK
                : owner->methods->combine(owner, seat->part, TARRY_NO_PLACE, seat->addends,
                                          seat->weights, count);
}

/* A stripe of z; all is in host memory. */
static void encode_stripe(executor *self, const tarry_effect *effect)
{
    const layout *cut = &self->cut;
    const worker_slate *seat = self->slate;
    const size_t start = layout_stripe_start(cut, effect->stripe);
    for (uint32_t slot = 0; slot < seat->load; slot++)
        seat->inputs[slot] =
            worker_vectors_floats(seat->vectors, kept_gradient(seat, effect, slot));
    executor_claim(self, start, layout_stripe_length(cut, effect->stripe));
    transfer_encode(self->kernels, cut, effect->stripe, seat->inputs, effect->coefficients,
                    seat->load, worker_slate_part(seat) + start, seat->scratch);
}

/* The owner of vectors failed, and the worker can't go on. */
static void executor_break(const executor *self, int error)
{
    const executor_uplink *uplink = &self->settings.uplink;
    uplink->give_up(uplink->user, error, "the owner of its vectors failed");
}

/* The stripe of z in the form in which it is sent, at `packed`, with what rounding lost of those
 * before, if that is kept. */
static void pack(executor *self, const tarry_effect *effect, compress_form form, const float *z,
                 size_t count, void *packed)
{
    const executor_settings *settings = &self->settings;
    const uint64_t key = compress_key(self->compress_seed, effect->round, effect->attempt,
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
    const size_t numbers = form_factor_numbers(self->form);
    if (numbers == 0)
        return true;
    *held = snapshots_hold(self->snapshots);
    if (*held == NULL || (*held)->round != round)
        return false;
    *form = form_with(*form, (*held)->parameters + self->snapshots->parameters - numbers);
    return true;
}

/* Sends the stripe of z. Who leaves leaves nothing behind: it is not rounded. */
static void post_stripe(executor *self, const tarry_effect *effect, const layout *cut)
{
    const executor_settings *settings = &self->settings;
    snapshot *held = NULL;
    size_t start = layout_stripe_start(cut, effect->stripe);
    size_t length = layout_stripe_length(cut, effect->stripe);
    const float *z = worker_slate_part(self->slate) + start;
    void *packed = worker_slate_stripe(self->slate, cut, effect->stripe);
    const void *bytes = packed;
    tarry_message part = effect->message;
    compress_form form =
        form_of_stripe(form_in_round(self->form, effect->round), cut, effect->stripe);
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
    snapshots_release(self->snapshots, held);
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
    const layout *cut = &self->cut;
    int error = TARRY_OK;
    self->answering = true;
    if (seat->keep == TARRY_KEEP_CREDITED)
        seat->coded = seat->part; /* the running sum */
    else if (self->collective == NULL || seat->room != NULL)
        encode_stripe(self, effect);
    else if (effect->stripe == 0)
        error = encode_whole(seat, effect);
    if (error != TARRY_OK) {
        executor_break(self, error);
        return;
    }
    if (settings->masking != NULL)
        executor_post_secure(self, effect, cut);
    else if (self->collective == NULL)
        post_stripe(self, effect, cut);
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
    worker_slate *seat = self->slate;
    const bool taken = begins && self->collective != NULL && seat->weights[0] == 1;
    if (taken)
        worker_slate_begin_part(seat, seat->folds[0]);
    for (size_t i = taken; i < count; i++)
        seat->addends[i] = seat->gradient[seat->folds[i]];
    if (taken && count == 1)
        return;
    tarry_vectors *owner = seat->vectors->owner;
    const uint32_t base = begins && !taken ? TARRY_NO_PLACE : seat->part;
    int error = owner->methods->combine(owner, seat->part, base, seat->addends + taken,
                                        seat->weights + taken, (uint32_t)count - taken);
    if (error != TARRY_OK)
        executor_break(self, error);
}

/* The server reads no part of an attempt that it has withdrawn, nor of a round that is over: it is
 * then that sums change. */
static void fold(executor *self, const due *todo)
{
    const executor_settings *settings = &self->settings;
    executor_claim(self, 0, self->cut.dimension);
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
    int error = collective_lend(self->collective, &effect->sum, &numbers);
    if (error != TARRY_OK) {
        uplink->give_up(uplink->user, error, tarry_error_text(error));
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
    int error = collective_step(self->collective, &effect->sum, effect->digests, &state);
    if (error != TARRY_OK) {
        uplink->give_up(uplink->user, error, tarry_error_text(error));
        return;
    }
    self->stepped = true;
    self->stepped_event =
        (tarry_event){.type = TARRY_EVENT_STEPPED, .sum = effect->sum, .state = state};
}

/* What is to be done among the workers. */
static void begin_order(executor *self, const tarry_effect *effect)
{
    collective *among = self->collective;
    const worker_slate *seat = self->slate;
    switch (effect->type) {
    case TARRY_EFFECT_REDUCE:
        collective_reduce(among, &(collective_sum){
                                     .name = effect->sum,
                                     .plan = seat->plan,
                                     .scale = effect->scale,
                                     .part = effect->empty ? NULL : seat->room,
                                     .place = effect->empty ? TARRY_NO_PLACE : seat->coded,
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
    collective_abandon(self->collective);
    pthread_mutex_lock(&self->lock);
    self->abandoning = false;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
}

/* Residuals of so many stripes are thrown away; 0: none. */
static void executor_voided(executor *self, uint32_t stripes)
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
    executor_voided(self, todo->voided);
    if (todo->fold_count > 0)
        fold(self, todo);
    for (size_t i = 0; i < todo->send_count; i++)
        uplink->post(uplink->user, &todo->sends[i], todo->computes);
    if (todo->encode)
        encode(self, &todo->encode_effect);
    if (todo->order)
        begin_order(self, &todo->order_effect);
    if (todo->changed && uplink->changed != NULL)
        uplink->changed(uplink->user);
    if (todo->refusal != TARRY_REFUSAL_NONE)
        executor_refuse(self, TARRY_ERROR_STATE, tarry_refusal_text(todo->refusal));
    if (todo->give_up)
        uplink->give_up(uplink->user, TARRY_OK, "");
}

/* Whether the task's gradient is there. With the lock held. */
static bool executor_has_kept(const executor *self)
{
    const executor_task *task = &self->task;
    const worker_slate *seat = self->slate;
    if (task->begun || seat->keep != TARRY_KEEP_ALL)
        return false;
    uint64_t finished = seat->finished[executor_place_of(seat, task->round, task->slot)];
    return finished > 0 && finished == snapshots_generation(self->snapshots, task->round);
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

/* Answers what the machine waits for if that needs no computing: a gradient that is there, or a
 * worker that leaves. With the lock held, as executor_step. */
static void executor_answer(executor *self)
{
    tarry_event answer;
    while (take_answer(self, &answer))
        take_step(self, &answer);
}

static void executor_step(executor *self, const tarry_event *event)
{
    take_step(self, event);
    executor_answer(self);
}

/* ---- compute ---- */

/* With the lock held. */
static bool is_current(const executor *self, uint64_t ticket)
{
    return self->task.ticket == ticket && !self->closing;
}

/* What the straggler makes of `bare` for all that the chunk stands for. Seconds of a trace that
 * belong to chunks are those of the first. */
static uint64_t injected_ns(const executor *self, const executor_call *call, uint64_t bare)
{
    const executor_settings *settings = &self->settings;
    const tarry_span *spans = call->task.spans;
    double size = 0;
    if (settings->straggler == NULL)
        return bare;
    for (uint32_t i = 0; i < call->task.span_count; i++)
        size += (double)spans[i].count / spans[i].of;
    uint64_t whole = size == 1 ? bare : (uint64_t)((double)bare / size);
    uint64_t ns = tarry_straggler_time_ns(settings->straggler, call->task.round, settings->worker,
                                          call->slot, spans[0].origin, self->pieces, whole);
    return size == 1 || ns == TARRY_NEVER ? ns : (uint64_t)((double)ns * size);
}

/* Stays busy until the injected time is over, as long as the result is wanted. Gives back whether
 * that time has come; *taken_ns: how long the task took. With the lock held. */
static bool straggle(executor *self, const executor_call *call, uint64_t *taken_ns)
{
    uint64_t bare = clock_now_ns() - call->start_ns;
    *taken_ns = injected_ns(self, call, bare);
    if (*taken_ns <= bare) {
        *taken_ns = bare;
        return true;
    }
    uint64_t end =
        call->start_ns <= TARRY_NEVER - *taken_ns ? call->start_ns + *taken_ns : TARRY_NEVER;
    while (is_current(self, call->task.ticket) && clock_now_ns() < end)
        clock_wait(&self->change, &self->lock, end);
    return clock_now_ns() >= end;
}

/*
 * Whether there is a place for a gradient. While all are taken by finished ones the machine has
 * given one up, but it is still being folded. With the lock held, and no task out: nobody writes
 * into a spare place any more.
 */
static bool has_place(const executor *self)
{
    return self->slate->keep == TARRY_KEEP_ALL || self->slate->spare_count > 0;
}

/* What needs no computing is left to those who step the machine. */
static bool has_task(const executor *self)
{
    return self->task.ticket != 0 && !self->task.begun && !self->call.out && !self->leaving &&
           !self->abandoning && has_place(self) && !executor_has_kept(self);
}

/* How many numbers a round begins with: without a factor that follows them. */
static size_t executor_parameters(const executor *self)
{
    return self->snapshots->parameters - form_factor_numbers(self->form);
}

/* What is needed while the lock is not held. */
static void hand_out(executor *self, snapshot *held)
{
    worker_slate *seat = self->slate;
    uint32_t slot = self->task.slot;
    uint64_t round = self->task.round;
    size_t place = executor_place_of(seat, round, slot);
    const collective *among = self->collective;
    bool bare = among != NULL && !collective_has_parameters(among);
    const uint32_t *offset = seat->span_offset + slot;
    self->task.begun = true;
    if (seat->keep == TARRY_KEEP_ALL)
        seat->finished[place] = 0;
    const uint32_t where = seat->keep == TARRY_KEEP_CREDITED ? worker_slate_take_place(seat, slot)
                                                             : seat->gradient[place];
    self->call = (executor_call){
        .out = true,
        .slot = slot,
        .seat = seat,
        .held = held,
        .generation = held->generation,
        .start_ns = clock_now_ns(),
        .task =
            {
                .worker = self->settings.worker,
                .chunk = self->task.chunk,
                .round = round,
                .parameters = bare ? NULL : held->parameters,
                .parameter_count = bare ? 0 : executor_parameters(self),
                .spans = seat->span + offset[0],
                .span_count = offset[1] - offset[0],
                .gradient = worker_vectors_floats(seat->vectors, where),
                .place = where,
                .dimension = self->cut.dimension,
                .owner = self,
                .ticket = self->task.ticket,
            },
    };
}

static bool has_step(const executor *self)
{
    return self->owed.stage == OWED_STEP && !self->call.out;
}

/* With the lock held. */
static void hand_out_step(executor *self)
{
    self->owed.stage = OWED_TAKEN;
    self->call = (executor_call){
        .out = true,
        .task =
            {
                .worker = self->settings.worker,
                .sum = self->owed.numbers,
                .step = self->owed.sum.step,
                .place = TARRY_PLACE_SUM,
                .dimension = self->cut.dimension,
                .owner = self,
                .ticket = ++self->tickets,
            },
    };
}

/* With the lock held. */
static void report(executor *self, bool good, uint64_t taken_ns)
{
    uint64_t round = self->task.round;
    uint32_t slot = self->task.slot;
    if (good)
        atomic_fetch_add(&self->busy_ns, taken_ns);
    else
        executor_free_place(self, slot);
    self->task.ticket = 0;
    executor_step(self,
                  &(tarry_event){
                      .type = TARRY_EVENT_COMPUTED, .round = round, .slot = slot, .failed = !good});
}

/* Hands out what there is to step on or to compute, if there is anything. With the lock held, which
 * is let go for each task whose round is over: all is looked at anew then. */
static bool begin_task(executor *self)
{
    snapshots *pool = self->snapshots;
    while (!self->closing) {
        if (has_step(self)) {
            hand_out_step(self);
            return true;
        }
        if (!has_task(self))
            return false;
        snapshot *held = snapshots_hold(pool);
        if (held != NULL && held->round == self->task.round) {
            hand_out(self, held);
            return true;
        }
        /* The round is over, and its end is on its way here. */
        snapshots_release(pool, held);
        report(self, false, 0);
    }
    return false;
}

/* Waits for a change. Errors: STATE (it is `until_ns`). With the lock held. */
static int wait_for_change(executor *self, uint64_t until_ns)
{
    bool expired = !clock_wait(&self->change, &self->lock, until_ns);
    return expired && !has_task(self) && !has_step(self) ? TARRY_ERROR_STATE : TARRY_OK;
}

int executor_take(executor *self, uint64_t until_ns, const tarry_task **task)
{
    pthread_mutex_lock(&self->lock);
    self->callers++;
    int error = self->call.out ? TARRY_ERROR_STATE : TARRY_OK;
    while (error == TARRY_OK && !begin_task(self) && !self->closing)
        error = wait_for_change(self, until_ns);
    *task = error == TARRY_OK && !self->closing ? &self->call.task : NULL;
    self->callers--;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
    return error;
}

/* What was cancelled is kept, too: the server may ask for it again. */
static int give(executor *self, uint64_t ticket, int result)
{
    executor_call *call = &self->call;
    uint64_t taken_ns;
    bool good = straggle(self, call, &taken_ns) && result == 0;
    worker_slate *seat = call->seat;
    if (good && seat == self->slate && seat->keep == TARRY_KEEP_ALL)
        seat->finished[executor_place_of(seat, call->task.round, call->slot)] = call->generation;
    if (good && seat == self->slate && seat->secret.grid.bits != 0)
        seat->finished[call->slot] = call->generation;
    call->out = false;
    if (is_current(self, ticket)) {
        report(self, good, taken_ns);
        return TARRY_OK;
    }
    executor_answer(self);
    return TARRY_ERROR_STATE;
}

/* The talking thread concludes it. With the lock held. */
static int give_step(executor *self, int result)
{
    self->call.out = false;
    self->owed.stage = OWED_GIVEN;
    self->owed.result = result;
    return self->closing ? TARRY_ERROR_STATE : TARRY_OK;
}

int tarry_task_give(const tarry_task *task, int result)
{
    executor *self = task->owner;
    uint64_t ticket = task->ticket;
    const executor_uplink *uplink = &self->settings.uplink;
    if (uplink->given != NULL)
        uplink->given(uplink->user, task, result);
    pthread_mutex_lock(&self->lock);
    self->callers++;
    int error = TARRY_ERROR_STATE;
    bool steps = self->owed.stage == OWED_TAKEN && self->call.task.ticket == ticket;
    if (steps) {
        error = give_step(self, result);
    } else if (self->call.held != NULL && self->call.task.ticket == ticket) {
        snapshots_release(self->snapshots, self->call.held);
        self->call.held = NULL;
        error = give(self, ticket, result);
    }
    if (steps)
        mailbox_wake(&self->inbox);
    self->callers--;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
    return error;
}

bool tarry_compute_cancelled(const tarry_task *task)
{
    executor *self = task->owner;
    if (self == NULL)
        return false;
    pthread_mutex_lock(&self->lock);
    bool cancelled = task->step != 0 ? self->closing : !is_current(self, task->ticket);
    pthread_mutex_unlock(&self->lock);
    return cancelled;
}

/* The computing thread; its argument is the executor. */
static void *executor_compute(void *argument)
{
    executor *self = argument;
    const executor_settings *settings = &self->settings;
    const tarry_task *task;
    while (executor_take(self, TARRY_NEVER, &task) == TARRY_OK && task != NULL)
        tarry_task_give(task, settings->compute(settings->user, task));
    return NULL;
}

/* ---- executor ---- */

/* An empty frame says that the server is gone. */
enum { INBOX_FRAMES = 16, NO_SERVER = 1 };

/* One event from the talking thread, with all that follows from it. */
static void talk_step(executor *self, const tarry_event *event)
{
    pthread_mutex_lock(&self->lock);
    executor_step(self, event);
    pthread_mutex_unlock(&self->lock);
}

/* The last of the frames that says that the server is gone; what stands before it is outdated. */
static size_t find_cut(executor *self, size_t count)
{
    for (size_t i = count; i > 0; i--)
        if (mailbox_frame_at(&self->inbox, i - 1).sender == NO_SERVER)
            return i;
    return 0;
}

static void take_frames(executor *self, size_t count)
{
    size_t first = find_cut(self, count);
    if (first > 0)
        collective_cut(self->collective);
    for (size_t i = first; i < count; i++) {
        mailbox_frame frame = mailbox_frame_at(&self->inbox, i);
        tarry_message message;
        int error = codec_decode(&self->slate->shape, frame.bytes, frame.size, self->slate->words,
                                 &message);
        if (error != TARRY_OK) {
            self->settings.uplink.give_up(self->settings.uplink.user, TARRY_OK, "");
            continue;
        }
        talk_step(self, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message});
    }
}

static uint64_t hand_back_ns(executor *self)
{
    pthread_mutex_lock(&self->lock);
    bool waits = self->leaving && self->task.ticket != 0;
    uint64_t until = waits ? self->grace_until_ns : TARRY_NEVER;
    pthread_mutex_unlock(&self->lock);
    return until;
}

/* The replica's owner has stepped. */
static void conclude_owed(executor *self)
{
    const executor_uplink *uplink = &self->settings.uplink;
    pthread_mutex_lock(&self->lock);
    const executor_owed owed = self->owed;
    if (owed.stage == OWED_GIVEN)
        self->owed.stage = OWED_NOTHING;
    pthread_mutex_unlock(&self->lock);
    if (owed.stage != OWED_GIVEN)
        return;
    uint64_t state = 0;
    int error = owed.result;
    if (error == TARRY_OK)
        error = collective_stepped(self->collective, &owed.sum, owed.digests, &state);
    if (error == TARRY_OK && self->in_round) /* whose ROUND came meanwhile */
        snapshots_label(self->snapshots, self->told);
    if (error != TARRY_OK)
        uplink->give_up(uplink->user, error, tarry_error_text(error));
    else
        talk_step(self,
                  &(tarry_event){.type = TARRY_EVENT_STEPPED, .sum = owed.sum, .state = state});
}

/* The replica has stepped. */
static void take_stepped(executor *self)
{
    bool stepped = self->stepped;
    self->stepped = false;
    if (stepped)
        talk_step(self, &self->stepped_event);
}

/* What the exchange thread is done with. */
static void take_end(executor *self)
{
    collective *among = self->collective;
    const executor_uplink *uplink = &self->settings.uplink;
    tarry_event event;
    int error;
    if (among == NULL || !collective_take(among, &event, &error))
        return;
    if (error != TARRY_OK)
        uplink->give_up(uplink->user, error, tarry_error_text(error));
    else
        talk_step(self, &event);
}

/* collective_settings.ended */
static void ended(void *user)
{
    executor *self = user;
    mailbox_wake(&self->inbox);
}

/* With the lock held. The caller gets back what the executor had. */
static void exchange_slates(executor *self)
{
    worker_slate *before = self->slate;
    if (self->collective != NULL)
        tarry_worker_adopt(self->next->machine, before->machine, NULL);
    self->slate = self->next;
    self->next = before;
    self->task.ticket = 0;
    self->encoded = false;
    self->turning = false;
    self->in_round = false;
    pthread_cond_broadcast(&self->change);
}

/* A machine hands on what it has, but no order that is in progress. */
static void end_order(executor *self)
{
    collective_abandon(self->collective);
    take_stepped(self);
}

/* What is in the inbox was meant for the slate before. */
static void turn(executor *self)
{
    take_frames(self, mailbox_take(&self->inbox, 0));
    if (self->collective != NULL)
        end_order(self);
    executor_claim(self, 0, self->cut.part_length);
    const residuals *lost = self->slate->residuals;
    executor_voided(self, lost != NULL ? residuals_count(lost) : 0);
    pthread_mutex_lock(&self->lock);
    exchange_slates(self);
    pthread_mutex_unlock(&self->lock);
}

/* Whether a step is with the replica's owner. */
static bool executor_owes(executor *self)
{
    pthread_mutex_lock(&self->lock);
    bool owes = self->owed.stage != OWED_NOTHING;
    pthread_mutex_unlock(&self->lock);
    return owes;
}

static bool has_turned(executor *self)
{
    pthread_mutex_lock(&self->lock);
    bool turned = !self->turning;
    pthread_mutex_unlock(&self->lock);
    return turned;
}

static void *talk(void *argument)
{
    executor *self = argument;
    while (!mailbox_closed(&self->inbox)) {
        /* Between two stripes the worker looks for news, but doesn't wait for it. */
        bool busy = self->encoded || self->stepped;
        take_frames(self, mailbox_take(&self->inbox, busy ? 0 : hand_back_ns(self)));
        pthread_mutex_lock(&self->lock);
        executor_answer(self);
        pthread_mutex_unlock(&self->lock);
        take_stepped(self);
        if (self->encoded) {
            self->encoded = false;
            talk_step(self, &self->encoded_event);
        }
        take_end(self);
        conclude_owed(self);
        if (!has_turned(self) && !executor_owes(self))
            turn(self);
        self->answering = self->encoded;
    }
    return NULL;
}

static int init_locks(executor *self)
{
    self->has_change = clock_init_condition(&self->change) == 0;
    self->has_lock = pthread_mutex_init(&self->lock, NULL) == 0;
    return self->has_change && self->has_lock ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

/* One snapshot is held by the computing thread, and one by the talking thread for a factor. */
static int init_snapshots(executor *self)
{
    enum { HOLDERS = 2 };
    const executor_among *among = self->settings.among;
    const bool bare = among != NULL && among->replica.parameters == NULL;
    self->snapshots = self->settings.snapshots;
    if (self->snapshots != NULL)
        return TARRY_OK;
    int error = snapshots_init(&self->own_snapshots, bare ? 1 : self->settings.parameters, HOLDERS,
                               &self->allocator);
    if (error == TARRY_OK)
        self->snapshots = &self->own_snapshots;
    return error;
}

static int make_collective(executor *self, const tarry_plan *plan,
                           const tarry_server_settings *server)
{
    const executor_among *among = self->settings.among;
    const collective_settings wanted = {
        .worker = self->settings.worker,
        .workers = plan->workers,
        .parts = plan->parts,
        .dimension = server->dimension,
        .vectors = &self->vectors,
        .replica = among->replica,
        .last = among->last,
        .engine = among->engine,
        .forms = collective_forms_of(server),
        .exchange = among->exchange,
        .snapshots = self->snapshots,
        .ended = ended,
        .user = self,
        .failed = among->failed,
        .failed_user = among->user,
    };
    return collective_create(&wanted, &self->allocator, &self->collective);
}

static int make_slate(const executor *self, const tarry_plan *plan,
                      const tarry_server_settings *server, worker_slate **made)
{
    const worker_slate_settings wanted = {
        .cut = self->cut,
        .server = server,
        .grid = self->settings.grid,
        .last = self->last,
        .vectors = &self->vectors,
    };
    return worker_slate_create(plan, self->settings.worker, &wanted, &self->allocator, made);
}

int executor_init(executor *self, const executor_settings *settings, const tarry_plan *plan,
                  const tarry_server_settings *server, const tarry_allocator *allocator)
{
    *self = (executor){
        .allocator = memory_allocator(allocator),
        .settings = *settings,
        .made = true,
        .pieces = plan->pieces,
        .cut = layout_make(server->dimension, plan->parts, form_stripe_length(server)),
        .kernels = kernel_best(),
        .form = form_of_parts(server),
        .compress_seed = server->compress_seed,
        .last = settings->among != NULL ? settings->among->last : (tarry_sum_id){0},
    };
    if (straggler_is_none(settings->straggler))
        self->settings.straggler = NULL;
    int error =
        worker_vectors_init(&self->vectors, settings->vectors, server->element, &self->allocator);
    if (error == TARRY_OK)
        error = init_locks(self);
    if (error == TARRY_OK)
        error = init_snapshots(self);
    if (error == TARRY_OK && settings->among != NULL)
        error = make_collective(self, plan, server);
    self->settings.among = NULL; /* the caller's */
    if (error == TARRY_OK)
        error = make_slate(self, plan, server, &self->slate);
    if (error == TARRY_OK)
        error = mailbox_init(&self->inbox, codec_max_size(&self->slate->shape), INBOX_FRAMES,
                             &self->allocator);
    self->has_inbox = error == TARRY_OK;
    return error;
}

int executor_start(executor *self)
{
    if (tarry_straggler_dead(self->settings.straggler, self->settings.worker))
        return TARRY_OK;
    if (pthread_create(&self->talk_thread, NULL, talk, self) != 0)
        return TARRY_ERROR_SYSTEM;
    self->talking = true;
    if (self->collective != NULL && collective_start(self->collective) != TARRY_OK)
        return TARRY_ERROR_SYSTEM;
    if (self->settings.compute == NULL)
        return TARRY_OK;
    if (pthread_create(&self->compute_thread, NULL, executor_compute, self) != 0)
        return TARRY_ERROR_SYSTEM;
    self->computing = true;
    return TARRY_OK;
}

int executor_deliver(executor *self, const void *frame, size_t size)
{
    return mailbox_put(&self->inbox, 0, frame, size) ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* Without memory they end when the next server asks. */
void executor_cut(executor *self)
{
    mailbox_put(&self->inbox, NO_SERVER, NULL, 0);
}

int executor_prepare(executor *self, const tarry_plan *next, const tarry_server_settings *server)
{
    worker_slate *made;
    int error = make_slate(self, next, server, &made);
    if (error != TARRY_OK)
        return error;
    worker_slate_free(self->next, &self->allocator);
    self->next = made;
    return TARRY_OK;
}

void executor_leave(executor *self, uint64_t grace_until_ns)
{
    pthread_mutex_lock(&self->lock);
    self->leaving = true;
    self->grace_until_ns = grace_until_ns;
    pthread_mutex_unlock(&self->lock);
    mailbox_wake(&self->inbox);
}

bool executor_idle(executor *self)
{
    pthread_mutex_lock(&self->lock);
    bool idle = !self->in_round;
    pthread_mutex_unlock(&self->lock);
    return idle;
}

bool executor_answering(executor *self)
{
    return self->answering;
}

/* Frees what it had before, unless a task of it is out. */
static void free_slates(executor *self)
{
    pthread_mutex_lock(&self->lock);
    const worker_slate *used = self->call.out ? self->call.seat : NULL;
    pthread_mutex_unlock(&self->lock);
    if (self->left != NULL && self->left != used) {
        worker_slate_free(self->left, &self->allocator);
        self->left = NULL;
    }
    if (self->next == used)
        self->left = self->next;
    else
        worker_slate_free(self->next, &self->allocator);
    self->next = NULL;
}

void executor_turn(executor *self)
{
    assert(self->next != NULL);
    pthread_mutex_lock(&self->lock);
    self->turning = true;
    if (!self->talking)
        exchange_slates(self);
    pthread_mutex_unlock(&self->lock);
    mailbox_wake(&self->inbox);
    pthread_mutex_lock(&self->lock);
    while (self->turning)
        pthread_cond_wait(&self->change, &self->lock);
    pthread_mutex_unlock(&self->lock);
    free_slates(self);
}

void executor_abandon(executor *self)
{
    if (!self->has_inbox)
        return;
    pthread_mutex_lock(&self->lock);
    snapshots_release(self->snapshots, self->call.held);
    self->call.held = NULL;
    self->call.out = false;
    self->owed.stage = OWED_NOTHING;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
}

void executor_close(executor *self)
{
    if (!self->has_inbox)
        return;
    pthread_mutex_lock(&self->lock);
    self->closing = true;
    pthread_cond_broadcast(&self->change);
    pthread_mutex_unlock(&self->lock);
    mailbox_close(&self->inbox);
}

void executor_join(executor *self)
{
    if (!self->has_inbox)
        return;
    if (self->talking)
        pthread_join(self->talk_thread, NULL);
    if (self->computing)
        pthread_join(self->compute_thread, NULL);
    self->talking = self->computing = false;
    if (self->collective != NULL)
        collective_stop(self->collective);
    pthread_mutex_lock(&self->lock);
    while (self->callers > 0 || self->call.out)
        pthread_cond_wait(&self->change, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

void executor_destroy(executor *self)
{
    if (!self->made)
        return;
    executor_join(self);
    collective_free(self->collective);
    worker_slate_free(self->slate, &self->allocator);
    worker_slate_free(self->next, &self->allocator);
    worker_slate_free(self->left, &self->allocator);
    worker_vectors_destroy(&self->vectors);
    if (self->has_inbox)
        mailbox_destroy(&self->inbox);
    if (self->snapshots == &self->own_snapshots)
        snapshots_destroy(&self->own_snapshots);
    if (self->has_lock)
        pthread_mutex_destroy(&self->lock);
    if (self->has_change)
        pthread_cond_destroy(&self->change);
}
