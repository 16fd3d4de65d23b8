/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/engine_step.h"

#include <errno.h>

#include "runtime/clock.h"
#include "straggler/straggler.h"

/* With the lock held. */
static bool is_current(const engine *own, uint64_t ticket)
{
    return own->task.ticket == ticket && !own->closing;
}

/* What the straggler makes of `bare` for all that the chunk stands for. Seconds of a trace that
 * belong to chunks are those of the first. */
static uint64_t injected_ns(const engine *own, const engine_call *call, uint64_t bare)
{
    const engine_settings *settings = &own->settings;
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
static bool straggle(engine *own, const engine_call *call, uint64_t *taken_ns)
{
    uint64_t bare = clock_now_ns() - call->start_ns;
    *taken_ns = injected_ns(own, call, bare);
    if (*taken_ns <= bare) {
        *taken_ns = bare;
        return true;
    }
    uint64_t end =
        call->start_ns <= TARRY_NEVER - *taken_ns ? call->start_ns + *taken_ns : TARRY_NEVER;
    struct timespec until = clock_timespec(end);
    while (is_current(own, call->task.ticket) && clock_now_ns() < end)
        pthread_cond_timedwait(&own->change, &own->lock, &until);
    return clock_now_ns() >= end;
}

/*
 * Whether there is a place for a gradient. While all are taken by finished ones the machine has
 * given one up, but it is still being folded. With the lock held, and no task out: nobody writes
 * into a spare place any more.
 */
static bool has_place(const engine *own)
{
    return own->desk->keep == TARRY_KEEP_ALL || own->desk->spare_count > 0;
}

/* What needs no computing is left to those who step the machine. */
static bool has_task(const engine *own)
{
    return own->task.ticket != 0 && !own->task.begun && !own->call.out && !own->leaving &&
           has_place(own) && !engine_has_kept(own);
}

/* What is needed while the lock is not held. */
static void hand_out(engine *own, snapshot *held)
{
    desk *seat = own->desk;
    uint32_t slot = own->task.slot;
    uint64_t round = own->task.round;
    size_t place = engine_place_of(seat, round, slot);
    const uint32_t *offset = seat->span_offset + slot;
    own->task.begun = true;
    if (seat->keep == TARRY_KEEP_ALL)
        seat->finished[place] = 0;
    own->call = (engine_call){
        .out = true,
        .slot = slot,
        .seat = seat,
        .held = held,
        .generation = held->generation,
        .start_ns = clock_now_ns(),
        .task =
            {
                .worker = own->settings.worker,
                .chunk = own->task.chunk,
                .round = round,
                .parameters = held->parameters,
                .parameter_count = own->settings.snapshots->parameters,
                .spans = seat->span + offset[0],
                .span_count = offset[1] - offset[0],
                .gradient = seat->keep == TARRY_KEEP_CREDITED ? desk_take_place(seat, slot)
                                                              : seat->gradient[place],
                .dimension = own->settings.cut.dimension,
                .owner = own,
                .ticket = own->task.ticket,
            },
    };
}

/* With the lock held. */
static void report(engine *own, bool good, uint64_t taken_ns)
{
    uint64_t round = own->task.round;
    uint32_t slot = own->task.slot;
    if (good)
        atomic_fetch_add(&own->busy_ns, taken_ns);
    else
        engine_free_place(own, slot);
    own->task.ticket = 0;
    engine_step(own,
                &(tarry_event){
                    .type = TARRY_EVENT_COMPUTED, .round = round, .slot = slot, .failed = !good});
}

/* Hands out what there is to compute, if there is anything. With the lock held. */
static bool begin_task(engine *own)
{
    snapshots *pool = own->settings.snapshots;
    while (!own->closing && has_task(own)) {
        snapshot *held = snapshots_hold(pool);
        if (held != NULL && held->round == own->task.round) {
            hand_out(own, held);
            return true;
        }
        /* The round is over, and its end is on its way here. */
        snapshots_release(pool, held);
        report(own, false, 0);
    }
    return false;
}

/* Waits for a change. Errors: STATE (it is `until_ns`). With the lock held. */
static int wait_for_change(engine *own, uint64_t until_ns)
{
    if (until_ns == TARRY_NEVER) {
        pthread_cond_wait(&own->change, &own->lock);
        return TARRY_OK;
    }
    struct timespec until = clock_timespec(until_ns);
    int expired = pthread_cond_timedwait(&own->change, &own->lock, &until);
    return expired == ETIMEDOUT && !has_task(own) ? TARRY_ERROR_STATE : TARRY_OK;
}

int engine_take(engine *own, uint64_t until_ns, const tarry_task **task)
{
    pthread_mutex_lock(&own->lock);
    own->callers++;
    int error = own->call.out ? TARRY_ERROR_STATE : TARRY_OK;
    while (error == TARRY_OK && !own->closing && !begin_task(own))
        error = wait_for_change(own, until_ns);
    *task = error == TARRY_OK && !own->closing ? &own->call.task : NULL;
    own->callers--;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
    return error;
}

/* What was cancelled is kept, too: the server may ask for it again. */
static int give(engine *own, uint64_t ticket, int result)
{
    engine_call *call = &own->call;
    uint64_t taken_ns;
    bool good = straggle(own, call, &taken_ns) && result == 0;
    desk *seat = call->seat;
    if (good && seat == own->desk && seat->keep == TARRY_KEEP_ALL)
        seat->finished[engine_place_of(seat, call->task.round, call->slot)] = call->generation;
    call->out = false;
    if (is_current(own, ticket)) {
        report(own, good, taken_ns);
        return TARRY_OK;
    }
    engine_answer(own);
    return TARRY_ERROR_STATE;
}

int tarry_task_give(const tarry_task *task, int result)
{
    engine *own = task->owner;
    uint64_t ticket = task->ticket;
    const engine_uplink *uplink = &own->settings.uplink;
    if (uplink->given != NULL)
        uplink->given(uplink->user, task, result);
    pthread_mutex_lock(&own->lock);
    own->callers++;
    int error = TARRY_ERROR_STATE;
    if (own->call.held != NULL && own->call.task.ticket == ticket) {
        snapshots_release(own->settings.snapshots, own->call.held);
        own->call.held = NULL;
        error = give(own, ticket, result);
    }
    own->callers--;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->lock);
    return error;
}

bool tarry_compute_cancelled(const tarry_task *task)
{
    engine *own = task->owner;
    if (own == NULL)
        return false;
    pthread_mutex_lock(&own->lock);
    bool cancelled = !is_current(own, task->ticket);
    pthread_mutex_unlock(&own->lock);
    return cancelled;
}

void *engine_compute(void *argument)
{
    engine *own = argument;
    const engine_settings *settings = &own->settings;
    const tarry_task *task;
    while (engine_take(own, TARRY_NEVER, &task) == TARRY_OK && task != NULL)
        tarry_task_give(task, settings->compute(settings->user, task));
    return NULL;
}
