/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sum/stripes.h"

#include <assert.h>

#include "base/memory.h"

void stripe_queue_push(stripe_queue *queue, stripe *item)
{
    item->next = NULL;
    if (queue->first == NULL)
        queue->first = item;
    else
        queue->last->next = item;
    queue->last = item;
}

void stripe_queue_append(stripe_queue *queue, stripe_queue *from)
{
    if (from->first == NULL)
        return;
    if (queue->first == NULL)
        queue->first = from->first;
    else
        queue->last->next = from->first;
    queue->last = from->last;
    from->first = NULL;
}

void stripes_init(stripes *pool, size_t length, const tarry_allocator *allocator)
{
    *pool = (stripes){.allocator = memory_allocator(allocator), .length = length};
}

static void release(stripes *pool, stripe *item)
{
    vector_release(&pool->allocator, item->numbers);
    memory_release(&pool->allocator, item);
}

static void release_spares(stripes *pool, size_t keep)
{
    while (pool->spares > keep) {
        stripe *item = pool->spare;
        pool->spare = item->next;
        pool->spares--;
        release(pool, item);
    }
}

void stripes_destroy(stripes *pool)
{
    assert(pool->used == 0);
    release_spares(pool, 0);
}

static stripe *make(stripes *pool)
{
    stripe *item = memory_allocate(&pool->allocator, 1, sizeof(*item));
    if (item == NULL)
        return NULL;
    item->numbers = vector_allocate(&pool->allocator, pool->length);
    if (item->numbers != NULL)
        return item;
    memory_release(&pool->allocator, item);
    return NULL;
}

stripe *stripes_take(stripes *pool)
{
    stripe *item = pool->spare;
    if (item != NULL) {
        pool->spare = item->next;
        pool->spares--;
    } else {
        item = make(pool);
        if (item == NULL)
            return NULL;
    }
    item->next = NULL;
    pool->used++;
    if (pool->used > pool->most_used)
        pool->most_used = pool->used;
    return item;
}

void stripes_give(stripes *pool, stripe *item)
{
    assert(pool->used > 0);
    item->next = pool->spare;
    pool->spare = item;
    pool->spares++;
    pool->used--;
}

void stripes_trim(stripes *pool)
{
    release_spares(pool, pool->most_used - pool->used);
    pool->most_used = pool->used;
}
