/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/worker/mailbox.h"

#include <assert.h>
#include <string.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "runtime/clock.h"

typedef struct mailbox_head {
    uint32_t sender;
    uint32_t size;
} mailbox_head;

static size_t entry_bytes(const mailbox_batch *batch)
{
    return sizeof(mailbox_head) + batch->stride;
}

static bool grow(mailbox *box, mailbox_batch *batch, size_t capacity, size_t stride)
{
    mailbox_batch larger = {.stride = stride, .count = batch->count, .capacity = capacity};
    larger.bytes = memory_allocate(&box->allocator, capacity, entry_bytes(&larger));
    if (larger.bytes == NULL)
        return false;
    for (size_t i = 0; i < batch->count; i++)
        memcpy(larger.bytes + i * entry_bytes(&larger), batch->bytes + i * entry_bytes(batch),
               entry_bytes(batch));
    memory_release(&box->allocator, batch->bytes);
    *batch = larger;
    return true;
}

static size_t stride_for(size_t size)
{
    return (size + 7) / 8 * 8;
}

int mailbox_init(mailbox *box, size_t max_size, size_t capacity, const tarry_allocator *allocator)
{
    *box = (mailbox){.allocator = memory_allocator(allocator)};
    size_t stride = stride_for(max_size);
    int error = TARRY_ERROR_NO_MEMORY;
    if (!grow(box, &box->incoming, capacity, stride) || !grow(box, &box->taken, capacity, stride))
        goto release_batches;
    error = TARRY_ERROR_SYSTEM;
    if (pthread_mutex_init(&box->lock, NULL) != 0)
        goto release_batches;
    if (clock_init_condition(&box->filled) == 0)
        return TARRY_OK;
    pthread_mutex_destroy(&box->lock);

release_batches:
    memory_release(&box->allocator, box->incoming.bytes);
    memory_release(&box->allocator, box->taken.bytes);
    return error;
}

void mailbox_destroy(mailbox *box)
{
    pthread_cond_destroy(&box->filled);
    pthread_mutex_destroy(&box->lock);
    memory_release(&box->allocator, box->incoming.bytes);
    memory_release(&box->allocator, box->taken.bytes);
}

static void append(mailbox *box, uint32_t sender, const void *bytes, size_t size)
{
    assert(size <= box->incoming.stride);
    mailbox_head head = {.sender = sender, .size = (uint32_t)size};
    uint8_t *entry = box->incoming.bytes + box->incoming.count * entry_bytes(&box->incoming);
    memcpy(entry, &head, sizeof(head));
    if (size > 0)
        memcpy(entry + sizeof(head), bytes, size);
    box->incoming.count++;
}

/* Who takes needs the lock, and would wait for it if it were told before. */
static void unlock_and_tell(mailbox *box)
{
    bool waiting = box->waiting;
    pthread_mutex_unlock(&box->lock);
    if (waiting)
        pthread_cond_signal(&box->filled);
}

bool mailbox_put(mailbox *box, uint32_t sender, const void *bytes, size_t size)
{
    pthread_mutex_lock(&box->lock);
    mailbox_batch *incoming = &box->incoming;
    size_t stride = size > incoming->stride ? stride_for(size) : incoming->stride;
    size_t capacity = incoming->capacity * (incoming->count < incoming->capacity ? 1 : 2);
    bool fits = stride == incoming->stride && capacity == incoming->capacity;
    bool put = !box->closed && (fits || grow(box, incoming, capacity, stride));
    if (put)
        append(box, sender, bytes, size);
    unlock_and_tell(box);
    return put;
}

static bool idle(const mailbox *box)
{
    return box->incoming.count == 0 && !box->woken && !box->closed;
}

size_t mailbox_take(mailbox *box, uint64_t until_ns)
{
    pthread_mutex_lock(&box->lock);
    box->waiting = true;
    bool expired = until_ns == 0;
    while (idle(box) && !expired)
        expired = !clock_wait(&box->filled, &box->lock, until_ns);
    box->waiting = false;
    box->woken = false;

    mailbox_batch batch = box->incoming;
    box->incoming = box->taken;
    box->incoming.count = 0;
    box->taken = batch;
    pthread_mutex_unlock(&box->lock);
    return batch.count;
}

mailbox_frame mailbox_frame_at(const mailbox *box, size_t index)
{
    assert(index < box->taken.count);
    const uint8_t *entry = box->taken.bytes + index * entry_bytes(&box->taken);
    mailbox_head head;
    memcpy(&head, entry, sizeof(head));
    return (mailbox_frame){head.sender, head.size, entry + sizeof(head)};
}

void mailbox_wake(mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->woken = true;
    unlock_and_tell(box);
}

void mailbox_close(mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->closed = true;
    pthread_cond_broadcast(&box->filled);
    pthread_mutex_unlock(&box->lock);
}

bool mailbox_closed(mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    bool closed = box->closed;
    pthread_mutex_unlock(&box->lock);
    return closed;
}
