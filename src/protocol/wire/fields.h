/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of frames as tables: a row per field says where it is in a structure, how many bytes it
 * has on the wire, and which values are allowed. One function writes any field and one reads any.
 *
 * A reader never goes beyond what it was given. What does not fit, and whatever else is found
 * wrong, is remembered, so that a decoder may ask once, at its end.
 */
#ifndef PROTOCOL_WIRE_FIELDS_H
#define PROTOCOL_WIRE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "protocol/wire/wire.h"

typedef enum wire_field_kind {
    WIRE_FIELD_NUMBER,   /* unsigned, an enumeration or a flag */
    WIRE_FIELD_BYTES,    /* an array of a fixed size */
    WIRE_FIELD_ZEROS,    /* reserved; in no structure */
    WIRE_FIELD_VERSIONS, /* "TARRY", a zero byte, and two uint16_t: the oldest version, at this
                            member, and the newest behind it; what follows is read only if
                            WIRE_VERSION is among them */
    WIRE_FIELD_WORDS,    /* a text for people in printable ASCII: any other byte is read as '?' */
    WIRE_FIELD_RACK,     /* a text that is a rack's name */
    WIRE_FIELD_COUNTED,  /* an array of which another field says how many bytes are used */
    WIRE_FIELD_BORROWED, /* a pointer into the body, counted in the same way */
    WIRE_FIELD_LEFT,     /* takes no bytes: how many of the body are left */
    WIRE_FIELD_BEHIND, /* takes no bytes: how many units of `bytes` follow the fields, elsewhere */
    WIRE_FIELD_VIEW,   /* takes no bytes: those of a view_piece's numbers follow, elsewhere */
} wire_field_kind;

typedef struct wire_field {
    const char *name;
    wire_field_kind kind;
    uint16_t bytes;  /* on the wire; BEHIND: of a unit */
    uint16_t offset; /* in the structure */
    uint16_t width;  /* of the member */
    uint16_t count;  /* COUNTED, BORROWED: offset of the uint16_t that counts */
    uint64_t least, most;
} wire_field;

#define WIRE_FIELD(what, body, member, wire_bytes, lowest, highest)                                \
    {                                                                                              \
        .name = #member, .kind = (what), .bytes = (wire_bytes), .offset = offsetof(body, member),  \
        .width = sizeof(((body *)0)->member), .least = (lowest), .most = (highest)                 \
    }
#define WIRE_NUMBER(body, member, wire_bytes, lowest, highest)                                     \
    WIRE_FIELD(WIRE_FIELD_NUMBER, body, member, wire_bytes, lowest, highest)
#define WIRE_ANY_NUMBER(body, member)                                                              \
    WIRE_NUMBER(body, member, sizeof(((body *)0)->member), 0, UINT64_MAX)
#define WIRE_ARRAY(body, member)                                                                   \
    WIRE_FIELD(WIRE_FIELD_BYTES, body, member, sizeof(((body *)0)->member), 0, 0)
#define WIRE_RESERVED(wire_bytes)                                                                  \
    {                                                                                              \
        .name = "zeros", .kind = WIRE_FIELD_ZEROS, .bytes = (wire_bytes)                           \
    }

/* ---- reading ---- */

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

/* A text: one byte that says how many follow, 0..255, and these, without a terminator. The caller
 * reads at most *count bytes, which may come from anywhere and end in logs and terminals. */
static inline const uint8_t *wire_take_text(wire_reader *from, size_t *count)
{
    *count = (size_t)wire_get(from, 1);
    const uint8_t *bytes = wire_take(from, *count);
    if (bytes == NULL)
        *count = 0;
    return bytes;
}

/* ---- writing ---- */

static inline uint8_t *wire_put_bytes(uint8_t *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

/* Bytes that wire_put_text writes. */
static inline size_t wire_text_size(const char *text)
{
    const char *end = memchr(text, 0, UINT8_MAX);
    return 1 + (end != NULL ? (size_t)(end - text) : UINT8_MAX);
}

/* Writes the text up to its terminator, at most 255 bytes of it. Gives back what follows. */
static inline uint8_t *wire_put_text(uint8_t *at, const char *text)
{
    size_t count = wire_text_size(text) - 1;
    return wire_put_bytes(bytes_put(at, count, 1), text, count);
}

/* Gives back the size of a frame whose body ends at `end`, after writing its head; `behind` bytes
 * of the body follow elsewhere. */
static inline size_t wire_close(wire_kind kind, uint8_t *frame, const uint8_t *end, size_t behind)
{
    size_t size = (size_t)(end - frame);
    wire_head_encode(kind, (uint32_t)(size - WIRE_HEAD_BYTES + behind), frame);
    return size;
}

/* ---- members of a structure ---- */

/* Where an integer of so many bytes has its place in a uint64_t. */
static inline size_t wire_member_place(size_t width)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : sizeof(uint64_t) - width;
}

static inline uint64_t wire_member_get(const void *member, size_t width)
{
    uint64_t value = 0;
    memcpy((uint8_t *)&value + wire_member_place(width), member, width);
    return value;
}

static inline void wire_member_set(void *member, size_t width, uint64_t value)
{
    memcpy(member, (const uint8_t *)&value + wire_member_place(width), width);
}

#endif
