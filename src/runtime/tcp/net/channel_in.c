/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/channel_in.h"

#include <string.h>

#include "base/memory.h"
#include "runtime/tcp/net/channel_state.h"

enum {
    /* Read behind a large frame's bytes: room for the beginning of the next one, and for little of
     * what follows that, as it would have to be copied to its place. */
    AHEAD_BYTES = 1 << 10,
    KEPT_LEAST = 256,
};

static void no_memory(channel *self)
{
    channel_fail(self, CHANNEL_NO_MEMORY, "out of memory");
}

/* Makes room for `size` bytes in all behind those that are kept. */
static bool reserve(channel *self, size_t size)
{
    channel_in *in = &self->in;
    if (size <= in->kept_capacity)
        return true;
    size_t capacity = memory_room(in->kept_capacity, size, KEPT_LEAST);
    uint8_t *grown = memory_grow(&self->allocator, in->kept, in->kept_size, capacity, 1);
    if (grown == NULL) {
        no_memory(self);
        return false;
    }
    in->kept = grown;
    in->kept_capacity = capacity;
    return true;
}

static void keep(channel *self, const uint8_t *bytes, size_t size)
{
    if (size == 0 || !reserve(self, self->in.kept_size + size))
        return;
    memcpy(self->in.kept + self->in.kept_size, bytes, size);
    self->in.kept_size += size;
}

static void forget_kept(channel *self)
{
    memory_release(&self->allocator, self->in.kept);
    self->in.kept = NULL;
    self->in.kept_size = 0;
    self->in.kept_capacity = 0;
}

/* A frame's beginning, as far as it is known. */
typedef struct beginning {
    wire_head head;
    size_t need; /* bytes that must be there to go on: all of it, or a large one's fixed part */
    bool large;
} beginning;

/* False: this is no frame, and the channel ends. */
static bool look(channel *self, const uint8_t *bytes, size_t size, beginning *begins)
{
    *begins = (beginning){.need = WIRE_HEAD_BYTES};
    if (size < WIRE_HEAD_BYTES)
        return true;
    if (wire_head_decode(bytes, &begins->head) != TARRY_OK) {
        channel_fail(self, CHANNEL_NOT_FRAMES, "what came is no frame");
        return false;
    }
    if (begins->head.length > self->settings.most_length) {
        channel_fail(self, CHANNEL_NOT_FRAMES, "a frame is longer than any may be here");
        return false;
    }
    if (begins->head.length == 0)
        return true;
    begins->need = WIRE_HEAD_BYTES + 1;
    if (size < begins->need)
        return true;
    size_t fixed = wire_fixed_length(&begins->head, bytes[WIRE_HEAD_BYTES]);
    begins->large = fixed < begins->head.length;
    if (fixed == 0 || (begins->large && fixed > CHANNEL_PREFIX_BYTES - WIRE_HEAD_BYTES)) {
        channel_fail(self, CHANNEL_NOT_FRAMES, "a frame's length does not fit its kind");
        return false;
    }
    begins->need = WIRE_HEAD_BYTES + (begins->large ? fixed : begins->head.length);
    return true;
}

/* One that takes its leave goes on reading, to nowhere: it ends when the peer's stream does. */
static void stop(channel *self)
{
    if (self->closed || self->leaving)
        return;
    self->in.stopped = true;
    link_hold(self->link, true);
}

static void take_frame(channel *self, const beginning *begins, const uint8_t *bytes)
{
    self->in.after_large = false;
    if (!self->handlers.frame(self->handlers.user, &begins->head, bytes + WIRE_HEAD_BYTES))
        stop(self);
}

/* Asks what is to become of a large frame. False: it waits. */
static bool take_beginning(channel *self, const beginning *begins, const uint8_t *bytes)
{
    channel_in *in = &self->in;
    size_t fixed = begins->need - WIRE_HEAD_BYTES;
    size_t size = begins->head.length - fixed;
    void *place = NULL;
    memcpy(in->fixed, bytes + WIRE_HEAD_BYTES, fixed);
    switch (self->handlers.begin(self->handlers.user, &begins->head, in->fixed, size, &place)) {
    case CHANNEL_TAKE:
        in->head = begins->head;
        in->place = place;
        in->left = size;
        in->after_large = true;
        return true;
    case CHANNEL_WAIT:
        if (self->closed)
            return true;
        in->waiting = true;
        link_hold(self->link, true);
        return false;
    case CHANNEL_END:
        stop(self);
        return true;
    }
    return true;
}

/* `size` more bytes of a large frame are at their place. */
static void advance(channel *self, size_t size)
{
    channel_in *in = &self->in;
    if (in->place != NULL)
        in->place += size;
    in->left -= size;
    if (in->left == 0 && !self->handlers.complete(self->handlers.user, &in->head, in->fixed))
        stop(self);
}

/* Adds bytes to what is kept of a frame, and takes that if it suffices. Gives back how many. */
static size_t feed_kept(channel *self, const uint8_t *bytes, size_t size)
{
    channel_in *in = &self->in;
    size_t used = 0;
    for (;;) {
        beginning begins;
        if (!look(self, in->kept, in->kept_size, &begins))
            return used;
        if (in->kept_size == begins.need) {
            if (begins.large) {
                if (take_beginning(self, &begins, in->kept))
                    in->kept_size = 0;
            } else {
                take_frame(self, &begins, in->kept);
                in->kept_size = 0;
            }
            if (in->kept_size == 0 && in->kept_capacity > 0 && !self->closed)
                forget_kept(self);
            return used;
        }
        size_t some = begins.need - in->kept_size;
        if (some > size - used)
            some = size - used;
        if (some == 0)
            return used;
        keep(self, bytes + used, some);
        used += some;
        if (self->failed)
            return used;
    }
}

/* Takes bytes as they came; keeps what can't be taken yet. */
static void feed(channel *self, const uint8_t *bytes, size_t size)
{
    channel_in *in = &self->in;
    while (size > 0 && channel_takes(self)) {
        size_t used;
        beginning begins;
        if (in->left > 0) {
            used = size < in->left ? size : in->left;
            if (in->place != NULL)
                memcpy(in->place, bytes, used);
            advance(self, used);
        } else if (in->kept_size > 0) {
            used = feed_kept(self, bytes, size);
        } else if (!look(self, bytes, size, &begins)) {
            return;
        } else if (size < begins.need) {
            keep(self, bytes, size);
            return;
        } else if (begins.large) {
            if (!take_beginning(self, &begins, bytes))
                break;
            used = begins.need;
        } else {
            take_frame(self, &begins, bytes);
            used = begins.need;
        }
        bytes += used;
        size -= used;
    }
    if (in->waiting && !self->closed && !self->failed)
        keep(self, bytes, size);
}

/* Where the next bytes are to come; gives back how many parts. */
static int find_room(channel *self, struct iovec parts[2])
{
    channel_in *in = &self->in;
    uint8_t *shared = self->settings.shared;
    if (in->left > 0 && in->place != NULL) {
        parts[0] = (struct iovec){in->place, in->left};
        if (in->left > CHANNEL_TURN_BYTES) {
            parts[0].iov_len = CHANNEL_TURN_BYTES;
            return 1;
        }
        parts[1] = (struct iovec){shared, AHEAD_BYTES};
        return 2;
    }
    size_t size = CHANNEL_SHARED_BYTES;
    if (in->left > 0 && in->left + AHEAD_BYTES < size)
        size = in->left + AHEAD_BYTES;
    else if (in->left == 0 && in->after_large)
        size = AHEAD_BYTES;
    parts[0] = (struct iovec){shared, size};
    return 1;
}

/* Hands on what was read into `parts`. */
static void take(channel *self, const struct iovec *parts, int count, size_t got)
{
    size_t first = got < parts[0].iov_len ? got : parts[0].iov_len;
    if (parts[0].iov_base != self->settings.shared)
        advance(self, first);
    else
        feed(self, parts[0].iov_base, first);
    if (count > 1 && got > first)
        feed(self, parts[1].iov_base, got - first);
}

static void end_of_stream(channel *self, ptrdiff_t how)
{
    const channel_in *in = &self->in;
    if (how == LINK_BROKEN)
        channel_fail(self, CHANNEL_BROKEN, NULL);
    else if (in->left > 0 || in->kept_size > 0)
        channel_fail(self, CHANNEL_BROKEN, "closed by the peer in the middle of a frame");
    else
        channel_fail(self, CHANNEL_PEER_CLOSED, "closed by the peer");
}

/* What was kept while the channel waited. */
static void take_kept(channel *self)
{
    channel_in *in = &self->in;
    uint8_t *kept = in->kept;
    size_t size = in->kept_size;
    in->resumed = false;
    in->kept = NULL;
    in->kept_size = 0;
    in->kept_capacity = 0;
    feed(self, kept, size);
    memory_release(&self->allocator, kept);
    if (channel_takes(self))
        link_hold(self->link, false);
}

void channel_read_turn(channel *self)
{
    if (self->in.resumed && channel_takes(self))
        take_kept(self);
    bool heard = false;
    size_t moved = 0;
    while (moved < CHANNEL_TURN_BYTES && self->open && channel_takes(self)) {
        struct iovec parts[2];
        int count = find_room(self, parts);
        size_t asked = parts[0].iov_len + (count > 1 ? parts[1].iov_len : 0);
        ptrdiff_t got = link_read(self->link, parts, count);
        if (got == LINK_AGAIN)
            break;
        if (got < 0) {
            end_of_stream(self, got);
            break;
        }
        self->in.received += (size_t)got;
        moved += (size_t)got;
        if (!heard && self->handlers.heard != NULL)
            self->handlers.heard(self->handlers.user);
        heard = true;
        if (!channel_takes(self))
            break;
        take(self, parts, count, (size_t)got);
        if ((size_t)got < asked)
            break;
        /* A buffer full of small frames is followed by more of them. */
        if (self->in.left == 0 && count == 1)
            self->in.after_large = false;
    }
}

/* ---- assembly ---- */

enum { LEAST_ROOM = 4096 };

static bool grow(assembly *self, size_t size, const tarry_allocator *allocator)
{
    if (size <= self->room)
        return true;
    size_t room = memory_room(self->room, size, LEAST_ROOM);
    if (room > self->total)
        room = (size_t)self->total;
    uint8_t *bytes = memory_grow(allocator, self->bytes, self->size, room, 1);
    if (bytes == NULL)
        return false;
    self->bytes = bytes;
    self->room = room;
    return true;
}

uint8_t *assembly_reserve(assembly *self, uint64_t first, uint64_t count, uint64_t total,
                          const tarry_allocator *allocator)
{
    if (first == 0) {
        assembly_clear(self, allocator);
        self->total = total;
        self->begun = true;
    }
    if (!self->begun || total != self->total || total > ASSEMBLY_MOST_BYTES ||
        first != self->size || count > total - first ||
        !grow(self, (size_t)(first + count), allocator))
        return NULL;
    return self->bytes + self->size;
}

bool assembly_add(assembly *self, uint64_t count)
{
    self->size += (size_t)count;
    return self->size == self->total;
}

void assembly_clear(assembly *self, const tarry_allocator *allocator)
{
    memory_release(allocator, self->bytes);
    *self = (assembly){0};
}
