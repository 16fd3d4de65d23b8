/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/snapshot.h"

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

static void copy(const snapshots *pool, snapshot *item, const float *parameters)
{
    memcpy(item->parameters, parameters, pool->parameters * sizeof(float));
}

/* With the lock held. */
static void make_current(snapshots *pool, snapshot *item, uint64_t round)
{
    item->round = round;
    item->generation = ++pool->generation;
    if (pool->current != NULL && pool->current != item)
        pool->current->holders--;
    pool->current = item;
}

/* Whoever asks meanwhile waits for the lock, and gets the new one. */
static bool overwrite_current(snapshots *pool, uint64_t round, const float *parameters)
{
    if (pool->current == NULL || pool->current->holders > 1)
        return false;
    copy(pool, pool->current, parameters);
    pool->current->digested = false;
    make_current(pool, pool->current, round);
    return true;
}

/* One that is free, with memory, held by the pool; NULL if there is no memory. */
static snapshot *take_free(snapshots *pool)
{
    pthread_mutex_lock(&pool->lock);
    snapshot *next = find_free(pool);
    assert(next != NULL);
    next->holders = 1;
    next->digested = false;
    pthread_mutex_unlock(&pool->lock);
    if (next->parameters == NULL)
        next->parameters = vector_allocate(&pool->allocator, pool->parameters);
    if (next->parameters != NULL)
        return next;
    snapshots_release(pool, next);
    return NULL;
}

int snapshots_publish(snapshots *pool, uint64_t round, const float *parameters)
{
    assert(pool->begun == NULL);
    pthread_mutex_lock(&pool->lock);
    if (overwrite_current(pool, round, parameters)) {
        pthread_mutex_unlock(&pool->lock);
        return TARRY_OK;
    }
    pthread_mutex_unlock(&pool->lock);

    snapshot *next = take_free(pool);
    if (next == NULL)
        return TARRY_ERROR_NO_MEMORY;
    copy(pool, next, parameters);
    pthread_mutex_lock(&pool->lock);
    make_current(pool, next, round);
    pthread_mutex_unlock(&pool->lock);
    return TARRY_OK;
}

float *snapshots_begin(snapshots *pool)
{
    if (pool->begun == NULL)
        pool->begun = take_free(pool);
    return pool->begun == NULL ? NULL : pool->begun->parameters;
}

void snapshots_commit(snapshots *pool, uint64_t round)
{
    assert(pool->begun != NULL);
    pthread_mutex_lock(&pool->lock);
    make_current(pool, pool->begun, round);
    pthread_mutex_unlock(&pool->lock);
    pool->begun = NULL;
}

void snapshots_set_digest(snapshots *pool, const uint8_t digest[32])
{
    assert(pool->begun != NULL);
    memcpy(pool->begun->digest, digest, sizeof(pool->begun->digest));
    pool->begun->digested = true;
}

bool snapshots_digest(snapshots *pool, uint64_t generation, uint8_t digest[32])
{
    pthread_mutex_lock(&pool->lock);
    const snapshot *current = pool->current;
    bool found = current != NULL && current->generation == generation && current->digested;
    if (found)
        memcpy(digest, current->digest, sizeof(current->digest));
    pthread_mutex_unlock(&pool->lock);
    return found;
}

void snapshots_label(snapshots *pool, uint64_t round)
{
    pthread_mutex_lock(&pool->lock);
    if (pool->current->round != round)
        make_current(pool, pool->current, round);
    pthread_mutex_unlock(&pool->lock);
}

uint64_t snapshots_generation(snapshots *pool, uint64_t round)
{
    pthread_mutex_lock(&pool->lock);
    const snapshot *current = pool->current;
    uint64_t generation = current != NULL && current->round == round ? current->generation : 0;
    pthread_mutex_unlock(&pool->lock);
    return generation;
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
