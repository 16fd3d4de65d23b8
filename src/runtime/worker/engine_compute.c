/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/engine_step.h"

#include "runtime/clock.h"
#include "straggler/straggler.h"

/* With the lock held. */
static bool is_current(const engine *own, uint64_t ticket)
{
    return own->task.ticket == ticket && !own->closing;
}

static int call(const engine_settings *settings, const engine_task *task, const float *parameters)
{
    if (settings->compute_spans != NULL)
        return settings->compute_spans(settings->user, task->round, parameters, task->spans,
                                       task->span_count, task->gradient);
    return settings->compute(settings->user, task->round, parameters, task->chunk, task->gradient);
}

/* What the straggler makes of `bare` for all that the chunk stands for. Seconds of a trace that
 * belong to chunks are those of the first. */
static uint64_t injected_ns(const engine *own, const engine_task *task, uint64_t bare)
{
    const engine_settings *settings = &own->settings;
    double size = 0;
    for (uint32_t i = 0; i < task->span_count; i++)
        size += (double)task->spans[i].count / task->spans[i].of;
    uint64_t whole = size == 1 ? bare : (uint64_t)((double)bare / size);
    uint64_t ns =
        tarry_straggler_time_ns(settings->straggler, task->round, settings->worker, task->slot,
                                task->spans[0].origin, settings->pieces, whole);
    return size == 1 || ns == TARRY_NEVER ? ns : (uint64_t)((double)ns * size);
}

/* Computes the chunk and then stays busy until the injected time is over.
 * With the lock not held. */
static bool compute(engine *own, const engine_task *task, uint64_t *generation, uint64_t *taken_ns)
{
    snapshots *pool = own->settings.snapshots;
    snapshot *held = snapshots_hold(pool);
    uint64_t start = clock_now_ns();
    bool good = false;
    *generation = 0;
    /* Otherwise the round is over and its end is on its way here. */
    if (held != NULL && held->round == task->round) {
        *generation = held->generation;
        good = call(&own->settings, task, held->parameters) == 0;
    }
    snapshots_release(pool, held);

    uint64_t bare = clock_now_ns() - start;
    *taken_ns = injected_ns(own, task, bare);
    if (*taken_ns <= bare) {
        *taken_ns = bare;
        return good;
    }
    uint64_t end = start <= TARRY_NEVER - *taken_ns ? start + *taken_ns : TARRY_NEVER;
    struct timespec until = clock_timespec(end);
    pthread_mutex_lock(&own->lock);
    while (is_current(own, task->ticket) && clock_now_ns() < end)
        pthread_cond_timedwait(&own->change, &own->lock, &until);
    bool over = clock_now_ns() >= end;
    pthread_mutex_unlock(&own->lock);
    return good && over;
}

/*
 * Whether there is a place for a gradient. While all are taken by finished ones the machine has
 * given one up, but it is still being folded. With the lock held, by the computing thread: what it
 * computed before, even if that was cancelled, has returned and writes into no spare place any
 * more.
 */
static bool has_place(const engine *own)
{
    return own->desk->keep == TARRY_KEEP_ALL || own->desk->spare_count > 0;
}

/* What needs no computing is left to those who step the machine. */
static bool has_task(const engine *own)
{
    return own->task.ticket != 0 && !own->task.begun && !own->leaving && has_place(own) &&
           !engine_has_kept(own);
}

/* What is needed while the lock is not held. */
static engine_task begin_task(engine *own)
{
    desk *seat = own->desk;
    own->task.begun = true;
    engine_task task = own->task;
    task.gradient = seat->keep == TARRY_KEEP_CREDITED
                        ? desk_take_place(seat, task.slot)
                        : seat->gradient[engine_place_of(seat, task.round, task.slot)];
    task.spans = seat->span + seat->span_offset[task.slot];
    task.span_count = seat->span_offset[task.slot + 1] - seat->span_offset[task.slot];
    own->written = task.gradient;
    if (seat->keep == TARRY_KEEP_ALL)
        seat->finished[engine_place_of(seat, task.round, task.slot)] = 0;
    return task;
}

/* Also of what was cancelled: the server may ask for it again. With the lock held. */
static void note_finished(const engine_task *task, desk *seat, uint64_t generation)
{
    if (seat->keep == TARRY_KEEP_ALL)
        seat->finished[engine_place_of(seat, task->round, task->slot)] = generation;
}

/* With the lock held. */
static void report(engine *own, const engine_task *task, bool good, uint64_t taken_ns)
{
    if (good)
        atomic_fetch_add(&own->busy_ns, taken_ns);
    else
        engine_free_place(own, task->slot);
    own->task.ticket = 0;
    engine_step(own, &(tarry_event){.type = TARRY_EVENT_COMPUTED,
                                    .round = task->round,
                                    .slot = task->slot,
                                    .failed = !good});
}

void *engine_compute(void *argument)
{
    engine *own = argument;
    pthread_mutex_lock(&own->lock);
    for (;;) {
        while (!own->closing && !has_task(own))
            pthread_cond_wait(&own->change, &own->lock);
        if (own->closing)
            break;
        desk *seat = own->desk;
        engine_task task = begin_task(own);
        pthread_mutex_unlock(&own->lock);
        uint64_t generation, taken_ns;
        bool good = compute(own, &task, &generation, &taken_ns);
        pthread_mutex_lock(&own->lock);
        own->written = NULL;
        if (good && seat == own->desk)
            note_finished(&task, seat, generation);
        if (is_current(own, task.ticket))
            report(own, &task, good, taken_ns);
        else
            engine_answer(own);
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}
