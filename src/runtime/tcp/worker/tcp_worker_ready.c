/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READY: what the server offers is prepared. A worker that goes over to its second connection is
 * prepared already, and says so behind HELLO: it is in the round one way up and one down later.
 */
#include <string.h>

#include "protocol/wire/wire_trunk.h"
#include "runtime/tcp/worker/tcp_worker.h"

static bool say_ready(tarry_tcp_worker *worker)
{
    wire_ready ready = {.size = 0};
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    pthread_mutex_lock(&worker->lock);
    memcpy(ready.plan, worker->held.plan, WIRE_DIGEST_BYTES);
    memcpy(ready.data, worker->held.data, WIRE_DIGEST_BYTES);
    ready.numerics = worker->held.numerics;
    ready.size = (uint16_t)worker->held.engine_size;
    memcpy(ready.address, worker->held.engine, ready.size);
    pthread_mutex_unlock(&worker->lock);
    return tcp_worker_say_key(worker) &&
           channel_send(worker->link.channel, frame, wire_ready_encode(&ready, frame));
}

static void begin_rounds(tarry_tcp_worker *worker)
{
    worker->link.stage = WORKER_READY;
    tcp_worker_open_uplink(worker, true);
}

void tcp_worker_answer(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    if (link->offered == 0 || link->answered == link->offered)
        return;
    pthread_mutex_lock(&worker->lock);
    bool prepared = worker->offers.prepared == link->offered;
    bool declined = worker->offers.declined == link->offered;
    pthread_mutex_unlock(&worker->lock);
    if (declined)
        tcp_worker_settle(worker, "its job has changed meanwhile");
    if (!prepared || !say_ready(worker))
        return;
    link->answered = link->offered;
    if (link->stage == WORKER_PREPARING)
        begin_rounds(worker);
}

bool tcp_worker_is_prepared(const tarry_tcp_worker *worker)
{
    const worker_link *link = &worker->link;
    return link->stage == WORKER_READY && link->offered != 0 && link->answered == link->offered &&
           !link->welcome.everywhere;
}

void tcp_worker_answer_early(tarry_tcp_worker *worker, uint64_t prepared)
{
    if (prepared != 0 && say_ready(worker))
        worker->link.early = prepared;
}

bool tcp_worker_has_answered(tarry_tcp_worker *worker, const wire_welcome *welcome)
{
    const worker_link *link = &worker->link;
    if (link->early == 0 || welcome->plan_bytes > 0 || welcome->job_bytes > 0 ||
        link->part.memory != NULL || !tcp_worker_is_same_job(&link->welcome, welcome))
        return false;
    pthread_mutex_lock(&worker->lock);
    bool same = memcmp(worker->held.plan, welcome->plan, WIRE_DIGEST_BYTES) == 0;
    pthread_mutex_unlock(&worker->lock);
    return same;
}

void tcp_worker_go_on(tarry_tcp_worker *worker)
{
    worker_link *link = &worker->link;
    link->offered = link->answered = link->early;
    begin_rounds(worker);
    tcp_worker_ask_chunks(worker); /* what was wanted over the connection before still is */
}
