/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sum/decoding.h"

#include <assert.h>
#include <pthread.h>

#include "base/memory.h"
#include "coding/layout.h"
#include "runtime/sum/decode.h"

/* One stripe of the sum. */
typedef struct place {
    stripe_queue waiting;
    uint32_t count; /* of these */
    uint32_t next;  /* in the queue of places that are ready */
    bool fresh;     /* cleared, and nothing added since */
    bool running;   /* a thread is at it */
    bool ready;     /* in that queue */
} place;

typedef struct decoding_thread {
    decoding *state;
    pthread_t thread;
    const float **z;  /* one per worker */
    uint32_t *sender; /* the same */
    float *weights;   /* parts of the plan x workers */
} decoding_thread;

struct decoding {
    tarry_allocator allocator;
    decoding_settings settings;
    decoding_thread *threads; /* where there are none, what the loop's own takes their place with */
    uint32_t started;

    pthread_mutex_t lock; /* over all that follows */
    pthread_cond_t work;  /* threads wait for it */
    pthread_cond_t idle;  /* decoding_settle does */
    bool has_lock, has_work, has_idle;
    bool ending;
    bool open; /* a round is in progress */
    const tarry_plan *plan;
    float *estimate;
    layout cut;
    uint32_t most; /* stripes of the least number of parts: room */
    place *places;
    uint32_t first, last; /* ready ones; first == most: none */
    uint32_t running;     /* threads that write the estimate */
    bool barred;          /* until none of them is of the layout before */
    stripe_queue summed, dropped;
};

static void push_ready(decoding *state, uint32_t index)
{
    place *its = &state->places[index];
    if (its->ready || its->running || its->count == 0)
        return;
    its->ready = true;
    its->next = state->most;
    if (state->first == state->most)
        state->first = index;
    else
        state->places[state->last].next = index;
    state->last = index;
}

/* With the lock held: takes all that waits for the first ready place. */
static uint32_t take_job(decoding_thread *its, uint32_t *index, stripe_queue *items)
{
    decoding *state = its->state;
    *index = state->first;
    place *at = &state->places[*index];
    state->first = at->next;
    at->ready = false;
    uint32_t count = 0;
    for (stripe *item = at->waiting.first; item != NULL; item = item->next) {
        its->z[count] = item->numbers;
        its->sender[count++] = item->worker;
    }
    assert(count == at->count);
    *items = at->waiting;
    at->waiting.first = NULL;
    at->count = 0;
    return count;
}

/* Those who run jobs: the threads, or the loop's own in their place. */
static uint32_t runners(const decoding *state)
{
    return state->settings.threads > 0 ? state->settings.threads : 1;
}

/* With the lock held. Whoever was told of the first will find the others, too; of what the loop's
 * thread sums itself nobody is told. */
static void give_back(decoding *state, stripe_queue *queue, stripe_queue *items)
{
    bool told = state->settings.threads > 0 && state->summed.first != NULL;
    bool first = !told && state->dropped.first == NULL;
    stripe_queue_append(queue, items);
    if (first && queue->first != NULL)
        state->settings.finished(state->settings.user);
}

static bool may_run(const decoding *state)
{
    return state->first != state->most && !state->barred;
}

/* With the lock held, which it lets go of while it sums. */
static void run_job(decoding_thread *its)
{
    decoding *state = its->state;
    uint32_t index;
    stripe_queue items = {0};
    uint32_t count = take_job(its, &index, &items);
    if (count == 0)
        return; /* cleared away since */
    place *at = &state->places[index];
    bool add = !at->fresh;
    layout cut = state->cut;
    double scale = items.first->scale;
    at->fresh = false;
    at->running = true;
    state->running++;
    pthread_mutex_unlock(&state->lock);

    decode_stripe(state->settings.kernels, state->plan, &cut, index, its->z, its->sender, count,
                  scale, add, its->weights, state->estimate);

    pthread_mutex_lock(&state->lock);
    at->running = false;
    push_ready(state, index);
    if (--state->running == 0) {
        if (state->barred)
            pthread_cond_broadcast(&state->work);
        state->barred = false;
        pthread_cond_broadcast(&state->idle);
    }
    if (state->settings.threads > 0)
        give_back(state, &state->summed, &items);
    else
        stripe_queue_append(&state->summed, &items);
}

static void *run_thread(void *argument)
{
    decoding_thread *its = argument;
    decoding *state = its->state;
    pthread_mutex_lock(&state->lock);
    while (!state->ending)
        if (may_run(state))
            run_job(its);
        else
            pthread_cond_wait(&state->work, &state->lock);
    pthread_mutex_unlock(&state->lock);
    return NULL;
}

static int prepare_runner(decoding *state, decoding_thread *its)
{
    const tarry_allocator *allocator = &state->allocator;
    size_t workers = state->plan->workers;
    its->state = state;
    its->z = memory_allocate(allocator, workers, sizeof(*its->z));
    its->sender = memory_allocate(allocator, workers, sizeof(*its->sender));
    its->weights = memory_allocate(allocator, workers * state->plan->parts, sizeof(float));
    return its->z == NULL || its->sender == NULL || its->weights == NULL ? TARRY_ERROR_NO_MEMORY
                                                                         : TARRY_OK;
}

static int start_thread(decoding *state, decoding_thread *its)
{
    if (pthread_create(&its->thread, NULL, run_thread, its) != 0)
        return TARRY_ERROR_SYSTEM;
    state->started++;
    return TARRY_OK;
}

static int start(decoding *state)
{
    const tarry_allocator *allocator = &state->allocator;
    state->has_lock = pthread_mutex_init(&state->lock, NULL) == 0;
    state->has_work = pthread_cond_init(&state->work, NULL) == 0;
    state->has_idle = pthread_cond_init(&state->idle, NULL) == 0;
    if (!state->has_lock || !state->has_work || !state->has_idle)
        return TARRY_ERROR_SYSTEM;
    state->places = memory_allocate(allocator, state->most, sizeof(*state->places));
    state->threads = memory_allocate(allocator, runners(state), sizeof(*state->threads));
    if (state->places == NULL || state->threads == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = TARRY_OK;
    for (uint32_t i = 0; i < runners(state) && error == TARRY_OK; i++)
        error = prepare_runner(state, &state->threads[i]);
    for (uint32_t i = 0; i < state->settings.threads && error == TARRY_OK; i++)
        error = start_thread(state, &state->threads[i]);
    return error;
}

int decoding_create(const tarry_plan *plan, const decoding_settings *settings,
                    const tarry_allocator *allocator, decoding **out)
{
    decoding *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    made->settings = *settings;
    made->plan = plan;
    made->cut = layout_make(settings->dimension, plan_least_parts(plan), settings->stripe_length);
    made->most = made->first = made->cut.stripes;
    int error = start(made);
    if (error != TARRY_OK) {
        decoding_free(made);
        return error;
    }
    *out = made;
    return TARRY_OK;
}

void decoding_free(decoding *state)
{
    if (state == NULL)
        return;
    tarry_allocator allocator = state->allocator;
    assert(state->summed.first == NULL && state->dropped.first == NULL);
    if (state->started > 0) {
        pthread_mutex_lock(&state->lock);
        state->ending = true;
        pthread_cond_broadcast(&state->work);
        pthread_mutex_unlock(&state->lock);
    }
    for (uint32_t i = 0; i < state->started; i++)
        pthread_join(state->threads[i].thread, NULL);
    for (uint32_t i = 0; state->threads != NULL && i < runners(state); i++) {
        memory_release(&allocator, state->threads[i].weights);
        memory_release(&allocator, state->threads[i].sender);
        memory_release(&allocator, state->threads[i].z);
    }
    memory_release(&allocator, state->threads);
    memory_release(&allocator, state->places);
    if (state->has_idle)
        pthread_cond_destroy(&state->idle);
    if (state->has_work)
        pthread_cond_destroy(&state->work);
    if (state->has_lock)
        pthread_mutex_destroy(&state->lock);
    memory_release(&allocator, state);
}

void decoding_replan(decoding *state, const tarry_plan *plan)
{
    pthread_mutex_lock(&state->lock);
    assert(!state->open && state->running == 0);
    state->plan = plan;
    pthread_mutex_unlock(&state->lock);
}

/* With the lock held. The place stays among the ready: it is found empty there. Whoever owns the
 * stripes has to hear of it: a worker whose stripes these were is not read until they are back. */
static void drop_waiting(decoding *state, place *its)
{
    give_back(state, &state->dropped, &its->waiting);
    its->count = 0;
}

static void drop_all(decoding *state)
{
    for (uint32_t index = 0; index < state->most; index++)
        drop_waiting(state, &state->places[index]);
}

void decoding_begin(decoding *state, float *estimate)
{
    pthread_mutex_lock(&state->lock);
    assert(!state->open && state->running == 0);
    state->estimate = estimate;
    state->open = true;
    for (uint32_t index = 0; index < state->most; index++)
        state->places[index].fresh = false;
    pthread_mutex_unlock(&state->lock);
}

void decoding_clear(decoding *state, uint32_t parts, uint32_t index)
{
    pthread_mutex_lock(&state->lock);
    if (parts != state->cut.parts) {
        /* A stripe of the new layout may lie where several of the old one did. */
        drop_all(state);
        for (uint32_t i = 0; i < state->most; i++)
            state->places[i].fresh = false;
        state->cut = layout_make(state->cut.dimension, parts, state->cut.stripe_length);
        state->barred = state->running > 0;
    }
    assert(index < state->cut.stripes && state->cut.stripes <= state->most);
    drop_waiting(state, &state->places[index]);
    state->places[index].fresh = true;
    pthread_mutex_unlock(&state->lock);
}

void decoding_forget(decoding *state)
{
    pthread_mutex_lock(&state->lock);
    drop_all(state);
    pthread_mutex_unlock(&state->lock);
}

void decoding_add(decoding *state, stripe_queue *items)
{
    if (items->first == NULL)
        return;
    pthread_mutex_lock(&state->lock);
    assert(state->open);
    uint32_t places = 0;
    for (stripe *item; (item = stripe_queue_pop(items)) != NULL;) {
        assert(item->index < state->cut.stripes);
        place *its = &state->places[item->index];
        assert(its->count < state->plan->workers);
        stripe_queue_push(&its->waiting, item);
        its->count++;
        if (!its->ready && !its->running)
            places++;
        push_ready(state, item->index);
    }
    while (state->settings.threads == 0 && may_run(state))
        run_job(&state->threads[0]);
    pthread_mutex_unlock(&state->lock);
    /* With the lock held, who is woken would only wait for that. */
    if (places > 1)
        pthread_cond_broadcast(&state->work);
    else if (places == 1)
        pthread_cond_signal(&state->work);
}

void decoding_take(decoding *state, stripe_queue *summed, stripe_queue *dropped)
{
    pthread_mutex_lock(&state->lock);
    stripe_queue_append(summed, &state->summed);
    stripe_queue_append(dropped, &state->dropped);
    pthread_mutex_unlock(&state->lock);
}

void decoding_settle(decoding *state, bool zero)
{
    pthread_mutex_lock(&state->lock);
    drop_all(state);
    while (state->running > 0)
        pthread_cond_wait(&state->idle, &state->lock);
    for (uint32_t index = 0; index < state->cut.stripes; index++)
        if (zero && state->places[index].fresh)
            decode_zero(&state->cut, index, state->estimate);
    state->open = false;
    pthread_mutex_unlock(&state->lock);
}
