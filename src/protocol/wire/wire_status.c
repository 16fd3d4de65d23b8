/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/wire/wire_status.h"

#include <assert.h>
#include <string.h>

#include "plan/rack/rack.h"
#include "protocol/wire/wire_layout.h"
#include "protocol/wire/wire_text.h"

_Static_assert((int)WIRE_STATUS_NOTE_BYTES == (int)WIRE_TEXT_BYTES, "a note is a text");

size_t wire_status_size(const wire_status *status)
{
    return WIRE_HEAD_BYTES + LAYOUT_STATUS + (size_t)status->workers * LAYOUT_STATUS_WORKER +
           wire_text_size(status->note);
}

uint32_t wire_status_workers_in(size_t bytes)
{
    const size_t fixed = WIRE_HEAD_BYTES + LAYOUT_STATUS + 1 + WIRE_STATUS_NOTE_BYTES;
    size_t workers = bytes > fixed ? (bytes - fixed) / LAYOUT_STATUS_WORKER : 0;
    return workers < WIRE_STATUS_MOST_WORKERS ? (uint32_t)workers : WIRE_STATUS_MOST_WORKERS;
}

uint64_t wire_status_all_workers(const wire_status *status)
{
    uint64_t workers = status->workers;
    for (int state = 0; state < WIRE_WORKER_STATES; state++)
        workers += status->others[state];
    return workers;
}

static uint8_t *put_worker(uint8_t *at, const wire_worker_status *worker)
{
    at = bytes_put(at, worker->state, 1);
    at = bytes_put(at, worker->near, 1);
    at = bytes_put(at, 0, 2);
    at = bytes_put(at, worker->load, 4);
    at = bytes_put(at, worker->finished, 4);
    at = bytes_put(at, worker->arrivals, 4);
    at = bytes_put(at, worker->chunks, 8);
    at = bytes_put(at, worker->pace_ns, 8);
    at = bytes_put(at, worker->heard_ns, 8);
    at = bytes_put(at, worker->received, 8);
    at = bytes_put(at, worker->sent, 8);
    return wire_put_bytes(at, worker->rack, sizeof(worker->rack)); /* zeros behind its end */
}

void wire_status_encode(const wire_status *status, const wire_worker_status *worker, uint8_t *frame)
{
    assert(status->workers <= WIRE_STATUS_MOST_WORKERS);
    uint8_t *at = bytes_put(frame + WIRE_HEAD_BYTES, status->done, 8);
    at = bytes_put(at, status->elapsed_ns, 8);
    at = bytes_put(at, status->median_ns, 8);
    at = bytes_put(at, status->rounds, 8);
    at = bytes_put(at, status->exact, 8);
    at = bytes_put(at, status->attempts, 4);
    at = bytes_put(at, status->workers, 4);
    at = bytes_put(at, status->running, 1);
    at = bytes_put(at, status->waiting, 1);
    at = bytes_put(at, 0, 2);
    at = bytes_put(at, status->sum.step, 8);
    at = bytes_put(at, status->sum.term, 4);
    at = bytes_put(at, status->sum.attempt, 4);
    at = bytes_put(at, status->sum.voters, 4);
    at = bytes_put(at, status->sum.fetches, 4);
    at = bytes_put(at, status->sum.tries, 4);
    at = bytes_put(at, status->sum.shape.kind, 1);
    at = bytes_put(at, 0, 3);
    at = bytes_put(at, status->sum.shape.rows, 4);
    at = bytes_put(at, status->sum.links.latency_ns, 8);
    at = bytes_put(at, status->sum.links.bytes_per_second, 8);
    for (int state = 0; state < WIRE_WORKER_STATES; state++)
        at = bytes_put(at, status->others[state], 4);
    for (uint32_t j = 0; j < status->workers; j++)
        at = put_worker(at, &worker[j]);
    at = wire_put_text(at, status->note);
    wire_close(WIRE_STATUS, frame, at, 0);
}

int wire_status_decode(const wire_head *head, const uint8_t *body, wire_status *status)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_status read = {.done = wire_get(&from, 8)};
    read.elapsed_ns = wire_get(&from, 8);
    read.median_ns = wire_get(&from, 8);
    read.rounds = wire_get(&from, 8);
    read.exact = wire_get(&from, 8);
    read.attempts = (uint32_t)wire_get(&from, 4);
    read.workers = (uint32_t)wire_get_between(&from, 4, 0, WIRE_STATUS_MOST_WORKERS);
    read.running = wire_get_bool(&from);
    read.waiting = wire_get_bool(&from);
    wire_get_zeros(&from, 2);
    read.sum.step = wire_get(&from, 8);
    read.sum.term = (uint32_t)wire_get(&from, 4);
    read.sum.attempt = (uint32_t)wire_get(&from, 4);
    read.sum.voters = (uint32_t)wire_get(&from, 4);
    read.sum.fetches = (uint32_t)wire_get(&from, 4);
    read.sum.tries = (uint32_t)wire_get(&from, 4);
    read.sum.shape.kind = (tarry_shape_kind)wire_get_between(&from, 1, 0, TARRY_SHAPE_TREE);
    wire_get_zeros(&from, 3);
    read.sum.shape.rows = (uint32_t)wire_get(&from, 4);
    read.sum.links.latency_ns = wire_get(&from, 8);
    read.sum.links.bytes_per_second = wire_get(&from, 8);
    for (int state = 0; state < WIRE_WORKER_STATES; state++)
        read.others[state] = (uint32_t)wire_get(&from, 4);
    wire_take(&from, (size_t)read.workers * LAYOUT_STATUS_WORKER);
    wire_get_utf8(&from, read.note);
    if (!wire_ended(&from))
        return TARRY_ERROR_FORMAT;
    *status = read;
    return TARRY_OK;
}

/* Of a fixed size: zeros follow its end, one at least. */
static void get_rack(wire_reader *from, wire_rack rack)
{
    wire_get_bytes(from, (uint8_t *)rack, sizeof(wire_rack));
    bool ended = rack[sizeof(wire_rack) - 1] == 0;
    wire_require(from, ended && rack_is_name(rack));
    for (size_t i = ended ? strlen(rack) : 0; i < sizeof(wire_rack); i++)
        wire_require(from, rack[i] == 0);
}

int wire_status_worker(const wire_head *head, const uint8_t *body, uint32_t worker,
                       wire_worker_status *out)
{
    wire_reader from = wire_reader_make(body, head->length);
    wire_take(&from, LAYOUT_STATUS + (size_t)worker * LAYOUT_STATUS_WORKER);
    wire_worker_status read = {
        .state = (wire_worker_state)wire_get_between(&from, 1, 0, WIRE_WORKER_STATES - 1)};
    read.near = wire_get_bool(&from);
    wire_get_zeros(&from, 2);
    read.load = (uint32_t)wire_get(&from, 4);
    read.finished = (uint32_t)wire_get(&from, 4);
    read.arrivals = (uint32_t)wire_get(&from, 4);
    read.chunks = wire_get(&from, 8);
    read.pace_ns = wire_get(&from, 8);
    read.heard_ns = wire_get(&from, 8);
    read.received = wire_get(&from, 8);
    read.sent = wire_get(&from, 8);
    get_rack(&from, read.rack);
    if (from.damaged)
        return TARRY_ERROR_FORMAT;
    *out = read;
    return TARRY_OK;
}
