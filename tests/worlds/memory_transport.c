/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/memory_transport.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include <tarry/error.h>
#include <tarry/server.h>

#include "base/memory.h"

enum { MOST_WORKERS = 32 };

typedef struct memory_end {
    transport base;
    memory_network *network;
    uint32_t self;
    bool woken;
} memory_end;

struct memory_network {
    tarry_allocator allocator;
    memory_rules rules;
    memory_end ends[MOST_WORKERS + 1]; /* the coordinator's is the last */
    bool connected[MOST_WORKERS];
    uint32_t connection[MOST_WORKERS];
    size_t stride; /* of events: each is followed by room for its body and its head */
    uint8_t *events;
    /* Numbers of all events: `count` on their way, the one that was polled last if `polled`, and
     * free ones. */
    uint32_t *numbers;
    size_t count;
    bool polled;
};

static size_t aligned(size_t bytes)
{
    return (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

static memory_event *event_at(const memory_network *it, size_t index)
{
    return (memory_event *)(void *)(it->events + it->numbers[index] * it->stride);
}

void *memory_event_body(memory_event *of)
{
    return (uint8_t *)of + aligned(sizeof(*of));
}

static uint8_t *head_of(const memory_network *it, memory_event *of)
{
    return (uint8_t *)memory_event_body(of) + aligned(it->rules.most_body);
}

static uint32_t worker_of(uint32_t from, uint32_t to)
{
    return from == TRANSPORT_COORDINATOR ? to : from;
}

static memory_event *add(memory_network *it, uint64_t time, transport_event_type type,
                         uint32_t from, uint32_t to)
{
    assert(it->count + it->polled < it->rules.most_events);
    if (it->polled) {
        uint32_t held = it->numbers[it->count];
        it->numbers[it->count] = it->numbers[it->count + 1];
        it->numbers[it->count + 1] = held;
    }
    memory_event *added = event_at(it, it->count++);
    *added = (memory_event){
        .time = time,
        .order = (*it->rules.order)++,
        .type = type,
        .from = from,
        .to = to,
        .connection = it->connection[worker_of(from, to)],
    };
    return added;
}

void memory_network_deliver(memory_network *it, uint64_t time, uint32_t from, uint32_t to,
                            const transport_frame *frame)
{
    assert(frame->head_size <= it->rules.most_head && frame->body_size <= it->rules.most_body);
    memory_event *sent = add(it, time, TRANSPORT_FRAME, from, to);
    sent->head_size = frame->head_size;
    sent->body_size = frame->body_size;
    if (frame->head_size > 0)
        memcpy(head_of(it, sent), frame->head, frame->head_size);
    if (frame->body_size > 0)
        memcpy(memory_event_body(sent), frame->body, frame->body_size);
}

void memory_network_hear(memory_network *it, uint64_t time, uint32_t from, uint32_t to)
{
    add(it, time, TRANSPORT_HEARD, from, to);
}

/* The first event until then, at the end `*to` or, with NULL, at any; `count` if there is none. */
static size_t next_index(const memory_network *it, const uint32_t *to, uint64_t until_ns)
{
    size_t next = it->count;
    for (size_t i = 0; i < it->count; i++) {
        const memory_event *a = event_at(it, i);
        const memory_event *b = next < it->count ? event_at(it, next) : NULL;
        if ((to == NULL || a->to == *to) && a->time <= until_ns &&
            (b == NULL || a->time < b->time || (a->time == b->time && a->order < b->order)))
            next = i;
    }
    return next;
}

memory_event *memory_network_next(const memory_network *it)
{
    return memory_network_look(it, next_index(it, NULL, TARRY_NEVER));
}

memory_event *memory_network_look(const memory_network *it, size_t index)
{
    return index < it->count ? event_at(it, index) : NULL;
}

void memory_network_connect(memory_network *it, uint32_t worker)
{
    it->connected[worker] = true;
    it->connection[worker]++;
}

bool memory_network_connected(const memory_network *it, uint32_t worker)
{
    return it->connected[worker];
}

uint32_t memory_network_connection(const memory_network *it, uint32_t worker)
{
    return it->connection[worker];
}

/* ---- an end ---- */

static void end_send(transport *self, uint32_t peer, const transport_frame *frame)
{
    const memory_end *own = (const memory_end *)self;
    memory_network *it = own->network;
    if (!it->connected[worker_of(own->self, peer)])
        return;
    if (it->rules.carry != NULL)
        it->rules.carry(it->rules.user, own->self, peer, frame);
    else
        memory_network_deliver(it, *it->rules.clock, own->self, peer, frame);
}

static void end_poll(transport *self, uint64_t until_ns, transport_event *event)
{
    memory_end *own = (memory_end *)self;
    memory_network *it = own->network;
    if (own->woken) {
        own->woken = false;
        *event = (transport_event){.type = TRANSPORT_WOKEN};
        return;
    }
    size_t next = next_index(it, &own->self, until_ns);
    *event = (transport_event){.type = TRANSPORT_QUIET};
    it->polled = next < it->count;
    if (!it->polled)
        return;
    memory_event *due = event_at(it, next);
    uint32_t number = it->numbers[next];
    it->numbers[next] = it->numbers[--it->count];
    it->numbers[it->count] = number;
    *event = (transport_event){
        .type = due->type,
        .peer = due->from,
        .connection = due->connection,
        .frame = {.head = head_of(it, due),
                  .head_size = due->head_size,
                  .body = due->body_size > 0 ? memory_event_body(due) : NULL,
                  .body_size = due->body_size},
    };
}

static void end_wake(transport *self)
{
    ((memory_end *)self)->woken = true;
}

static uint64_t end_now(const transport *self)
{
    return *((const memory_end *)self)->network->rules.clock;
}

static void end_close(transport *self, uint32_t peer)
{
    const memory_end *own = (const memory_end *)self;
    memory_network *it = own->network;
    const memory_rules *rules = &it->rules;
    if (!it->connected[worker_of(own->self, peer)])
        return;
    uint64_t time =
        rules->notice != NULL ? rules->notice(rules->user, own->self, peer) : *rules->clock;
    if (time != TARRY_NEVER)
        add(it, time, TRANSPORT_GONE, own->self, peer);
    it->connected[worker_of(own->self, peer)] = false;
}

static const transport_functions functions = {
    .send = end_send,
    .poll = end_poll,
    .wake = end_wake,
    .now = end_now,
    .close = end_close,
};

transport *memory_network_end(memory_network *it, uint32_t who)
{
    assert(who == TRANSPORT_COORDINATOR || who < it->rules.workers);
    return &it->ends[who == TRANSPORT_COORDINATOR ? MOST_WORKERS : who].base;
}

void memory_network_reset(memory_network *it, uint32_t workers)
{
    assert(workers <= MOST_WORKERS);
    it->rules.workers = workers;
    it->count = 0;
    it->polled = false;
    for (uint32_t i = 0; i <= MOST_WORKERS; i++)
        it->ends[i].woken = false;
    memset(it->connected, 0, sizeof(it->connected));
    memset(it->connection, 0, sizeof(it->connection));
}

int memory_network_create(const memory_rules *rules, const tarry_allocator *allocator,
                          memory_network **out)
{
    memory_network *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    made->rules = *rules;
    made->stride =
        aligned(sizeof(memory_event)) + aligned(rules->most_body) + aligned(rules->most_head);
    made->events = memory_allocate(allocator, rules->most_events, made->stride);
    made->numbers = memory_allocate(allocator, rules->most_events, sizeof(*made->numbers));
    if (made->events == NULL || made->numbers == NULL) {
        memory_network_free(made);
        return TARRY_ERROR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < rules->most_events; i++)
        made->numbers[i] = i;
    for (uint32_t i = 0; i <= MOST_WORKERS; i++)
        made->ends[i] = (memory_end){
            .base = {&functions},
            .network = made,
            .self = i == MOST_WORKERS ? TRANSPORT_COORDINATOR : i,
        };
    memory_network_reset(made, rules->workers);
    *out = made;
    return TARRY_OK;
}

void memory_network_free(memory_network *it)
{
    if (it == NULL)
        return;
    tarry_allocator allocator = it->allocator;
    memory_release(&allocator, it->events);
    memory_release(&allocator, it->numbers);
    memory_release(&allocator, it);
}
