/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine is told. A round begins once all its parameters are there; what the server says
 * of it meanwhile waits. */
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "protocol/wire/codec.h"
#include "runtime/clock.h"
#include "runtime/tcp/worker/tcp_worker.h"

enum {
    SIZE_BYTES = 4,
    LEAST_ROOM = 4096,
    MOST_ROOM = 64 << 20, /* of what waits behind a round */
};

/* Nothing is hashed any more. */
static void drop_hash(worker_waiting *waiting)
{
    uint8_t unused[WIRE_DIGEST_BYTES];
    if (waiting->hashed != NULL)
        digest_end(waiting->hashed, unused);
    waiting->hashed = NULL;
}

void tcp_worker_forget_round(tarry_tcp_worker *worker)
{
    worker_waiting *waiting = &worker->link.waiting;
    memory_release(&worker->allocator, waiting->frames);
    drop_hash(waiting);
    *waiting = (worker_waiting){0};
}

static worker_fault deliver(tarry_tcp_worker *worker, const uint8_t *frame, size_t size)
{
    bool good = executor_deliver(&worker->job.executor, frame, size) == TARRY_OK;
    return good ? NULL : "out of memory";
}

static worker_fault hold(tarry_tcp_worker *worker, const uint8_t *frame, size_t size)
{
    worker_waiting *waiting = &worker->link.waiting;
    size_t wanted = waiting->size + SIZE_BYTES + size;
    if (wanted > waiting->room) {
        size_t room = memory_room(waiting->room, wanted, LEAST_ROOM);
        uint8_t *grown = room <= MOST_ROOM ? memory_grow(&worker->allocator, waiting->frames,
                                                         waiting->size, room, 1)
                                           : NULL;
        if (grown == NULL)
            return "out of memory";
        waiting->frames = grown;
        waiting->room = room;
    }
    uint8_t *at = bytes_put(waiting->frames + waiting->size, size, SIZE_BYTES);
    memcpy(at, frame, size);
    waiting->size = wanted;
    return NULL;
}

/* Parameters that are the same as those of the last round, which has the same number, don't make
 * what was finished with them worthless: a server that lost the worker sends both again. */
static void publish(tarry_tcp_worker *worker, uint64_t round)
{
    snapshots *pool = &worker->job.snapshots;
    const float *begun = snapshots_begin(pool);
    snapshot *current = snapshots_hold(pool);
    bool same = current != NULL && current->round == round &&
                memcmp(current->parameters, begun, pool->parameters * sizeof(float)) == 0;
    snapshots_release(pool, current);
    if (!same)
        snapshots_commit(pool, round);
}

static void note_begun(tarry_tcp_worker *worker, uint64_t round)
{
    backoff_reset(&worker->backoff);
    pthread_mutex_lock(&worker->lock);
    worker->work.round = round;
    pthread_mutex_unlock(&worker->lock);
}

/* ---- secure sums: the digest of the parameters, worked out as they come ---- */

static bool is_hashed(const tarry_tcp_worker *worker)
{
    return worker->link.rules.bits != 0;
}

/* From the first of them on. */
static bool begin_hash(worker_waiting *waiting)
{
    drop_hash(waiting);
    waiting->hashed = digest_begin();
    return waiting->hashed != NULL;
}

static bool end_hash(tarry_tcp_worker *worker)
{
    uint8_t hash[WIRE_DIGEST_BYTES];
    digest *state = worker->link.waiting.hashed;
    worker->link.waiting.hashed = NULL;
    if (state == NULL || digest_end(state, hash) != 0)
        return false;
    snapshots_set_digest(&worker->job.snapshots, hash);
    return true;
}

/* All parameters are there. */
static worker_fault begin_round(tarry_tcp_worker *worker)
{
    worker_waiting *waiting = &worker->link.waiting;
    worker_fault fault = NULL;
    for (size_t at = 0; at < waiting->size && fault == NULL;) {
        size_t size = (size_t)bytes_get(waiting->frames + at, SIZE_BYTES);
        fault = deliver(worker, waiting->frames + at + SIZE_BYTES, size);
        at += SIZE_BYTES + size;
    }
    if (fault != NULL)
        return fault;
    note_begun(worker, waiting->round);
    tcp_worker_forget_round(worker);
    return NULL;
}

worker_fault tcp_worker_take_parameters(tarry_tcp_worker *worker, uint64_t round)
{
    const worker_waiting *waiting = &worker->link.waiting;
    if (is_hashed(worker) && !end_hash(worker))
        return "out of memory";
    publish(worker, round);
    return waiting->active && waiting->round == round ? begin_round(worker) : NULL;
}

/* It is sent parameters as changes of a view, and has that of this round already. */
static bool has_view(const tarry_tcp_worker *worker, uint64_t round)
{
    return wire_view_form(&worker->link.welcome) != TARRY_COMPRESS_NONE &&
           worker->link.view.intake.has == round + 1;
}

static worker_fault take_round(tarry_tcp_worker *worker, uint64_t round, const uint8_t *frame,
                               size_t size)
{
    worker_waiting *waiting = &worker->link.waiting;
    tcp_worker_forget_round(worker);
    if (worker->link.welcome.everywhere) {
        note_begun(worker, round);
        return deliver(worker, frame, size);
    }
    waiting->place = snapshots_begin(&worker->job.snapshots);
    if (waiting->place == NULL)
        return "out of memory";
    waiting->active = true;
    waiting->round = round;
    worker_fault fault = hold(worker, frame, size);
    if (fault != NULL)
        return fault;
    if (has_view(worker, round))
        return begin_round(worker);
    if (is_hashed(worker) && !begin_hash(waiting))
        return "out of memory";
    if (worker->link.welcome.parameters == 0 || tcp_worker_read_shm_parameters(worker))
        return tcp_worker_take_parameters(worker, round);
    return NULL;
}

worker_fault tcp_worker_take_message(tarry_tcp_worker *worker, const uint8_t *frame, size_t size)
{
    worker_waiting *waiting = &worker->link.waiting;
    tarry_message_type type;
    uint64_t round;
    if (worker->link.stage != WORKER_READY || codec_peek(frame, size, &type, &round) != TARRY_OK)
        return "a message that makes no sense here";
    worker->link.machine_ns = clock_now_ns();
    switch (type) {
    case TARRY_MESSAGE_ROUND:
        tcp_worker_drop_parts(worker);
        worker->link.in_round = true;
        worker->link.signalled = false;
        if (tcp_worker_look_whether_to_leave(worker, true))
            return WORKER_LINK_OVER;
        return take_round(worker, round, frame, size);
    case TARRY_MESSAGE_FINISH:
        tcp_worker_drop_parts(worker);
        worker->link.in_round = false;
        if (waiting->active && waiting->round == round) {
            tcp_worker_forget_round(worker);
            return NULL;
        }
        break;
    case TARRY_MESSAGE_SIGNAL:
    case TARRY_MESSAGE_RESUME:
        tcp_worker_drop_parts(worker);
        worker->link.signalled = type == TARRY_MESSAGE_SIGNAL;
        break;
    case TARRY_MESSAGE_PROBE:
        return deliver(worker, frame, size);
    case TARRY_MESSAGE_NEWS:
    case TARRY_MESSAGE_REPORT:
    case TARRY_MESSAGE_PART:
    case TARRY_MESSAGE_ALIVE:
    case TARRY_MESSAGE_ASK:
    case TARRY_MESSAGE_BREAK:
    case TARRY_MESSAGE_FETCH:
    case TARRY_MESSAGE_LOAD:
    case TARRY_MESSAGE_COMMIT:
    case TARRY_MESSAGE_HELD:
    case TARRY_MESSAGE_FAILED:
    case TARRY_MESSAGE_STATE:
        break;
    }
    return waiting->active ? hold(worker, frame, size) : deliver(worker, frame, size);
}

bool tcp_worker_begin_parameters(tarry_tcp_worker *worker, const wire_parameters *parameters,
                                 void **place)
{
    worker_waiting *waiting = &worker->link.waiting;
    *place = NULL;
    if (wire_view_form(&worker->link.welcome) != TARRY_COMPRESS_NONE)
        return false;
    if (!waiting->active || waiting->round != parameters->round)
        return true; /* of a round that is over */
    if (parameters->first == 0 && waiting->received > 0 && is_hashed(worker) &&
        !begin_hash(waiting))
        return false;
    if (parameters->first == 0)
        waiting->received = 0;
    if (parameters->first != waiting->received ||
        parameters->count > worker->link.welcome.parameters - waiting->received)
        return false;
    *place = waiting->place + waiting->received;
    return true;
}

worker_fault tcp_worker_add_parameters(tarry_tcp_worker *worker, uint64_t count)
{
    worker_waiting *waiting = &worker->link.waiting;
    if (is_hashed(worker) &&
        digest_add_bytes(waiting->hashed, (const uint8_t *)(waiting->place + waiting->received),
                         (size_t)count * sizeof(float)) != 0)
        return "out of memory";
    waiting->received += count;
    return waiting->received < worker->link.welcome.parameters
               ? NULL
               : tcp_worker_take_parameters(worker, waiting->round);
}
