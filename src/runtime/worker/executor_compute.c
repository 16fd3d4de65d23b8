/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/executor_step.h"

#include <errno.h>

#include "protocol/form.h"
#include "runtime/clock.h"
#include "straggler/straggler.h"

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
    for (uint32_t i = 0; i < call->task.span_count; i++)
        size += (double)spans[i].count / spans[i].of;
    uint64_t whole = size == 1 ? bare : (uint64_t)((double)bare / size);
    uint64_t ns = tarry_straggler_time_ns(settings->straggler, call->task.round, settings->worker,
                                          call->slot, spans[0].origin, settings->pieces, whole);
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
    struct timespec until = clock_timespec(end);
    while (is_current(self, call->task.ticket) && clock_now_ns() < end)
        pthread_cond_timedwait(&self->change, &self->lock, &until);
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
    return self->settings.snapshots->parameters - form_factor_numbers(self->settings.form);
}

/* What is needed while the lock is not held. */
static void hand_out(executor *self, snapshot *held)
{
    worker_slate *seat = self->slate;
    uint32_t slot = self->task.slot;
    uint64_t round = self->task.round;
    size_t place = executor_place_of(seat, round, slot);
    const collective *among = self->settings.collective;
    bool bare = among != NULL && !collective_has_parameters(among);
    const uint32_t *offset = seat->span_offset + slot;
    self->task.begun = true;
    if (seat->keep == TARRY_KEEP_ALL)
        seat->finished[place] = 0;
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
                .gradient = seat->keep == TARRY_KEEP_CREDITED ? worker_slate_take_place(seat, slot)
                                                              : seat->gradient[place],
                .dimension = self->settings.cut.dimension,
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
                .dimension = self->settings.cut.dimension,
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
    snapshots *pool = self->settings.snapshots;
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
    if (until_ns == TARRY_NEVER) {
        pthread_cond_wait(&self->change, &self->lock);
        return TARRY_OK;
    }
    struct timespec until = clock_timespec(until_ns);
    int expired = pthread_cond_timedwait(&self->change, &self->lock, &until);
    return expired == ETIMEDOUT && !has_task(self) && !has_step(self) ? TARRY_ERROR_STATE
                                                                      : TARRY_OK;
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
        snapshots_release(self->settings.snapshots, self->call.held);
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
    bool cancelled = task->sum != NULL ? self->closing : !is_current(self, task->ticket);
    pthread_mutex_unlock(&self->lock);
    return cancelled;
}

void *executor_compute(void *argument)
{
    executor *self = argument;
    const executor_settings *settings = &self->settings;
    const tarry_task *task;
    while (executor_take(self, TARRY_NEVER, &task) == TARRY_OK && task != NULL)
        tarry_task_give(task, settings->compute(settings->user, task));
    return NULL;
}
