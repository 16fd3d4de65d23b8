/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/local/local_exchange.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/sum_id.h"
#include "runtime/clock.h"

/* A state that was handed over; those who got it share it. */
typedef struct handed {
    uint8_t *bytes;
    uint64_t size;
    tarry_sum_id after;
    unsigned users;
} handed;

typedef struct local_exchange {
    exchange base;
    local_exchanges *all;
    pthread_cond_t change;
    bool has_change, woken;
    /* What others may have. */
    void (*wanted)(void *user);
    void *user;
    tarry_sum_id held; /* step 0: nothing */
    const float *numbers;
    unsigned readers; /* of the numbers, just now */
    /* What it gets. */
    exchange_state state;
    const char *why; /* FAILED */
    bool loads;      /* a state; else a sum */
    uint32_t from;
    tarry_sum_id sum;
    float *into;
    size_t count;
    handed *got;
} local_exchange;

struct local_exchanges {
    tarry_allocator allocator;
    pthread_mutex_t lock; /* over all that the exchanges have */
    bool has_lock;
    uint32_t workers;
    local_exchange *items;
};

static local_exchange *own_of(exchange *base)
{
    return (local_exchange *)base;
}

/* With the lock held. */
static void drop(local_exchange *own)
{
    handed *got = own->got;
    own->got = NULL;
    own->state = EXCHANGE_IDLE;
    if (got == NULL || --got->users > 0)
        return;
    memory_release(&own->all->allocator, got->bytes);
    memory_release(&own->all->allocator, got);
}

/* With the lock held. */
static void fail(local_exchange *own, const char *why)
{
    own->state = EXCHANGE_FAILED;
    own->why = why;
    pthread_cond_broadcast(&own->change);
}

/* ---- what it gets ---- */

static int fetch(exchange *base, uint32_t from, const tarry_sum_id *sum, float *into,
                 size_t dimension)
{
    local_exchange *own = own_of(base);
    pthread_mutex_lock(&own->all->lock);
    drop(own);
    own->state = EXCHANGE_RUNNING;
    own->loads = false;
    own->from = from;
    own->sum = *sum;
    own->into = into;
    own->count = dimension;
    pthread_mutex_unlock(&own->all->lock);
    return TARRY_OK;
}

static int load(exchange *base, uint32_t from, const tarry_sum_id *after)
{
    local_exchange *own = own_of(base);
    local_exchange *source = &own->all->items[from];
    pthread_mutex_lock(&own->all->lock);
    drop(own);
    own->state = EXCHANGE_RUNNING;
    own->loads = true;
    own->from = from;
    own->sum = *after;
    void (*wanted)(void *) = source == own ? NULL : source->wanted;
    if (wanted == NULL)
        fail(own, "there is no such state");
    pthread_mutex_unlock(&own->all->lock);
    if (wanted != NULL)
        wanted(source->user);
    return TARRY_OK;
}

/* Copies the sum, if it is there. With the lock held, which is let go meanwhile. */
static void copy_sum(local_exchange *own)
{
    local_exchange *source = &own->all->items[own->from];
    if (!sum_id_same(&source->held, &own->sum)) {
        fail(own, "it does not hold the sum");
        return;
    }
    source->readers++;
    pthread_mutex_unlock(&own->all->lock);
    memcpy(own->into, source->numbers, own->count * sizeof(float));
    pthread_mutex_lock(&own->all->lock);
    source->readers--;
    pthread_cond_broadcast(&source->change);
    own->state = EXCHANGE_DONE;
}

/* With the lock held. False: it is until_ns. */
static bool wait_for_change(local_exchange *own, uint64_t until_ns)
{
    pthread_mutex_t *lock = &own->all->lock;
    if (until_ns == TARRY_NEVER)
        return pthread_cond_wait(&own->change, lock) == 0;
    struct timespec until = clock_timespec(until_ns);
    return pthread_cond_timedwait(&own->change, lock, &until) != ETIMEDOUT;
}

static void wait(exchange *base, uint64_t until_ns, exchange_progress *progress)
{
    local_exchange *own = own_of(base);
    pthread_mutex_lock(&own->all->lock);
    if (own->state == EXCHANGE_RUNNING && !own->loads)
        copy_sum(own);
    bool time_left = true;
    while (own->state == EXCHANGE_RUNNING && !own->woken && time_left)
        time_left = wait_for_change(own, until_ns);
    own->woken = false;
    *progress = (exchange_progress){.state = own->state};
    if (own->state == EXCHANGE_DONE) {
        progress->got = own->loads ? own->got->size : own->count * sizeof(float);
        if (own->loads) {
            progress->bytes = own->got->bytes;
            progress->size = own->got->size;
            progress->after = own->got->after;
        }
    }
    if (own->state == EXCHANGE_FAILED)
        snprintf(progress->why, sizeof(progress->why), "%s", own->why);
    pthread_mutex_unlock(&own->all->lock);
}

static void wake(exchange *base)
{
    local_exchange *own = own_of(base);
    pthread_mutex_lock(&own->all->lock);
    own->woken = true;
    pthread_cond_broadcast(&own->change);
    pthread_mutex_unlock(&own->all->lock);
}

/* Others may be reading what this one shares with them. */
static uint8_t *take(exchange *base)
{
    local_exchange *own = own_of(base);
    handed *got = own->got;
    const tarry_allocator *allocator = &own->all->allocator;
    pthread_mutex_lock(&own->all->lock);
    bool shared = got->users > 1;
    uint8_t *bytes = shared ? NULL : got->bytes;
    if (!shared)
        got->bytes = NULL;
    pthread_mutex_unlock(&own->all->lock);
    if (!shared)
        return bytes;
    bytes = memory_allocate(allocator, (size_t)got->size, 1);
    if (bytes != NULL)
        memcpy(bytes, got->bytes, (size_t)got->size);
    return bytes;
}

static void abandon(exchange *base)
{
    local_exchange *own = own_of(base);
    pthread_mutex_lock(&own->all->lock);
    drop(own);
    pthread_mutex_unlock(&own->all->lock);
}

/* ---- what others get ---- */

static void hold(exchange *base, const tarry_sum_id *sum, const float *numbers, size_t dimension)
{
    local_exchange *own = own_of(base);
    (void)dimension; /* all of one process have the same */
    pthread_mutex_lock(&own->all->lock);
    own->held = sum != NULL ? *sum : (tarry_sum_id){0};
    own->numbers = numbers;
    while (sum == NULL && own->readers > 0)
        pthread_cond_wait(&own->change, &own->all->lock);
    pthread_mutex_unlock(&own->all->lock);
}

/* Whether a state after `after` does for one who wants that after `wanted`. */
static bool suffices(const tarry_sum_id *after, const tarry_sum_id *wanted)
{
    return after->step > wanted->step || sum_id_same(after, wanted);
}

/* With the lock held. */
static void hand_over(local_exchange *own, handed *state, const tarry_sum_id *after)
{
    local_exchanges *all = own->all;
    for (uint32_t worker = 0; worker < all->workers; worker++) {
        local_exchange *other = &all->items[worker];
        if (other->state != EXCHANGE_RUNNING || !other->loads || &all->items[other->from] != own)
            continue;
        if (state == NULL || !suffices(after, &other->sum)) {
            fail(other, "there is no such state");
            continue;
        }
        state->users++;
        other->got = state;
        other->state = EXCHANGE_DONE;
        pthread_cond_broadcast(&other->change);
    }
}

static int offer(exchange *base, const tarry_sum_id *after, uint8_t *bytes, uint64_t size)
{
    local_exchange *own = own_of(base);
    const tarry_allocator *allocator = &own->all->allocator;
    handed *state = bytes != NULL ? memory_allocate(allocator, 1, sizeof(*state)) : NULL;
    if (state != NULL)
        *state = (handed){.bytes = bytes, .size = size, .after = *after};
    pthread_mutex_lock(&own->all->lock);
    hand_over(own, state, after);
    bool used = state != NULL && state->users > 0;
    pthread_mutex_unlock(&own->all->lock);
    if (!used) {
        memory_release(allocator, bytes);
        memory_release(allocator, state);
    }
    return bytes != NULL && state == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
}

static void serve(exchange *base, void (*wanted)(void *user), void *user)
{
    local_exchange *own = own_of(base);
    pthread_mutex_lock(&own->all->lock);
    own->wanted = wanted;
    own->user = user;
    pthread_mutex_unlock(&own->all->lock);
}

static const exchange_methods methods = {
    .fetch = fetch,
    .load = load,
    .wait = wait,
    .wake = wake,
    .take = take,
    .abandon = abandon,
    .hold = hold,
    .offer = offer,
    .serve = serve,
};

/* ---- creation and the end ---- */

static int init_items(local_exchanges *self)
{
    self->has_lock = pthread_mutex_init(&self->lock, NULL) == 0;
    for (uint32_t worker = 0; worker < self->workers && self->has_lock; worker++) {
        local_exchange *item = &self->items[worker];
        item->base.methods = &methods;
        item->all = self;
        item->has_change = clock_init_condition(&item->change) == 0;
        if (!item->has_change)
            return TARRY_ERROR_SYSTEM;
    }
    return self->has_lock ? TARRY_OK : TARRY_ERROR_SYSTEM;
}

int local_exchanges_create(uint32_t workers, const tarry_allocator *allocator,
                           local_exchanges **made)
{
    local_exchanges *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    self->allocator = memory_allocator(allocator);
    self->workers = workers;
    self->items = memory_allocate(allocator, workers, sizeof(*self->items));
    int error = self->items == NULL ? TARRY_ERROR_NO_MEMORY : init_items(self);
    if (error != TARRY_OK) {
        local_exchanges_free(self);
        return error;
    }
    *made = self;
    return TARRY_OK;
}

void local_exchanges_free(local_exchanges *self)
{
    if (self == NULL)
        return;
    tarry_allocator allocator = self->allocator;
    for (uint32_t worker = 0; self->items != NULL && worker < self->workers; worker++) {
        drop(&self->items[worker]);
        if (self->items[worker].has_change)
            pthread_cond_destroy(&self->items[worker].change);
    }
    if (self->has_lock)
        pthread_mutex_destroy(&self->lock);
    memory_release(&allocator, self->items);
    memory_release(&allocator, self);
}

exchange *local_exchange_of(local_exchanges *self, uint32_t worker)
{
    return &self->items[worker].base;
}
