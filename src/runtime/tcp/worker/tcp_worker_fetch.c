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
    worker->samples.chunks = chunks;
    worker->samples.count = origins;
    worker->samples.of = worker->job.offer.welcome;
    /* Another offer may have come since this one was taken. */
    worker->samples.outdated =
        worker->offers.waiting.number != 0 &&
        !tcp_worker_is_same_job(&worker->samples.of, &worker->offers.waiting.welcome);
    worker->samples.open = true;
    pthread_mutex_unlock(&worker->lock);
    return TARRY_OK;
}

void tcp_worker_drop_chunks(tarry_tcp_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    for (uint32_t origin = 0; origin < worker->samples.count; origin++)
        assembly_clear(&worker->samples.chunks[origin].bytes, &worker->allocator);
    memory_release(&worker->allocator, worker->samples.chunks);
    worker->samples.chunks = NULL;
    worker->samples.count = 0;
    worker->samples.wanted = NULL;
    worker->samples.open = false;
    pthread_mutex_unlock(&worker->lock);
}

/* With the lock held. */
static void want(tarry_tcp_worker *worker, worker_chunk *chunk)
{
    if (chunk->wanted)
        return;
    chunk->wanted = true;
    chunk->next = worker->samples.wanted;
    worker->samples.wanted = chunk;
    tcp_worker_wake(worker);
}

int tarry_tcp_worker_fetch(tarry_tcp_worker *worker, uint32_t origin, const void **bytes,
                           size_t *size)
{
    pthread_mutex_lock(&worker->lock);
    int error = TARRY_OK;
    if (!worker->samples.open || !worker->samples.of.ships || origin >= worker->samples.count)
        error = TARRY_ERROR_STATE;
    while (error == TARRY_OK && !worker->samples.chunks[origin].complete) {
        /* If a third job came before this thread looked, chunks_void is not of these chunks. */
        if (worker->run.ended || worker->run.leaving || worker->samples.outdated ||
            !worker->samples.open) {
            error = TARRY_ERROR_INTERRUPTED;
            break;
        }
        want(worker, &worker->samples.chunks[origin]);
        pthread_cond_wait(&worker->changed, &worker->lock);
    }
    if (error == TARRY_OK) {
        *bytes = worker->samples.chunks[origin].bytes.bytes;
        *size = worker->samples.chunks[origin].bytes.size;
    }
    pthread_mutex_unlock(&worker->lock);
    return error;
}

/* With the lock held. Chunks are freed only once the server's job is another one; what was offered
 * before it is asked is not taken for the present one any more then. */
static bool may_ask(const tarry_tcp_worker *worker)
{
    const worker_link *link = &worker->link;
    return link->offered != 0 && worker->samples.open &&
           tcp_worker_is_same_job(&worker->samples.of, &link->welcome);
}

void tcp_worker_ask_chunks(tarry_tcp_worker *worker)
{
    uint32_t asked = 0;
    pthread_mutex_lock(&worker->lock);
    worker_chunk *chunk = may_ask(worker) ? worker->samples.wanted : NULL;
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
    for (worker_chunk *chunk = worker->samples.wanted; chunk != NULL; chunk = chunk->next)
        chunk->asked = false;
    pthread_mutex_unlock(&worker->lock);
}

assembly *tcp_worker_chunk_room(tarry_tcp_worker *worker, uint32_t origin)
{
    pthread_mutex_lock(&worker->lock);
    bool waits = origin < worker->samples.count && worker->samples.chunks[origin].asked &&
                 !worker->samples.chunks[origin].complete;
    assembly *room = waits ? &worker->samples.chunks[origin].bytes : NULL;
    pthread_mutex_unlock(&worker->lock);
    return room;
}

void tcp_worker_chunk_complete(tarry_tcp_worker *worker, uint32_t origin)
{
    pthread_mutex_lock(&worker->lock);
    worker_chunk *chunk = &worker->samples.chunks[origin];
    chunk->complete = true;
    worker_chunk **at = &worker->samples.wanted;
    while (*at != chunk)
        at = &(*at)->next;
    *at = chunk->next;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    tcp_worker_ask_chunks(worker);
}
