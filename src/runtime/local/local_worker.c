/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/local/local_worker.h"

#include <assert.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "coding/transfer.h"
#include "runtime/clock.h"

enum { INBOX_FRAMES = 16, MAX_FRAME = CODEC_MOST_WORKER_BYTES };

/* What workers send has no sets, for which a shape would be needed. */
static const codec_shape NO_SETS;

static void post(local_worker *worker, const tarry_message *message)
{
    uint8_t frame[MAX_FRAME];
    size_t size = codec_size(&NO_SETS, message);
    assert(size <= sizeof(frame));
    codec_encode(&NO_SETS, message, frame);
    mailbox_put(&worker->shared->server_inbox, worker->id, frame, size);
}

/* With the lock held: what may be done under it is done, what may not is kept here. */
typedef struct due {
    tarry_effect folds[LOCAL_PLACES];
    size_t fold_count;
    tarry_message sends[2];
    size_t send_count;
    bool encode;
    tarry_effect encode_effect;
    bool give_up; /* the machine failed: the server shall do without this worker */
} due;

static void free_place(local_worker *worker, uint32_t slot)
{
    if (worker->desk->keep == TARRY_KEEP_CREDITED)
        worker->desk->gradient[slot] = NULL;
}

static void carry_out(local_worker *worker, const tarry_effects *effects, due *todo)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            todo->sends[todo->send_count++] = effect->message;
            break;
        case TARRY_EFFECT_COMPUTE:
            worker->task = (local_task){
                .ticket = ++worker->tickets,
                .round = effect->round,
                .slot = effect->slot,
                .chunk = effect->chunk,
            };
            pthread_cond_signal(&worker->change);
            break;
        case TARRY_EFFECT_CANCEL:
            worker->task.ticket = 0;
            free_place(worker, effect->slot);
            pthread_cond_signal(&worker->change);
            break;
        case TARRY_EFFECT_FOLD:
            todo->folds[todo->fold_count++] = *effect;
            break;
        case TARRY_EFFECT_DROP:
            free_place(worker, effect->slot);
            break;
        case TARRY_EFFECT_ENCODE:
            todo->encode = true;
            todo->encode_effect = *effect;
            break;
        case TARRY_EFFECT_REJECT: /* stale or from a server gone astray: nothing to do */
        case TARRY_EFFECT_CLEAR:
        case TARRY_EFFECT_COMBINE:
        case TARRY_EFFECT_DONE:
        case TARRY_EFFECT_LEFT_OUT:
            break;
        }
    }
}

/* Steps the machine; with the lock held. */
static void step(local_worker *worker, const tarry_event *event, due *todo)
{
    const tarry_effects *effects;
    *todo = (due){0};
    int error = tarry_worker_step(worker->desk->machine, clock_now_ns(), event, &effects);
    if (error == TARRY_OK)
        carry_out(worker, effects, todo);
    else
        todo->give_up = true;
}

/* Rounds take turns with the banks, so that the gradients of one stay while the next is computed.
 */
static float *gradient_of(const local_desk *desk, uint64_t round, uint32_t slot)
{
    return desk->gradient[(size_t)(round % desk->banks) * desk->load + slot];
}

/*
 * The coefficients stay valid meanwhile: the machine takes no event that changes them before it has
 * heard of the end of the encoding, since only this thread brings it messages and nothing is
 * computed while it encodes.
 */
static void encode(local_worker *worker, const tarry_effect *effect)
{
    const local_shared *shared = worker->shared;
    const local_desk *desk = worker->desk;
    layout cut = layout_make(shared->cut.dimension, effect->parts, shared->cut.stripe_length);
    size_t start = layout_stripe_start(&cut, effect->stripe);
    if (desk->keep == TARRY_KEEP_ALL) { /* otherwise the part is the running sum */
        for (uint32_t slot = 0; slot < desk->load; slot++)
            desk->inputs[slot] =
                gradient_of(desk, effect->round + bitset_test(effect->stale, slot), slot);
        transfer_encode(shared->kernels, &cut, effect->stripe, desk->inputs, effect->coefficients,
                        desk->load, desk->part + start, desk->scratch);
    }
    post(worker, &effect->message);
    worker->encoded = true;
    worker->encoded_event = (tarry_event){
        .type = TARRY_EVENT_ENCODED,
        .round = effect->round,
        .attempt = effect->attempt,
        .stripe = effect->stripe,
    };
}

/* The server reads no part of an attempt that it has withdrawn, nor of a round that is over: it is
 * then that sums change. */
static void fold(local_worker *worker, const due *todo)
{
    const local_shared *shared = worker->shared;
    for (size_t i = 0; i < todo->fold_count; i++) {
        const tarry_effect *effect = &todo->folds[i];
        const float *gradient = worker->desk->gradient[effect->slot];
        const float weight = 1;
        shared->kernels->combine(worker->desk->part, &gradient, &weight, 1, shared->cut.dimension,
                                 effect->begins ? KERNEL_SET : KERNEL_ADD);
    }
    pthread_mutex_lock(&worker->lock);
    for (size_t i = 0; i < todo->fold_count; i++)
        free_place(worker, todo->folds[i].slot);
    pthread_cond_signal(&worker->change);
    pthread_mutex_unlock(&worker->lock);
}

/* What a step left to be done without the lock. */
static void follow_up(local_worker *worker, const due *todo)
{
    if (todo->fold_count > 0)
        fold(worker, todo);
    for (size_t i = 0; i < todo->send_count; i++)
        post(worker, &todo->sends[i]);
    if (todo->encode)
        encode(worker, &todo->encode_effect);
    if (todo->give_up)
        mailbox_put(&worker->shared->server_inbox, worker->id, NULL, 0);
}

/* One event from the talking thread, with all that follows from it. */
static void talk_step(local_worker *worker, const tarry_event *event)
{
    due todo;
    pthread_mutex_lock(&worker->lock);
    step(worker, event, &todo);
    pthread_mutex_unlock(&worker->lock);
    follow_up(worker, &todo);
}

static void take_frames(local_worker *worker, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mailbox_frame frame = mailbox_frame_at(&worker->inbox, i);
        tarry_message message;
        int error = codec_decode(&worker->desk->shape, frame.bytes, frame.size, worker->desk->words,
                                 &message);
        assert(error == TARRY_OK);
        (void)error;
        talk_step(worker, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message});
    }
}

/* With the lock held. The caller gets back what the worker had. */
static void exchange_desks(local_worker *worker)
{
    local_desk *before = worker->desk;
    worker->desk = worker->next;
    worker->next = before;
    worker->task.ticket = 0;
    worker->turning = false;
    pthread_cond_signal(&worker->change);
}

/* What is in the inbox was meant for the desk before. */
static void turn(local_worker *worker)
{
    take_frames(worker, mailbox_take(&worker->inbox, 0));
    worker->encoded = false;
    pthread_mutex_lock(&worker->lock);
    exchange_desks(worker);
    pthread_mutex_unlock(&worker->lock);
    mailbox_wake(&worker->shared->server_inbox);
}

static void *talk(void *argument)
{
    local_worker *worker = argument;
    while (!mailbox_closed(&worker->inbox)) {
        /* Between two stripes the worker looks for news, but doesn't wait for it. */
        take_frames(worker, mailbox_take(&worker->inbox, worker->encoded ? 0 : TARRY_NEVER));
        if (worker->encoded) {
            worker->encoded = false;
            talk_step(worker, &worker->encoded_event);
        }
        if (!local_worker_has_turned(worker))
            turn(worker);
    }
    return NULL;
}

/* With the lock held. */
static bool is_current(const local_worker *worker, uint64_t ticket)
{
    return worker->task.ticket == ticket && !worker->closing;
}

static int call(const local_shared *shared, const local_task *task, const float *parameters)
{
    if (shared->compute_spans != NULL)
        return shared->compute_spans(shared->user, task->round, parameters, task->spans,
                                     task->span_count, task->gradient);
    return shared->compute(shared->user, task->round, parameters, task->chunk, task->gradient);
}

/* What the straggler makes of `bare` for all that the chunk stands for. Seconds of a trace that
 * belong to chunks are those of the first. */
static uint64_t injected_ns(const local_worker *worker, const local_task *task, uint64_t bare)
{
    const local_shared *shared = worker->shared;
    double size = 0;
    for (uint32_t i = 0; i < task->span_count; i++)
        size += (double)task->spans[i].count / task->spans[i].of;
    uint64_t whole = size == 1 ? bare : (uint64_t)((double)bare / size);
    uint64_t ns = tarry_straggler_time_ns(shared->straggler, task->round, worker->id, task->slot,
                                          task->spans[0].origin, shared->pieces, whole);
    return size == 1 || ns == TARRY_NEVER ? ns : (uint64_t)((double)ns * size);
}

/* Computes the chunk and then stays busy until the injected time is over.
 * With the lock not held. */
static bool compute(local_worker *worker, const local_task *task, uint64_t *taken_ns)
{
    local_shared *shared = worker->shared;
    snapshot *held = snapshots_hold(&shared->snapshots);
    uint64_t start = clock_now_ns();
    bool good = false;
    /* Otherwise the round is over and its end is on its way here. */
    if (held->round == task->round)
        good = call(shared, task, held->parameters) == 0;
    snapshots_release(&shared->snapshots, held);

    uint64_t bare = clock_now_ns() - start;
    *taken_ns = injected_ns(worker, task, bare);
    if (*taken_ns <= bare) {
        *taken_ns = bare;
        return good;
    }
    uint64_t end = start <= TARRY_NEVER - *taken_ns ? start + *taken_ns : TARRY_NEVER;
    struct timespec until = clock_timespec(end);
    pthread_mutex_lock(&worker->lock);
    while (is_current(worker, task->ticket) && clock_now_ns() < end)
        pthread_cond_timedwait(&worker->change, &worker->lock, &until);
    pthread_mutex_unlock(&worker->lock);
    return good;
}

/*
 * A place for the task's gradient; NULL while all are taken by finished ones: the machine has
 * given one up then, but it is still being folded. With the lock held, by the computing thread:
 * what it computed before, even if that was cancelled, has returned and writes into no place any
 * more.
 */
static float *find_place(const local_worker *worker)
{
    const local_desk *desk = worker->desk;
    if (desk->keep == TARRY_KEEP_ALL)
        return gradient_of(desk, worker->task.round, worker->task.slot);
    for (size_t i = 0; i < LOCAL_PLACES; i++) {
        bool taken = false;
        for (uint32_t slot = 0; slot < desk->load; slot++)
            taken = taken || desk->gradient[slot] == desk->place[i];
        if (!taken)
            return desk->place[i];
    }
    return NULL;
}

static bool has_task(const local_worker *worker, uint64_t last)
{
    return worker->task.ticket != 0 && worker->task.ticket != last && find_place(worker) != NULL;
}

/* What is needed while the lock is not held. */
static local_task begin_task(local_worker *worker)
{
    local_desk *desk = worker->desk;
    local_task task = worker->task;
    task.gradient = find_place(worker);
    if (desk->keep == TARRY_KEEP_CREDITED)
        desk->gradient[task.slot] = task.gradient;
    task.spans = desk->span + desk->span_offset[task.slot];
    task.span_count = desk->span_offset[task.slot + 1] - desk->span_offset[task.slot];
    worker->written = task.gradient;
    return task;
}

static void *compute_chunks(void *argument)
{
    local_worker *worker = argument;
    uint64_t last = 0;
    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (!worker->closing && !has_task(worker, last))
            pthread_cond_wait(&worker->change, &worker->lock);
        if (worker->closing)
            break;
        local_task task = begin_task(worker);
        last = task.ticket;
        pthread_mutex_unlock(&worker->lock);
        uint64_t taken_ns;
        bool good = compute(worker, &task, &taken_ns);
        pthread_mutex_lock(&worker->lock);
        worker->written = NULL;
        if (!is_current(worker, task.ticket))
            continue;

        due todo;
        step(worker,
             &(tarry_event){.type = TARRY_EVENT_COMPUTED,
                            .round = task.round,
                            .slot = task.slot,
                            .failed = !good},
             &todo);
        assert(!todo.encode && todo.fold_count == 0); /* which is the talking thread's to do */
        if (good)
            atomic_fetch_add(&worker->busy_ns, taken_ns);
        pthread_mutex_unlock(&worker->lock);
        follow_up(worker, &todo);
        pthread_mutex_lock(&worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

static int init_locks(local_worker *worker)
{
    if (clock_init_condition(&worker->change) != 0)
        return TARRY_ERROR_SYSTEM;
    if (pthread_mutex_init(&worker->lock, NULL) != 0) {
        pthread_cond_destroy(&worker->change);
        return TARRY_ERROR_SYSTEM;
    }
    return TARRY_OK;
}

int local_worker_init(local_worker *worker, local_shared *shared, const tarry_plan *plan,
                      uint32_t id, const tarry_server_settings *server,
                      const tarry_allocator *allocator)
{
    *worker = (local_worker){.id = id};
    int error = init_locks(worker);
    if (error != TARRY_OK)
        return error;
    codec_shape shape = codec_shape_of(plan, id, shared->cut.stripes);
    error = mailbox_init(&worker->inbox, codec_max_size(&shape), INBOX_FRAMES, allocator);
    if (error != TARRY_OK) {
        pthread_mutex_destroy(&worker->lock);
        pthread_cond_destroy(&worker->change);
        return error;
    }
    worker->shared = shared; /* from here on there is something to destroy */
    return local_desk_create(plan, id, &shared->cut, server, allocator, &worker->desk);
}

int local_worker_start(local_worker *worker)
{
    if (pthread_create(&worker->talk_thread, NULL, talk, worker) != 0)
        return TARRY_ERROR_SYSTEM;
    worker->talking = true;
    if (pthread_create(&worker->compute_thread, NULL, compute_chunks, worker) != 0)
        return TARRY_ERROR_SYSTEM;
    worker->computing = true;
    return TARRY_OK;
}

void local_worker_turn(local_worker *worker, local_desk *desk)
{
    pthread_mutex_lock(&worker->lock);
    worker->next = desk;
    worker->turning = true;
    if (!worker->talking)
        exchange_desks(worker);
    pthread_mutex_unlock(&worker->lock);
    mailbox_wake(&worker->inbox);
}

bool local_worker_has_turned(local_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    bool turned = !worker->turning;
    pthread_mutex_unlock(&worker->lock);
    return turned;
}

static bool has_vector(const local_desk *desk, const float *vector)
{
    bool has = false;
    for (size_t i = 0; i < LOCAL_PLACES; i++)
        has = has || desk->place[i] == vector;
    if (desk->keep == TARRY_KEEP_ALL)
        for (size_t i = 0; i < (size_t)desk->banks * desk->load; i++)
            has = has || desk->gradient[i] == vector;
    return vector != NULL && has;
}

void local_worker_tidy(local_worker *worker, const tarry_allocator *allocator)
{
    pthread_mutex_lock(&worker->lock);
    const float *written = worker->written;
    pthread_mutex_unlock(&worker->lock);
    /* What is written to now can be left, but not written to anew. */
    if (worker->left != NULL && !has_vector(worker->left, written)) {
        local_desk_free(worker->left, allocator);
        worker->left = NULL;
    }
    if (worker->next == NULL)
        return;
    if (has_vector(worker->next, written)) {
        local_desk_clear(worker->next, written, allocator);
        worker->left = worker->next;
    } else {
        local_desk_free(worker->next, allocator);
    }
    worker->next = NULL;
}

void local_worker_close(local_worker *worker)
{
    if (worker->shared == NULL)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->closing = true;
    pthread_cond_signal(&worker->change);
    pthread_mutex_unlock(&worker->lock);
    mailbox_close(&worker->inbox);
}

void local_worker_destroy(local_worker *worker, const tarry_allocator *allocator)
{
    if (worker->shared == NULL)
        return;
    if (worker->talking)
        pthread_join(worker->talk_thread, NULL);
    if (worker->computing)
        pthread_join(worker->compute_thread, NULL);
    local_desk_free(worker->desk, allocator);
    local_desk_free(worker->next, allocator);
    local_desk_free(worker->left, allocator);
    mailbox_destroy(&worker->inbox);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->change);
}
