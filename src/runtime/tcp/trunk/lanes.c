/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trunk/lanes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum {
    FAILURE_BYTES = 128,
    TABLE_LEAST = 16,
    SCRATCH_LEAST = 1024,
    TAKEN_AT_ONCE = WIRE_LANE_WINDOW / 2, /* that a TAKEN tells of */
};

typedef struct lane {
    channel base;
    lanes *all;
    uint32_t number;
    channel_handlers handlers;
    X509 *certificate;
    uint32_t most_length;
    uint32_t parts_out; /* places that it fills or has filled, */
    uint32_t owed;      /* and those that are free again, of which the relay was not told yet */
    bool wanted;        /* handlers are set, and want to hear of it */
    bool closed;        /* by its owner, and LANE_END was sent */
    bool over;          /* LANE_END has come, or the trunk is gone */
    bool ending;        /* `ended` is being called */
    bool placed;        /* the part that comes in has a place */
    uint64_t received, sent;
    char failure[FAILURE_BYTES];
    char from[]; /* with its NUL */
} lane;

struct lanes {
    tarry_allocator allocator;
    channel *trunk; /* NULL: it is cut */
    lanes_handlers handlers;
    lane **table; /* by number; NULL: that is free */
    uint32_t room, count;
    lane *incoming;   /* whose part comes in; NULL: none, or its lane is no more */
    uint8_t *scratch; /* a frame that goes out */
    size_t scratch_room;
};

static lane *lane_of(channel *base)
{
    return (lane *)base;
}

static const lane *lane_of_const(const channel *base)
{
    return (const lane *)base;
}

/* ---- what goes out ---- */

static bool send(lane *self, const uint8_t *frame, size_t size)
{
    if (self->all->trunk == NULL || self->over || !channel_send(self->all->trunk, frame, size))
        return false;
    self->sent += size;
    return true;
}

/* Lane and frame go out as one: nothing may come between them. */
static bool lane_send(channel *base, const uint8_t *frame, size_t size)
{
    lane *self = lane_of(base);
    lanes *all = self->all;
    size_t whole = WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES + size;
    if (self->closed)
        return false;
    if (whole > all->scratch_room) {
        size_t room = memory_room(all->scratch_room, whole, SCRATCH_LEAST);
        uint8_t *grown = memory_grow(&all->allocator, all->scratch, 0, room, 1);
        if (grown == NULL)
            return false;
        all->scratch = grown;
        all->scratch_room = room;
    }
    wire_lane_head(self->number, size, all->scratch);
    memcpy(all->scratch + WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES, frame, size);
    return send(self, all->scratch, whole);
}

static size_t lane_send_aside(channel *base, const uint8_t *frame, size_t size)
{
    (void)base;
    (void)frame;
    (void)size;
    return 0;
}

static bool lane_send_load(channel *base, const uint8_t *prefix, size_t size,
                           const channel_load *load)
{
    (void)base;
    (void)prefix;
    (void)size;
    (void)load;
    assert(false); /* what is large goes over the trunk */
    return false;
}

/* It has no loads. */
static bool lane_drop(channel *base, uint32_t tag)
{
    (void)base;
    (void)tag;
    return false;
}

static bool lane_detach(channel *base, uint32_t tag)
{
    (void)base;
    (void)tag;
    return true;
}

static size_t lane_loads(const channel *base)
{
    (void)base;
    return 0;
}

bool lane_announce(channel *base, const wire_lane_blob *blob)
{
    lane *self = lane_of(base);
    wire_lane_blob words = *blob;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    words.lane = self->number;
    return !self->closed && send(self, frame, wire_lane_blob_encode(&words, frame));
}

/* The relay hears of it only where it may wait for it. */
static void give_window(lane *self)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (++self->owed < TAKEN_AT_ONCE || self->closed)
        return;
    const wire_taken words = {.lane = self->number, .count = self->owed};
    self->owed = 0;
    send(self, frame, wire_taken_encode(&words, frame));
}

void lane_part_taken(channel *base)
{
    lane *self = lane_of(base);
    assert(self->parts_out > 0);
    self->parts_out--;
    give_window(self);
}

uint32_t lane_parts_out(const channel *base)
{
    return lane_of_const(base)->parts_out;
}

/* ---- the end ---- */

static void release(lane *self)
{
    lanes *all = self->all;
    assert(self->closed);
    if (all->incoming == self)
        all->incoming = NULL;
    all->table[self->number] = NULL;
    all->count--;
    X509_free(self->certificate);
    memory_release(&all->allocator, self);
}

/* The part that comes in has no place any more. */
static void divert(lane *self)
{
    if (self->all->incoming != self || !self->placed || self->all->trunk == NULL)
        return;
    channel_divert(self->all->trunk, WIRE_LANE_PART);
    self->placed = false;
}

static void lane_close(channel *base)
{
    lane *self = lane_of(base);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (self->closed)
        return;
    divert(self);
    self->closed = true;
    const wire_lane_end words = {.lane = self->number, .reason = WIRE_LANE_CLOSED};
    size_t size = wire_lane_end_encode(&words, frame);
    if (self->all->trunk != NULL)
        channel_send(self->all->trunk, frame, size);
    if (self->over && !self->ending)
        release(self);
}

/* What was sent is on its way already, in its order. */
static void lane_close_gently(channel *base, uint64_t most_ns)
{
    (void)most_ns;
    lane_close(base);
}

/* Nothing comes of it any more. */
static void end(lane *self, channel_end how, const char *why)
{
    snprintf(self->failure, sizeof(self->failure), "%s", why);
    self->over = true;
    self->ending = true;
    if (!self->closed && self->handlers.ended != NULL)
        self->handlers.ended(self->handlers.user, how);
    self->ending = false;
    if (self->closed)
        release(self);
}

/* ---- what the owner asks ---- */

static void lane_divert(channel *base, wire_kind kind)
{
    if (kind == WIRE_MESSAGE)
        divert(lane_of(base));
}

static void lane_allow(channel *base, uint32_t most_length)
{
    lane_of(base)->most_length = most_length;
}

static void lane_resume(channel *base)
{
    (void)base;
}

static uint64_t lane_received(const channel *base)
{
    return lane_of_const(base)->received;
}

static uint64_t lane_sent(const channel *base)
{
    return lane_of_const(base)->sent;
}

static const char *lane_failure(const channel *base)
{
    return lane_of_const(base)->failure;
}

static const char *lane_peer(const channel *base)
{
    return lane_of_const(base)->from;
}

static SSL *lane_ssl(const channel *base)
{
    (void)base;
    return NULL;
}

static X509 *lane_certificate(const channel *base)
{
    return lane_of_const(base)->certificate;
}

static bool lane_is_unix(const channel *base)
{
    (void)base;
    return false;
}

/* That of the trunk is not the peer's. */
static uint64_t lane_latency_ns(const channel *base)
{
    (void)base;
    return 0;
}

static uint64_t lane_round_trip_ns(const channel *base)
{
    (void)base;
    return 0;
}

uint32_t lane_number(const channel *base)
{
    return lane_of_const(base)->number;
}

static const channel_methods methods = {
    .close = lane_close,
    .close_gently = lane_close_gently,
    .send = lane_send,
    .send_aside = lane_send_aside,
    .send_load = lane_send_load,
    .drop = lane_drop,
    .detach = lane_detach,
    .divert = lane_divert,
    .loads = lane_loads,
    .allow = lane_allow,
    .resume = lane_resume,
    .received = lane_received,
    .sent = lane_sent,
    .failure = lane_failure,
    .peer = lane_peer,
    .ssl = lane_ssl,
    .certificate = lane_certificate,
    .is_unix = lane_is_unix,
    .latency_ns = lane_latency_ns,
    .round_trip_ns = lane_round_trip_ns,
};

void lane_take(channel *base, const channel_handlers *handlers, X509 *certificate)
{
    lane *self = lane_of(base);
    self->handlers = *handlers;
    self->certificate = certificate;
    self->wanted = true;
}

/* ---- what comes ---- */

static bool reserve(lanes *self, uint32_t number)
{
    if (number < self->room)
        return true;
    size_t room = memory_room(self->room, (size_t)number + 1, TABLE_LEAST);
    lane **grown =
        memory_grow(&self->allocator, self->table, self->room, room, sizeof(*self->table));
    if (grown == NULL)
        return false;
    for (size_t i = self->room; i < room; i++)
        grown[i] = NULL;
    self->table = grown;
    self->room = (uint32_t)room;
    return true;
}

/* NULL: there is none of that number. */
static lane *find(const lanes *self, uint32_t number)
{
    return number < self->room ? self->table[number] : NULL;
}

/* A handler may have cut the trunk. */
static lanes_verdict after(const lanes *self)
{
    return self->trunk != NULL ? LANES_TAKEN : LANES_STOP;
}

/* What was not taken is not heard of any more, until the relay has learned of it. */
static void stop(lane *self, bool goes_on)
{
    if (!goes_on)
        self->wanted = false;
}

static bool is_wanted(const lane *self)
{
    return self->wanted && !self->closed && !self->over && self->all->trunk != NULL;
}

static void hear(lane *self, size_t bytes)
{
    self->received += bytes;
    if (self->handlers.heard != NULL)
        self->handlers.heard(self->handlers.user);
}

static lanes_verdict take_open(lanes *self, const wire_head *head, const uint8_t *body)
{
    wire_lane_open words;
    if (wire_lane_open_decode(head, body, &words) != TARRY_OK || find(self, words.lane) != NULL ||
        !reserve(self, words.lane))
        return LANES_NOT_HERE;
    size_t length = strlen(words.from) + 1;
    lane *made = memory_allocate(&self->allocator, 1, sizeof(*made) + length);
    if (made == NULL)
        return LANES_NOT_HERE;
    made->base.methods = &methods;
    made->all = self;
    made->number = words.lane;
    made->most_length = WIRE_SMALL_BYTES;
    memcpy(made->from, words.from, length);
    self->table[words.lane] = made;
    self->count++;
    bool goes_on = self->handlers.opened(self->handlers.user, &made->base, &words);
    return goes_on ? after(self) : LANES_STOP;
}

static lanes_verdict take_lane(lanes *self, const wire_head *head, const uint8_t *body)
{
    uint32_t number;
    wire_head inner;
    const uint8_t *inner_body;
    if (wire_lane_decode(head, body, &number, &inner, &inner_body) != TARRY_OK)
        return LANES_NOT_HERE;
    lane *from = find(self, number);
    if (from == NULL)
        return LANES_NOT_HERE;
    if (!is_wanted(from))
        return LANES_TAKEN;
    if (inner.length > from->most_length) {
        from->wanted = false;
        from->handlers.ended(from->handlers.user, CHANNEL_NOT_FRAMES);
        return after(self);
    }
    hear(from, WIRE_HEAD_BYTES + inner.length);
    if (is_wanted(from))
        stop(from, from->handlers.frame(from->handlers.user, &inner, inner_body));
    return after(self);
}

static lanes_verdict take_batch(lanes *self, const wire_head *head, const uint8_t *body)
{
    wire_batch batch;
    if (wire_batch_decode(head, body, &batch) != TARRY_OK || !batch.lanes)
        return LANES_NOT_HERE;
    for (uint32_t i = 0; i < batch.count && self->trunk != NULL; i++) {
        uint32_t number = 0;
        tarry_message report;
        wire_batch_get(&batch, i, &number, &report);
        lane *from = find(self, number);
        if (from == NULL)
            return LANES_NOT_HERE;
        if (!is_wanted(from))
            continue;
        hear(from, WIRE_BATCH_REPORT_BYTES);
        if (is_wanted(from))
            stop(from, from->handlers.report(from->handlers.user, &report));
    }
    return after(self);
}

static const channel_end ends[WIRE_LANE_REASONS] = {
    [WIRE_LANE_CLOSED] = CHANNEL_PEER_CLOSED,    [WIRE_LANE_BROKEN] = CHANNEL_BROKEN,
    [WIRE_LANE_SILENT] = CHANNEL_BROKEN,         [WIRE_LANE_STUCK] = CHANNEL_STUCK,
    [WIRE_LANE_NOT_FRAMES] = CHANNEL_NOT_FRAMES, [WIRE_LANE_ADRIFT] = CHANNEL_ADRIFT,
};

static lanes_verdict take_end(lanes *self, const wire_head *head, const uint8_t *body)
{
    wire_lane_end words;
    if (wire_lane_end_decode(head, body, &words) != TARRY_OK)
        return LANES_NOT_HERE;
    lane *from = find(self, words.lane);
    if (from == NULL || from->over)
        return LANES_NOT_HERE;
    end(from, ends[words.reason],
        words.text[0] != 0                 ? words.text
        : words.reason == WIRE_LANE_SILENT ? "silent for its relay"
        : words.reason == WIRE_LANE_ADRIFT ? "its relay is gone"
        : words.reason == WIRE_LANE_CLOSED ? "closed by the peer"
                                           : "ended by its relay");
    return after(self);
}

static lanes_verdict take_heard(lanes *self, const wire_head *head, const uint8_t *body)
{
    wire_heard words;
    if (wire_heard_decode(head, body, &words) != TARRY_OK)
        return LANES_NOT_HERE;
    for (uint32_t i = 0; i < 8 * words.size && self->trunk != NULL; i++) {
        lane *from = (words.bits[i / 8] >> i % 8 & 1) != 0 ? find(self, words.first + i) : NULL;
        if (from != NULL && is_wanted(from))
            hear(from, 0);
    }
    return after(self);
}

lanes_verdict lanes_frame(lanes *self, const wire_head *head, const uint8_t *body)
{
    switch (head->kind) {
    case WIRE_LANE_OPEN:
        return take_open(self, head, body);
    case WIRE_LANE:
        return take_lane(self, head, body);
    case WIRE_BATCH:
        return take_batch(self, head, body);
    case WIRE_LANE_END:
        return take_end(self, head, body);
    case WIRE_HEARD:
        return take_heard(self, head, body);
    default:
        return LANES_NOT_HERE;
    }
}

/* The PART as the child would have sent it. */
static wire_head part_head(const wire_head *head)
{
    return (wire_head){
        .kind = WIRE_MESSAGE,
        .length = head->length - WIRE_LANE_HEAD_BYTES,
    };
}

lanes_verdict lanes_begin(lanes *self, const wire_head *head, const uint8_t *fixed, size_t bytes,
                          channel_verdict *verdict, void **place)
{
    wire_lane_part words;
    *place = NULL;
    *verdict = CHANNEL_TAKE;
    if (head->kind != WIRE_LANE_PART || wire_lane_part_decode(head, fixed, &words) != TARRY_OK)
        return LANES_NOT_HERE;
    lane *from = find(self, words.lane);
    if (from == NULL)
        return LANES_NOT_HERE;
    self->incoming = from;
    from->placed = false;
    const wire_head inner = part_head(head);
    if (!is_wanted(from))
        return LANES_TAKEN;
    hear(from, WIRE_HEAD_BYTES + inner.length);
    if (!is_wanted(from) || inner.length > from->most_length)
        return after(self);
    stop(from, from->handlers.begin(from->handlers.user, &inner, words.message, bytes, place) ==
                   CHANNEL_TAKE);
    if (!is_wanted(from))
        *place = NULL;
    from->placed = *place != NULL;
    from->parts_out += from->placed;
    return after(self);
}

lanes_verdict lanes_complete(lanes *self, const wire_head *head, const uint8_t *fixed)
{
    wire_lane_part words;
    lane *from = self->incoming;
    self->incoming = NULL;
    int error = wire_lane_part_decode(head, fixed, &words);
    assert(error == TARRY_OK);
    (void)error;
    if (from == NULL || !is_wanted(from))
        return LANES_TAKEN;
    if (!from->placed)
        give_window(from);
    const wire_head inner = part_head(head);
    stop(from, from->handlers.complete(from->handlers.user, &inner, words.message));
    return after(self);
}

/* ---- all of them ---- */

int lanes_create(channel *trunk, const lanes_handlers *handlers, const tarry_allocator *allocator,
                 lanes **out)
{
    lanes *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    made->trunk = trunk;
    made->handlers = *handlers;
    *out = made;
    return TARRY_OK;
}

void lanes_cut(lanes *self)
{
    if (self != NULL)
        self->trunk = NULL;
}

void lanes_end(lanes *self, const char *why)
{
    if (self == NULL)
        return;
    assert(self->trunk == NULL);
    for (uint32_t number = 0; number < self->room; number++) {
        lane *each = self->table[number];
        if (each != NULL && !each->over)
            end(each, CHANNEL_ADRIFT, why);
    }
}

void lanes_free(lanes *self)
{
    if (self == NULL)
        return;
    assert(self->count == 0);
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self->table);
    memory_release(&allocator, self->scratch);
    memory_release(&allocator, self);
}

uint32_t lanes_count(const lanes *self)
{
    return self->count;
}
