/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/local/local_worker.h"

#include <assert.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "coding/transfer.h"
#include "runtime/local/clock.h"

enum { INBOX_FRAMES = 16, MAX_FRAME = CODEC_MOST_WORKER_BYTES };

static void post(local_worker *worker, const tarry_message *message)
{
    uint8_t frame[MAX_FRAME];
    size_t size = codec_size(&worker->shape, message);
    assert(size <= sizeof(frame));
    codec_encode(&worker->shape, message, frame);
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
    if (worker->keep == TARRY_KEEP_CREDITED)
        worker->gradient[slot] = NULL;
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
            break;
        }
    }
}

/* Steps the machine; with the lock held. */
static void step(local_worker *worker, const tarry_event *event, due *todo)
{
    const tarry_effects *effects;
    *todo = (due){0};
    int error = tarry_worker_step(worker->machine, clock_now_ns(), event, &effects);
    if (error == TARRY_OK)
        carry_out(worker, effects, todo);
    else
        todo->give_up = true;
}

/* Rounds take turns with the banks, so that the gradients of one stay while the next is computed.
 */
static float *gradient_of(const local_worker *worker, uint64_t round, uint32_t slot)
{
    return worker->gradient[(size_t)(round % worker->shared->banks) * worker->load + slot];
}

/*
 * The coefficients stay valid meanwhile: the machine takes no event that changes them before it has
 * heard of the end of the encoding, since only this thread brings it messages and nothing is
 * computed while it encodes.
 */
static void encode(local_worker *worker, const tarry_effect *effect)
{
    const local_shared *shared = worker->shared;
    layout cut = layout_make(shared->cut.dimension, effect->parts, shared->cut.stripe_length);
    size_t start = layout_stripe_start(&cut, effect->stripe);
    if (worker->keep == TARRY_KEEP_ALL) { /* otherwise the part is the running sum */
        for (uint32_t slot = 0; slot < worker->load; slot++)
            worker->inputs[slot] =
                gradient_of(worker, effect->round + bitset_test(effect->stale, slot), slot);
        transfer_encode(shared->kernels, &cut, effect->stripe, worker->inputs, effect->coefficients,
                        worker->load, worker->part + start, worker->scratch);
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
        const float *gradient = worker->gradient[effect->slot];
        const float weight = 1;
        shared->kernels->combine(worker->part, &gradient, &weight, 1, shared->cut.dimension,
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

static void *talk(void *argument)
{
    local_worker *worker = argument;
    while (!mailbox_closed(&worker->inbox)) {
        /* Between two stripes the worker looks for news, but doesn't wait for it. */
        size_t count = mailbox_take(&worker->inbox, worker->encoded ? 0 : TARRY_NEVER);
        for (size_t i = 0; i < count; i++) {
            mailbox_frame frame = mailbox_frame_at(&worker->inbox, i);
            tarry_message message;
            int error =
                codec_decode(&worker->shape, frame.bytes, frame.size, worker->words, &message);
            assert(error == TARRY_OK);
            (void)error;
            talk_step(worker, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message});
        }
        if (worker->encoded) {
            worker->encoded = false;
            talk_step(worker, &worker->encoded_event);
        }
    }
    return NULL;
}

/* With the lock held. */
static bool is_current(const local_worker *worker, uint64_t ticket)
{
    return worker->task.ticket == ticket && !worker->closing;
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
        good = shared->compute(shared->user, task->round, held->parameters, task->chunk,
                               task->gradient) == 0;
    snapshots_release(&shared->snapshots, held);

    uint64_t bare = clock_now_ns() - start;
    *taken_ns = tarry_straggler_time_ns(shared->straggler, task->round, worker->id, task->slot,
                                        task->chunk, tarry_plan_pieces(shared->plan), bare);
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
    if (worker->keep == TARRY_KEEP_ALL)
        return gradient_of(worker, worker->task.round, worker->task.slot);
    for (size_t i = 0; i < LOCAL_PLACES; i++) {
        bool taken = false;
        for (uint32_t slot = 0; slot < worker->load; slot++)
            taken = taken || worker->gradient[slot] == worker->place[i];
        if (!taken)
            return worker->place[i];
    }
    return NULL;
}

static bool has_task(const local_worker *worker, uint64_t last)
{
    return worker->task.ticket != 0 && worker->task.ticket != last && find_place(worker) != NULL;
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
        local_task task = worker->task;
        task.gradient = find_place(worker);
        if (worker->keep == TARRY_KEEP_CREDITED)
            worker->gradient[task.slot] = task.gradient;
        last = task.ticket;
        pthread_mutex_unlock(&worker->lock);
        uint64_t taken_ns;
        bool good = compute(worker, &task, &taken_ns);
        pthread_mutex_lock(&worker->lock);
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

static int allocate_vectors(local_worker *worker, const tarry_allocator *allocator)
{
    const layout *cut = &worker->shared->cut;
    size_t vectors = (size_t)worker->shared->banks * worker->load;
    worker->words = memory_allocate(allocator, codec_words(&worker->shape), sizeof(uint64_t));
    worker->gradient = memory_allocate(allocator, vectors, sizeof(*worker->gradient));
    worker->inputs = memory_allocate(allocator, worker->load, sizeof(*worker->inputs));
    worker->part = vector_allocate(allocator, cut->part_length);
    worker->scratch = memory_allocate(
        allocator, transfer_encode_scratch(worker->load, tarry_plan_parts(worker->shared->plan)),
        1);
    if (worker->words == NULL || worker->gradient == NULL || worker->inputs == NULL ||
        worker->part == NULL || worker->scratch == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (worker->keep == TARRY_KEEP_CREDITED) {
        for (size_t i = 0; i < LOCAL_PLACES && worker->load > 0; i++) {
            worker->place[i] = vector_allocate(allocator, cut->dimension);
            if (worker->place[i] == NULL)
                return TARRY_ERROR_NO_MEMORY;
        }
        return TARRY_OK;
    }
    for (size_t i = 0; i < vectors; i++) {
        worker->gradient[i] = vector_allocate(allocator, cut->dimension);
        if (worker->gradient[i] == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    return TARRY_OK;
}

int local_worker_init(local_worker *worker, local_shared *shared, uint32_t id,
                      const tarry_server_settings *server, const tarry_allocator *allocator)
{
    *worker = (local_worker){
        .id = id,
        .load = tarry_plan_load(shared->plan, id),
        .keep = server->keep,
    };
    worker->shape = codec_shape_of(shared->plan, id, shared->cut.stripes);
    int error = init_locks(worker);
    if (error != TARRY_OK)
        return error;
    error = mailbox_init(&worker->inbox, codec_max_size(&worker->shape), INBOX_FRAMES, allocator);
    if (error != TARRY_OK) {
        pthread_mutex_destroy(&worker->lock);
        pthread_cond_destroy(&worker->change);
        return error;
    }
    worker->shared = shared; /* from here on there is something to destroy */
    error = allocate_vectors(worker, allocator);
    if (error != TARRY_OK)
        return error;
    tarry_worker_settings settings = {
        .worker = id,
        .keeps_stale = shared->banks > 1,
        .dimension = shared->cut.dimension,
        .stripe_length = shared->cut.stripe_length,
        .conditioning_limit = server->conditioning_limit,
        .keep = server->keep,
    };
    return tarry_worker_create(shared->plan, &settings, allocator, &worker->machine, NULL);
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
    tarry_worker_free(worker->machine);
    for (size_t i = 0; i < LOCAL_PLACES; i++)
        vector_release(allocator, worker->place[i]);
    if (worker->gradient != NULL && worker->keep == TARRY_KEEP_ALL)
        for (size_t i = 0; i < (size_t)worker->shared->banks * worker->load; i++)
            vector_release(allocator, worker->gradient[i]);
    memory_release(allocator, worker->scratch);
    vector_release(allocator, worker->part);
    memory_release(allocator, worker->inputs);
    memory_release(allocator, worker->gradient);
    memory_release(allocator, worker->words);
    mailbox_destroy(&worker->inbox);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->change);
}
