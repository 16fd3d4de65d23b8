/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies with a table of fields have the bytes that docs/wire.md says, and nothing else is read. */
#include <stdbool.h>

#include "base/bytes.h"
#include "protocol/wire/wire_bodies.h"
#include "test.h"

enum { MOST_FRAME = WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES };

#define SUM                                                                                        \
    {                                                                                              \
        .step = 1, .term = 2, .attempt = 3, .digest = 4                                            \
    }
#define NAME_BYTES 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0
#define SUM_BYTES NAME_BYTES, 4, 0, 0, 0, 0, 0, 0, 0
#define FOUR(byte) byte, byte, byte, byte
#define SIXTEEN(byte) FOUR(byte), FOUR(byte), FOUR(byte), FOUR(byte)
/* An instance, a job and a plan. */
#define NAMES SIXTEEN('i'), SIXTEEN('j'), SIXTEEN('p'), SIXTEEN('q')

/* The fixed part in a block of its very size, so that the sanitizer sees a step beyond it: *body,
 * from which a KEY borrows. */
static int decode(const uint8_t *frame, wire_any *any, uint8_t **body)
{
    wire_head head;
    if (wire_head_decode(frame, &head) != TARRY_OK)
        return TARRY_ERROR_FORMAT;
    size_t fixed = wire_fixed_length(&head, frame[WIRE_HEAD_BYTES]);
    *body = checked_malloc(fixed > 0 ? fixed : 1);
    memcpy(*body, frame + WIRE_HEAD_BYTES, fixed);
    return wire_decode(&head, *body, any);
}

typedef struct known {
    wire_kind kind;
    wire_any body;
    uint8_t bytes[MOST_FRAME];
    size_t size;
} known;

static const known all[] = {
    {WIRE_HELLO,
     {.hello = {.oldest = WIRE_VERSION,
                .newest = WIRE_VERSION,
                .role = WIRE_ROLE_VIEWER,
                .worker = 0x11121314,
                .instance = {SIXTEEN('i')},
                .job = {SIXTEEN('j')},
                .plan = {SIXTEEN('p'), SIXTEEN('q')},
                .rack = "r7"}},
     {83, 0, 0,  0, 1, 0, 0,    0,    'T',  'A',  'R',   'R', 'Y', 0,
      13, 0, 13, 0, 1, 0, 0x14, 0x13, 0x12, 0x11, NAMES, 2,   'r', '7'},
     91},
    /* Of another version, of which no more is read than that. */
    {WIRE_HELLO,
     {.hello = {.oldest = 0x0102, .newest = 0x0304}},
     {81, 0, 0, 0, 1, 0, 0, 0, 'T', 'A', 'R', 'R', 'Y', 0, 2, 1, 4, 3},
     89},
    {WIRE_REFUSED,
     {.refused = {.reason = WIRE_REFUSED_RANGE, .text = "no"}},
     {5, 0, 0, 0, 3, 0, 0, 0, 5, 0, 2, 'n', 'o'},
     13},
    {WIRE_HEARTBEAT, {.bye = 0}, {0, 0, 0, 0, 4}, 8},
    {WIRE_BYE, {.bye = WIRE_BYE_RESTART}, {1, 0, 0, 0, 5, 0, 0, 0, 3}, 9},
    {WIRE_PARAMETERS,
     {.parameters = {.round = 0x0102, .first = 0x0304, .count = 100}},
     {160, 1, 0, 0, 7, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 4, 3},
     24},
    {WIRE_BLOB,
     {.blob = {WIRE_BLOB_DATA, 0x0102, 0x0506, 0x0304, 100}},
     {124, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 2, 1, 0, 0, 6, 5, 0, 0, 0, 0, 0, 0, 4, 3},
     32},
    {WIRE_FETCH,
     {.fetch = {.kind = WIRE_BLOB_DATA, .index = 0x0102}},
     {8, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 2, 1},
     16},
    {WIRE_READY,
     {.ready = {.plan = {SIXTEEN('p'), SIXTEEN('q')},
                .data = {SIXTEEN('d'), SIXTEEN('e')},
                .numerics = 0x0102,
                .turn = 3}},
     {76, 0, 0, 0, 10, 0, 0, 0, SIXTEEN('p'), SIXTEEN('q'), SIXTEEN('d'), SIXTEEN('e'), 2,
      1,  0, 0, 0, 0,  0, 0, 3},
     84},
    {WIRE_READY, {.ready = {.size = 2, .address = "aa"}}, {78, 0, 0, 0, 10, [84] = 'a', 'a'}, 86},
    {WIRE_VIEW,
     {.view = {.round = 0x0102,
               .stamp = 0x0103,
               .base = 0x0102,
               .digest = 0x0405,
               .first = 0x4000,
               .count = 300,
               .form = TARRY_COMPRESS_INT8}},
     {100, 1, 0, 0, 22, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 3, 1, 0,    0,         0, 0,       0,
      0,   2, 1, 0, 0,  0, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0, 0, 0x40, [48] = 44, 1, [52] = 2},
     56},
    {WIRE_KEY,
     {.key = {.worker = 5,
              .epoch = 6,
              .instance = {SIXTEEN('i')},
              .key = {SIXTEEN('k'), SIXTEEN('l')},
              .numerics = 7,
              .certificate_size = 3,
              .signature_size = 2,
              .certificate = (const uint8_t *)"cer",
              .signature = (const uint8_t *)"si"}},
     {73,           0, 0, 0, 12, 0, 0, 0, 5, 0, 0, 0, 6, 0,   0,   0,   SIXTEEN('i'), SIXTEEN('k'),
      SIXTEEN('l'), 7, 0, 0, 0,  0, 0, 0, 0, 3, 0, 2, 0, 'c', 'e', 'r', 's',          'i'},
     81},
    {WIRE_MEMBER,
     {.member = {.worker = 5,
                 .arrival = 6,
                 .present = true,
                 .size = 3,
                 .fingerprint = {7},
                 .address = "abc"}},
     {47, 0, 0, 0, 14, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 1, 0, 3, 0, 7, [52] = 'a', 'b', 'c'},
     55},
    {WIRE_MEMBER,
     {.member = {.worker = 5, .arrival = 6}},
     {44, 0, 0, 0, 14, 0, 0, 0, 5, 0, 0, 0, 6},
     52},
    {WIRE_GREETING,
     {.greeting =
          {.oldest = 13, .newest = 13, .instance = {SIXTEEN('i')}, .wanted = {SIXTEEN('w')}}},
     {48, 0,  0, 0,  15, 0, 0, 0, 'T', 'A', 'R', 'R',          'Y',
      0,  13, 0, 13, 0,  0, 0, 0, 0,   0,   0,   SIXTEEN('i'), SIXTEEN('w')},
     56},
    {WIRE_BEGUN,
     {.begun = {.name = {.step = 1, .term = 2, .attempt = 3},
                .epoch = 8,
                .dimension = 9,
                .parts = 10,
                .empty = true,
                .up = TARRY_COMPRESS_BF16,
                .down = TARRY_COMPRESS_INT8}},
     {40, 0, 0, 0, 16, 0, 0, 0, NAME_BYTES, 8,  0, 0, 0, 0, 0, 0,
      0,  9, 0, 0, 0,  0, 0, 0, 0,          10, 0, 0, 0, 1, 1, 2},
     48},
    {WIRE_BLOCK,
     {.block = {.name = {.step = 1, .term = 2, .attempt = 3},
                .kind = WIRE_BLOCK_SUM,
                .part = 11,
                .first = 12,
                .count = 16,
                .bytes = 64}},
     {100, 0, 0, 0, 17, 0, 0, 0, NAME_BYTES, 1, 0, 0, 0, 11, 0, 0, 0, 12, [48 - 8] = 16},
     44},
    {WIRE_BLOCK,
     {.block = {.name = {.step = 1, .term = 2, .attempt = 3},
                .kind = WIRE_BLOCK_PART,
                .first = 12,
                .count = 16,
                .form = TARRY_COMPRESS_INT8,
                .bytes = 20}},
     {56, 0, 0, 0, 17, 0, 0, 0, NAME_BYTES, 0, 2, 0, 0, 0, 0, 0, 0, 12, [48 - 8] = 16},
     44},
    {WIRE_SAY, {.say = {.kind = 13, .count = 100}}, {104, 0, 0, 0, 23, 0, 0, 0, 13}, 12},
    {WIRE_PASS,
     {.pass = {.type = WIRE_PASS_ASK_STATE, .ticket = 13, .sum = SUM, .until = 14}},
     {48, 0, 0, 0, 18, 0, 0, 0, 1, 0, 0, 0, 13, 0, 0, 0, SUM_BYTES, 0, 0, 0, 0, 0, 0, 0, 0, 14},
     56},
    /* A state of more bytes than 32 bits count. */
    {WIRE_PASS,
     {.pass = {.type = WIRE_PASS_COMES,
               .ticket = 13,
               .sum = SUM,
               .first = 15,
               .until = WIRE_BLOB_MOST}},
     {48,        0,  0, 0, 18, 0, 0, 0, 5, 0, 0, 0, 13, 0, 0, 0,
      SUM_BYTES, 15, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 1},
     56},
    {WIRE_PASS,
     {.pass = {.type = WIRE_PASS_PIECE, .ticket = 13, .first = WIRE_BLOB_MOST - 100, .count = 100}},
     {148, 0, 0, 0, 18, 0, 0, 0, 6, 0, 0, 0, 13, [40] = 156, 255, 255, 255, 255, 255},
     56},
};

enum { ALL = sizeof(all) / sizeof(all[0]) };

/* Of a peer that does not speak this version only that is read. */
static bool is_foreign(wire_kind kind, const wire_any *read)
{
    const uint16_t now = WIRE_VERSION;
    return (kind == WIRE_HELLO && (read->hello.oldest > now || read->hello.newest < now)) ||
           (kind == WIRE_GREETING && (read->greeting.oldest > now || read->greeting.newest < now));
}

TEST(frames_have_the_documented_bytes)
{
    for (size_t i = 0; i < ALL; i++) {
        uint8_t frame[MOST_FRAME], again[MOST_FRAME];
        OWNED(uint8_t) body = NULL;
        wire_any read;
        assert_int_equal(wire_encode(all[i].kind, &all[i].body, frame), all[i].size);
        assert_memory_equal(frame, all[i].bytes, all[i].size);
        assert_ok(decode(frame, &read, &body));
        wire_head head;
        wire_head_decode(frame, &head);
        assert_int_equal(WIRE_HEAD_BYTES + wire_fixed_length(&head, 0), all[i].size);
        assert_int_equal(wire_encode(all[i].kind, &read, again), all[i].size);
        assert_memory_equal(again, frame, all[i].size);
    }
}

/* Whatever one byte becomes: it is refused, or read for what it is. */
TEST(no_byte_is_overlooked)
{
    size_t taken = 0;
    for (size_t i = 0; i < ALL; i++) {
        for (size_t at = 0; at < all[i].size; at++) {
            uint8_t frame[MOST_FRAME], again[MOST_FRAME];
            memcpy(frame, all[i].bytes, sizeof(frame));
            for (unsigned value = 0; value < 256; value++) {
                OWNED(uint8_t) body = NULL;
                wire_any read;
                frame[at] = (uint8_t)value;
                if (frame[4] != all[i].bytes[4] || decode(frame, &read, &body) != TARRY_OK)
                    continue;
                taken++;
                if (is_foreign(all[i].kind, &read))
                    continue;
                size_t size = wire_encode(all[i].kind, &read, again);
                assert_true(size == all[i].size || all[i].kind == WIRE_READY); /* any address */
                if (all[i].kind == WIRE_REFUSED && at >= 11 && again[at] == '?')
                    continue;
                assert_memory_equal(again, frame, size);
            }
        }
    }
    assert_true(taken > 180000); /* no kind is always refused */
}

TEST(the_longest_key_is_read)
{
    static uint8_t bytes[WIRE_CERTIFICATE_BYTES], frame[MOST_FRAME], again[MOST_FRAME];
    OWNED(uint8_t) body = NULL;
    const wire_key longest = {.certificate = bytes,
                              .signature = bytes,
                              .certificate_size = WIRE_CERTIFICATE_BYTES,
                              .signature_size = WIRE_SIGNATURE_BYTES};
    wire_any read;
    assert_int_equal(wire_encode(WIRE_KEY, &longest, frame), sizeof(frame));
    assert_ok(decode(frame, &read, &body));
    assert_int_equal(wire_encode(WIRE_KEY, &read, again), sizeof(frame));
    assert_memory_equal(frame, again, sizeof(frame));
}

TEST(counts_are_bounded)
{
    static const struct {
        wire_kind kind;
        uint32_t length;
        int error;
    } lengths[] = {
        {WIRE_MEMBER, 44, TARRY_OK},
        {WIRE_MEMBER, 44 + WIRE_ENGINE_BYTES, TARRY_OK},
        {WIRE_MEMBER, 45 + WIRE_ENGINE_BYTES, TARRY_ERROR_FORMAT},
        {WIRE_BLOCK, 36, TARRY_ERROR_FORMAT},
        {WIRE_BLOCK, 37, TARRY_OK},
        {WIRE_BLOCK, 36 + 4 * WIRE_BLOCK_NUMBERS, TARRY_OK},
        {WIRE_BLOCK, 37 + 4 * WIRE_BLOCK_NUMBERS, TARRY_ERROR_FORMAT},
        {WIRE_PASS, 47, TARRY_ERROR_FORMAT},
        {WIRE_PASS, 48 + WIRE_PIECE_BYTES, TARRY_OK},
        {WIRE_PASS, 49 + WIRE_PIECE_BYTES, TARRY_ERROR_FORMAT},
        {WIRE_BEGUN, 41, TARRY_ERROR_FORMAT},
        {WIRE_GREETING, 9, TARRY_ERROR_FORMAT},
        {WIRE_BATCH, 31, TARRY_ERROR_FORMAT},
        {WIRE_BATCH, 32, TARRY_OK},
        {WIRE_BATCH, 16 + 1024 * 16, TARRY_OK},
        {WIRE_BATCH, 17 + 1024 * 16, TARRY_ERROR_FORMAT},
    };
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint8_t bytes[WIRE_HEAD_BYTES] = {[4] = (uint8_t)lengths[i].kind};
        wire_head head;
        bytes_put(bytes, lengths[i].length, 4);
        assert_int_equal(wire_head_decode(bytes, &head), lengths[i].error);
    }
    /* A number in part. */
    const wire_head head = {.kind = WIRE_BLOCK, .length = 36 + 63};
    const uint8_t body[36] = {[32] = 16};
    wire_block block;
    assert_int_equal(wire_decode(&head, body, &block), TARRY_ERROR_FORMAT);
}

/* One byte of a frame is another one, or its body has another length: what it is refused for. */
TEST(what_is_refused_is_named)
{
    static const struct {
        wire_kind kind;
        size_t at;
        uint8_t byte;
        int longer;
        const char *text;
    } cases[] = {
        {WIRE_HELLO, 18, 7, 0, "HELLO: role must be 0 to 2, not 7"},
        {WIRE_HELLO, 8, 't', 0, "HELLO: oldest is malformed or cut short"},
        {WIRE_HELLO, 89, ' ', 0, "HELLO: rack is malformed or cut short"},
        {WIRE_HELLO, 4, 1, -1, "HELLO: rack is malformed or cut short"},
        {WIRE_HELLO, 4, 1, 3, "HELLO: 3 unknown bytes follow rack"},
        {WIRE_FETCH, 9, 1, 0, "FETCH: zeros is malformed or cut short"},
        {WIRE_FETCH, 8, 1, 0, "FETCH: index contradicts another field"},
        {WIRE_FETCH, 8, 2, 0, "FETCH: index contradicts another field"},
        {WIRE_BLOB, 4, 8, -101, "BLOB: 23 bytes are too few"},
        {WIRE_BLOB, 22, 1, 0, "BLOB: total must be 0 to 281474976710656, not 281474976711942"},
        {WIRE_PARAMETERS, 4, 7, 1, "PARAMETERS: count is malformed or cut short"},
        {WIRE_BEGUN, 45, 3, 0, "BEGUN: up must be 0 to 2, not 3"},
        {WIRE_PASS, 8, 7, 0, "PASS: type must be 0 to 6, not 7"},
        {WIRE_PASS, 8, 6, 0, "PASS: count contradicts another field"},
        {WIRE_PASS, 0, 49, 0, "PASS: count contradicts another field"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t which = 0;
        while (all[which].kind != cases[i].kind)
            which++;
        uint8_t frame[MOST_FRAME];
        char text[WIRE_TEXT_BYTES] = "";
        wire_any read;
        memcpy(frame, all[which].bytes, sizeof(frame));
        frame[cases[i].at] = cases[i].byte;
        frame[0] = (uint8_t)(frame[0] + cases[i].longer);
        const wire_head head = {.kind = cases[i].kind, .length = frame[0] + 256U * frame[1]};
        const uint8_t *body = frame + WIRE_HEAD_BYTES;
        assert_int_equal(wire_decode(&head, body, &read), TARRY_ERROR_FORMAT);
        assert_true(wire_explain(&head, body, text, sizeof(text)));
        assert_string_equal(text, cases[i].text);
    }
    /* What is taken, and kinds with functions of their own, have no explanation. */
    const wire_head taken = {.kind = WIRE_HEARTBEAT}, own = {.kind = WIRE_WELCOME};
    assert_false(wire_explain(&taken, NULL, NULL, 0));
    assert_false(wire_explain(&own, NULL, NULL, 0));
}
