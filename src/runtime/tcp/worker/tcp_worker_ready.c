/* SPDX-License-Identifier: Apache-2.0 */
/* READY: what the server offers is prepared. */
#include <string.h>

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
    if (link->stage != WORKER_PREPARING)
        return;
    link->stage = WORKER_READY;
    tcp_worker_open_uplink(worker, true);
}
