/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing a frame's body from its front to its end. A reader never goes beyond what it
 * was given: what does not fit, and whatever else is found wrong, is remembered, and reading goes
 * on with zeros, so that a decoder asks once, at its end.
 */
#ifndef PROTOCOL_WIRE_CURSOR_H
#define PROTOCOL_WIRE_CURSOR_H

#include "base/bytes.h"
#include "protocol/wire/wire.h"

typedef struct wire_reader {
    const uint8_t *at;
    size_t left;
    bool damaged;
} wire_reader;

static inline wire_reader wire_reader_make(const uint8_t *body, size_t size)
{
    return (wire_reader){.at = body, .left = size};
}

/* What is not so makes the body one that is refused. */
static inline void wire_require(wire_reader *from, bool holds)
{
    from->damaged = from->damaged || !holds;
}

/* The next `size` bytes; NULL if they are not there. */
static inline const uint8_t *wire_take(wire_reader *from, size_t size)
{
    if (from->left < size) {
        from->damaged = true;
        from->left = 0;
        return NULL;
    }
    const uint8_t *taken = from->at;
    from->at += size;
    from->left -= size;
    return taken;
}

static inline uint64_t wire_get(wire_reader *from, unsigned bytes)
{
    const uint8_t *taken = wire_take(from, bytes);
    return taken == NULL ? 0 : bytes_get(taken, bytes);
}

/* A number from lowest to highest. */
static inline uint64_t wire_get_between(wire_reader *from, unsigned bytes, uint64_t lowest,
                                        uint64_t highest)
{
    uint64_t value = wire_get(from, bytes);
    wire_require(from, value >= lowest && value <= highest);
    return value;
}

static inline bool wire_get_bool(wire_reader *from)
{
    return wire_get_between(from, 1, 0, 1) != 0;
}

static inline void wire_get_zeros(wire_reader *from, unsigned bytes)
{
    wire_require(from, wire_get(from, bytes) == 0);
}

static inline void wire_get_bytes(wire_reader *from, uint8_t *out, size_t size)
{
    const uint8_t *taken = wire_take(from, size);
    if (taken != NULL)
        memcpy(out, taken, size);
}

/* Whether all was read, to the last byte, and nothing was wrong with it. */
static inline bool wire_ended(const wire_reader *from)
{
    return !from->damaged && from->left == 0;
}

static inline uint8_t *wire_put_bytes(uint8_t *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

/* Gives back the size of a frame whose body ends at `end`, after writing its head; `behind` bytes
 * of the body follow elsewhere. */
static inline size_t wire_close(wire_kind kind, uint8_t *frame, const uint8_t *end, size_t behind)
{
    size_t size = (size_t)(end - frame);
    wire_head_encode(kind, (uint32_t)(size - WIRE_HEAD_BYTES + behind), frame);
    return size;
}

#endif
