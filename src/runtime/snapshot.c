/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/snapshot.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include <tarry/error.h>

#include "base/memory.h"

int snapshots_init(snapshots *pool, size_t parameters, size_t holders,
                   const tarry_allocator *allocator)
{
    *pool = (snapshots){.allocator = memory_allocator(allocator), .parameters = parameters};
    pool->capacity = holders + 2; /* the current one and the next */
    pool->items = memory_allocate(&pool->allocator, pool->capacity, sizeof(*pool->items));
    if (pool->items == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        memory_release(&pool->allocator, pool->items);
        return TARRY_ERROR_SYSTEM;
    }
    return TARRY_OK;
}

void snapshots_destroy(snapshots *pool)
{
    for (size_t i = 0; i < pool->capacity; i++)
        vector_release(&pool->allocator, pool->items[i].parameters);
    memory_release(&pool->allocator, pool->items);
    pthread_mutex_destroy(&pool->lock);
}

/* One with memory if there is one; with the lock held. */
static snapshot *find_free(snapshots *pool)
{
    snapshot *bare = NULL;
    for (size_t i = 0; i < pool->capacity; i++) {
        snapshot *item = &pool->items[i];
        if (item->holders > 0)
            continue;
        if (item->parameters != NULL)
            return item;
        if (bare == NULL)
            bare = item;
    }
    return bare;
}

static void fill(const snapshots *pool, snapshot *item, uint64_t round, const float *parameters)
{
    item->round = round;
    memcpy(item->parameters, parameters, pool->parameters * sizeof(float));
}

/* Whoever asks meanwhile waits for the lock, and gets the new one. */
static bool overwrite_current(snapshots *pool, uint64_t round, const float *parameters)
{
    if (pool->current == NULL || pool->current->holders > 1)
        return false;
    fill(pool, pool->current, round, parameters);
    return true;
}

int snapshots_publish(snapshots *pool, uint64_t round, const float *parameters)
{
    pthread_mutex_lock(&pool->lock);
    if (overwrite_current(pool, round, parameters)) {
        pthread_mutex_unlock(&pool->lock);
        return TARRY_OK;
    }
    snapshot *next = find_free(pool);
    assert(next != NULL);
    next->holders = 1;
    pthread_mutex_unlock(&pool->lock);

    if (next->parameters == NULL)
        next->parameters = vector_allocate(&pool->allocator, pool->parameters);
    if (next->parameters == NULL) {
        snapshots_release(pool, next);
        return TARRY_ERROR_NO_MEMORY;
    }
    fill(pool, next, round, parameters);

    pthread_mutex_lock(&pool->lock);
    snapshot *last = pool->current;
    pool->current = next;
    if (last != NULL)
        last->holders--;
    pthread_mutex_unlock(&pool->lock);
    return TARRY_OK;
}

snapshot *snapshots_hold(snapshots *pool)
{
    pthread_mutex_lock(&pool->lock);
    snapshot *held = pool->current;
    if (held != NULL)
        held->holders++;
    pthread_mutex_unlock(&pool->lock);
    return held;
}

void snapshots_release(snapshots *pool, snapshot *held)
{
    if (held == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    held->holders--;
    pthread_mutex_unlock(&pool->lock);
}
