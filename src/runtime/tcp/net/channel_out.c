/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/tcp/net/channel_state.h"

enum {
    PARTS_MOST = 32, /* of one write */
    SMALL_LEAST = 512,
    SMALL_IDLE = 4 << 10, /* more room than this is given back when nothing waits */
};

static size_t item_size(const channel_item *item)
{
    return item->prefix_size + item->load.size;
}

static void release(channel *self, channel_item *item)
{
    const channel_load load = item->load;
    memory_release(&self->allocator, item->copy);
    memory_release(&self->allocator, item);
    if (load.released != NULL)
        load.released(self->handlers.user, load.owner);
}

/* Its bytes are its own from here on, and the load's are released. */
static bool detach(channel *self, channel_item *item)
{
    if (item->copy != NULL)
        return true;
    size_t from = item->sent > item->prefix_size ? item->sent - item->prefix_size : 0;
    uint8_t *copy = memory_allocate(&self->allocator, item->load.size - from, 1);
    if (copy == NULL)
        return false;
    memcpy(copy, (const uint8_t *)item->load.bytes + from, item->load.size - from);
    item->copy = copy;
    item->copied = from;
    const channel_load load = item->load;
    item->load.bytes = NULL;
    item->load.released = NULL;
    if (load.released != NULL)
        load.released(self->handlers.user, load.owner);
    return true;
}

/* ---- what goes out next ---- */

static int add_item(const channel_item *item, struct iovec *parts)
{
    int count = 0;
    size_t at = item->sent;
    if (at < item->prefix_size) {
        parts[count++] = (struct iovec){(uint8_t *)item->prefix + at, item->prefix_size - at};
        at = item->prefix_size;
    }
    at -= item->prefix_size;
    if (at < item->load.size) {
        const uint8_t *bytes = item->copy != NULL ? item->copy + (at - item->copied)
                                                  : (const uint8_t *)item->load.bytes + at;
        parts[count++] = (struct iovec){(uint8_t *)bytes, item->load.size - at};
    }
    return count;
}

static int add_small(const channel_out *out, struct iovec *parts)
{
    if (out->start == out->end)
        return 0;
    parts[0] = (struct iovec){out->small + out->start, out->end - out->start};
    return 1;
}

/* A large frame that has begun, then all small ones, then large ones. */
static int gather(const channel_out *out, struct iovec parts[PARTS_MOST], size_t *bytes)
{
    int count = 0;
    const channel_item *item = out->first;
    if (item != NULL && item->begun) {
        count += add_item(item, parts);
        item = item->next;
    }
    count += add_small(out, parts + count);
    *bytes = 0;
    for (int i = 0; i < count; i++)
        *bytes += parts[i].iov_len;
    for (; item != NULL && count + 2 <= PARTS_MOST && *bytes < CHANNEL_TURN_BYTES;
         item = item->next) {
        count += add_item(item, parts + count);
        *bytes += item_size(item);
    }
    return count;
}

static size_t advance_item(channel_out *out, size_t size)
{
    channel_item *item = out->first;
    size_t left = item_size(item) - item->sent;
    item->begun = true;
    if (size < left) {
        item->sent += size;
        return size;
    }
    item->sent += left;
    out->first = item->next;
    if (out->first == NULL)
        out->last = &out->first;
    item->next = out->finished;
    out->finished = item;
    out->loads--;
    return left;
}

static void advance_small(channel *self, size_t size)
{
    channel_out *out = &self->out;
    out->start += size;
    if (out->start < out->end)
        return;
    out->start = 0;
    out->end = 0;
    if (out->capacity > SMALL_IDLE) {
        memory_release(&self->allocator, out->small);
        out->small = NULL;
        out->capacity = 0;
    }
}

/* `size` bytes of what gather found have gone out, and more could not. */
static void advance(channel *self, size_t size)
{
    channel_out *out = &self->out;
    out->sent += size;
    if (out->first != NULL && out->first->begun)
        size -= advance_item(out, size);
    if (out->first == NULL || !out->first->begun) {
        size_t small = out->end - out->start;
        if (small > size)
            small = size;
        advance_small(self, small);
        size -= small;
    }
    while (size > 0)
        size -= advance_item(out, size);
}

/* Nothing is written aside from now on, until all that waits has gone out. */
static void set_waiting(channel_out *out)
{
    if (out->waits)
        return;
    pthread_mutex_lock(&out->gate);
    out->waits = true;
    pthread_mutex_unlock(&out->gate);
}

/* With the gate held. */
static void write_out(channel *self)
{
    channel_out *out = &self->out;
    size_t moved = 0;
    while (moved < CHANNEL_TURN_BYTES && !out->broken && !out->blocked) {
        struct iovec parts[PARTS_MOST];
        size_t bytes;
        int count = gather(out, parts, &bytes);
        if (count == 0)
            return;
        ptrdiff_t sent = link_write(self->link, parts, count);
        if (sent < 0 && sent != LINK_AGAIN) {
            out->broken = true;
            return;
        }
        size_t size = sent < 0 ? 0 : (size_t)sent;
        out->blocked = size < bytes;
        moved += size;
        advance(self, size);
        /* OpenSSL may have made a record of what it could not write, which has to go first now. */
        if (out->blocked && out->start == out->end && out->first != NULL &&
            link_ssl(self->link) != NULL)
            out->first->begun = true;
    }
}

void channel_write_turn(channel *self)
{
    channel_out *out = &self->out;
    pthread_mutex_lock(&out->gate);
    write_out(self);
    out->waits = out->broken || !channel_has_sent_all(self);
    pthread_mutex_unlock(&out->gate);
}

size_t channel_send_aside(channel *self, const uint8_t *frame, size_t size)
{
    channel_out *out = &self->out;
    if (pthread_mutex_trylock(&out->gate) != 0)
        return 0; /* the loop writes just now */
    size_t sent = out->waits ? 0 : link_write_aside(self->link, frame, size);
    out->sent += sent;
    pthread_mutex_unlock(&out->gate);
    return sent;
}

/* ---- what is to be sent ---- */

static bool reserve(channel *self, size_t size)
{
    channel_out *out = &self->out;
    size_t waiting = out->end - out->start;
    if (size <= out->capacity - out->end)
        return true;
    if (out->start > 0)
        memmove(out->small, out->small + out->start, waiting);
    out->start = 0;
    out->end = waiting;
    if (waiting + size <= out->capacity / 2)
        return true;
    size_t capacity = memory_room(2 * out->capacity, waiting + size, SMALL_LEAST);
    uint8_t *grown = memory_grow(&self->allocator, out->small, waiting, capacity, 1);
    if (grown == NULL) {
        channel_fail(self, CHANNEL_NO_MEMORY, "out of memory");
        return false;
    }
    out->small = grown;
    out->capacity = capacity;
    return true;
}

static bool sends(const channel *self)
{
    return !self->closed && !self->failed && !self->leaving;
}

bool channel_send(channel *self, const uint8_t *frame, size_t size)
{
    channel_out *out = &self->out;
    if (!sends(self))
        return false;
    /* Many frames of one turn are no reason to give up a peer that would take them. */
    if (out->end - out->start + size > self->settings.most_waiting && self->open)
        channel_write_turn(self);
    if (out->end - out->start + size > self->settings.most_waiting) {
        channel_fail(self, CHANNEL_STUCK, "does not take what is sent to it");
        return false;
    }
    if (!reserve(self, size))
        return false;
    memcpy(out->small + out->end, frame, size);
    out->end += size;
    out->busy = true;
    set_waiting(out);
    channel_wake(self);
    return true;
}

bool channel_send_load(channel *self, const uint8_t *prefix, size_t size, const channel_load *load)
{
    channel_out *out = &self->out;
    assert(size > 0 && size <= CHANNEL_PREFIX_BYTES);
    if (!sends(self))
        return false;
    channel_item *item = memory_allocate(&self->allocator, 1, sizeof(*item));
    if (item == NULL) {
        channel_fail(self, CHANNEL_NO_MEMORY, "out of memory");
        return false;
    }
    item->load = *load;
    item->prefix_size = size;
    memcpy(item->prefix, prefix, size);
    *out->last = item;
    out->last = &item->next;
    out->loads++;
    out->busy = true;
    set_waiting(out);
    channel_wake(self);
    return true;
}

/* Takes the items for which `which` and `tag` stand out of a list, and gives them back as one. */
static channel_item *take_waiting(channel_out *out, bool all, uint32_t tag)
{
    channel_item *taken = NULL;
    channel_item **at = &out->first;
    while (*at != NULL) {
        channel_item *item = *at;
        if (item->begun || !(all || item->load.tag == tag)) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        item->next = taken;
        taken = item;
        out->loads--;
    }
    out->last = at;
    return taken;
}

static void release_list(channel *self, channel_item *list)
{
    while (list != NULL) {
        channel_item *item = list;
        list = item->next;
        release(self, item);
    }
}

void channel_release(channel *self)
{
    channel_item *list = self->out.finished;
    self->out.finished = NULL;
    release_list(self, list);
}

bool channel_drop(channel *self, uint32_t tag)
{
    channel_release(self);
    release_list(self, take_waiting(&self->out, false, tag));
    const channel_item *first = self->out.first;
    return first != NULL && first->load.tag == tag && first->copy == NULL;
}

bool channel_detach(channel *self, uint32_t tag)
{
    channel_release(self);
    channel_item *first = self->out.first;
    if (first == NULL || !first->begun || first->load.tag != tag || detach(self, first))
        return true;
    channel_fail(self, CHANNEL_NO_MEMORY, "out of memory");
    return false;
}

bool channel_settle(channel *self)
{
    channel_release(self);
    release_list(self, take_waiting(&self->out, true, 0));
    return self->out.first == NULL || detach(self, self->out.first);
}

size_t channel_loads(const channel *self)
{
    return self->out.loads;
}

bool channel_has_sent_all(const channel *self)
{
    return self->out.first == NULL && self->out.start == self->out.end;
}

void channel_free_out(channel *self)
{
    channel_out *out = &self->out;
    channel_item *list = out->first;
    out->first = NULL;
    out->last = &out->first;
    out->loads = 0;
    channel_release(self);
    release_list(self, list);
    memory_release(&self->allocator, out->small);
    out->small = NULL;
    out->start = 0;
    out->end = 0;
    out->capacity = 0;
}
