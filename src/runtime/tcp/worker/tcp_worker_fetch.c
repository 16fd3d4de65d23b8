/* SPDX-License-Identifier: Apache-2.0 */
/* Samples that the server ships: each is asked for once, when it is first needed. */
#include "base/memory.h"
#include "runtime/tcp/worker/tcp_worker.h"

_Static_assert(ASSEMBLY_MOST_BYTES >= TARRY_TCP_SHIP_MOST, "what is shipped is taken");

enum { ASKED_MOST = 16 }; /* at a time; a server takes no more than twice as many */

int tcp_worker_init_chunks(tarry_tcp_worker *worker, uint32_t origins)
{
    worker_chunk *chunks = memory_allocate(&worker->allocator, origins, sizeof(*chunks));
    if (chunks == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t origin = 0; origin < origins; origin++)
        chunks[origin].origin = origin;
    pthread_mutex_lock(&worker->lock);
    worker->chunks = chunks;
    worker->chunk_count = origins;
    worker->begun = worker->job.welcome;
    /* Another offer may have come since this one was taken. */
    worker->chunks_void = worker->offer.number != 0 &&
                          !tcp_worker_is_same_job(&worker->begun, &worker->offer.welcome);
    worker->has_begun = true;
    pthread_mutex_unlock(&worker->lock);
    return TARRY_OK;
}

void tcp_worker_drop_chunks(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    for (uint32_t origin = 0; origin < worker->chunk_count; origin++)
        assembly_clear(&worker->chunks[origin].bytes, &worker->allocator);
    memory_release(&worker->allocator, worker->chunks);
    worker->chunks = NULL;
    worker->chunk_count = 0;
    worker->wanted = NULL;
    worker->has_begun = false;
    pthread_mutex_unlock(&worker->lock);
}

/* With the lock held. */
static void want(tarry_tcp_worker *worker, worker_chunk *chunk)
{
    if (chunk->wanted)
        return;
    chunk->wanted = true;
    chunk->next = worker->wanted;
    worker->wanted = chunk;
    tcp_worker_wake(worker);
}

int tarry_tcp_worker_fetch(tarry_tcp_worker *worker, uint32_t origin, const void **bytes,
                           size_t *size)
{
    pthread_mutex_lock(&worker->lock);
    int error = TARRY_OK;
    if (!worker->has_begun || !worker->begun.ships || origin >= worker->chunk_count)
        error = TARRY_ERROR_STATE;
    while (error == TARRY_OK && !worker->chunks[origin].complete) {
        /* If a third job came before this thread looked, chunks_void is not of these chunks. */
        if (worker->ended || worker->leaving || worker->chunks_void || !worker->has_begun) {
            error = TARRY_ERROR_INTERRUPTED;
            break;
        }
        want(worker, &worker->chunks[origin]);
        pthread_cond_wait(&worker->changed, &worker->lock);
    }
    if (error == TARRY_OK) {
        *bytes = worker->chunks[origin].bytes.bytes;
        *size = worker->chunks[origin].bytes.size;
    }
    pthread_mutex_unlock(&worker->lock);
    return error;
}

/* With the lock held. Chunks are freed only once the server's job is another one; what was offered
 * before it is asked is not taken for the present one any more then. */
static bool may_ask(const tarry_tcp_worker *worker)
{
    const worker_link *link = &worker->link;
    return link->offered != 0 && worker->has_begun &&
           tcp_worker_is_same_job(&worker->begun, &link->welcome);
}

void tcp_worker_ask_chunks(tarry_tcp_worker *worker)
{
    uint32_t asked = 0;
    pthread_mutex_lock(&worker->lock);
    worker_chunk *chunk = may_ask(worker) ? worker->wanted : NULL;
    for (; chunk != NULL; chunk = chunk->next) {
        if (!chunk->asked && asked < ASKED_MOST) {
            uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
            const wire_fetch fetch = {.kind = WIRE_BLOB_DATA, .index = chunk->origin};
            chunk->asked =
                channel_send(worker->link.channel, frame, wire_fetch_encode(&fetch, frame));
        }
        asked += chunk->asked;
    }
    pthread_mutex_unlock(&worker->lock);
}

void tcp_worker_forget_asked(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    for (worker_chunk *chunk = worker->wanted; chunk != NULL; chunk = chunk->next)
        chunk->asked = false;
    pthread_mutex_unlock(&worker->lock);
}

assembly *tcp_worker_chunk_room(tarry_tcp_worker *worker, uint32_t origin)
{
    pthread_mutex_lock(&worker->lock);
    bool waits = origin < worker->chunk_count && worker->chunks[origin].asked &&
                 !worker->chunks[origin].complete;
    assembly *room = waits ? &worker->chunks[origin].bytes : NULL;
    pthread_mutex_unlock(&worker->lock);
    return room;
}

void tcp_worker_chunk_complete(tarry_tcp_worker *worker, uint32_t origin)
{
    pthread_mutex_lock(&worker->lock);
    worker_chunk *chunk = &worker->chunks[origin];
    chunk->complete = true;
    worker_chunk **at = &worker->wanted;
    while (*at != chunk)
        at = &(*at)->next;
    *at = chunk->next;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    tcp_worker_ask_chunks(worker);
}
