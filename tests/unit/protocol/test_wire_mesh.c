/* SPDX-License-Identifier: Apache-2.0 */
/* What workers say to each other has the bytes that docs/wire.md says, and nothing else is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/wire/wire_mesh.h"

enum { MOST_FRAME = WIRE_HEAD_BYTES + WIRE_SMALL_BYTES };

typedef union any_body {
    wire_member member;
    wire_greeting greeting;
    wire_begun begun;
    wire_block block;
    wire_ask ask;
    wire_answer answer;
    wire_piece piece;
} any_body;

#define SUM                                                                                        \
    {                                                                                              \
        .step = 1, .term = 2, .attempt = 3, .digest = 4                                            \
    }
#define NAME_BYTES 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0
#define SUM_BYTES NAME_BYTES, 4, 0, 0, 0, 0, 0, 0, 0
#define FOUR(byte) byte, byte, byte, byte
#define SIXTEEN(byte) FOUR(byte), FOUR(byte), FOUR(byte), FOUR(byte)

static size_t encode(wire_kind kind, const any_body *any, uint8_t *frame)
{
    switch (kind) {
    case WIRE_MEMBER:
        return wire_member_encode(&any->member, frame);
    case WIRE_GREETING:
        return wire_greeting_encode(&any->greeting, frame);
    case WIRE_BEGUN:
        return wire_begun_encode(&any->begun, frame);
    case WIRE_BLOCK:
        return wire_block_encode(&any->block, frame);
    case WIRE_ASK:
        return wire_ask_encode(&any->ask, frame);
    case WIRE_ANSWER:
        return wire_answer_encode(&any->answer, frame);
    case WIRE_PIECE:
        return wire_piece_encode(&any->piece, frame);
    default:
        abort();
    }
}

static int decode_body(const wire_head *head, const uint8_t *body, any_body *any)
{
    switch (head->kind) {
    case WIRE_MEMBER:
        return wire_member_decode(head, body, &any->member);
    case WIRE_GREETING:
        return wire_greeting_decode(head, body, &any->greeting);
    case WIRE_BEGUN:
        return wire_begun_decode(head, body, &any->begun);
    case WIRE_BLOCK:
        return wire_block_decode(head, body, &any->block);
    case WIRE_ASK:
        return wire_ask_decode(head, body, &any->ask);
    case WIRE_ANSWER:
        return wire_answer_decode(head, body, &any->answer);
    case WIRE_PIECE:
        return wire_piece_decode(head, body, &any->piece);
    default:
        return TARRY_ERROR_FORMAT;
    }
}

/* The fixed part in a block of its very size, so that the sanitizer sees a step beyond it. */
static int decode(const uint8_t *frame, any_body *any)
{
    wire_head head;
    if (wire_head_decode(frame, &head) != TARRY_OK)
        return TARRY_ERROR_FORMAT;
    size_t fixed = wire_fixed_length(&head, frame[WIRE_HEAD_BYTES]);
    uint8_t *exact = malloc(fixed > 0 ? fixed : 1);
    assert_non_null(exact);
    memcpy(exact, frame + WIRE_HEAD_BYTES, fixed);
    int error = decode_body(&head, exact, any);
    free(exact);
    return error;
}

typedef struct known {
    wire_kind kind;
    any_body body;
    uint8_t bytes[MOST_FRAME];
    size_t size;
} known;

static const known all[] = {
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
          {.oldest = 11, .newest = 11, .instance = {SIXTEEN('i')}, .wanted = {SIXTEEN('w')}}},
     {48, 0,  0, 0,  15, 0, 0, 0, 'T', 'A', 'R', 'R',          'Y',
      0,  11, 0, 11, 0,  0, 0, 0, 0,   0,   0,   SIXTEEN('i'), SIXTEEN('w')},
     56},
    {WIRE_BEGUN,
     {.begun = {.name = {.step = 1, .term = 2, .attempt = 3},
                .epoch = 8,
                .dimension = 9,
                .parts = 10,
                .empty = true,
                .shape = {TARRY_SHAPE_GRID, 3},
                .up = TARRY_COMPRESS_BF16,
                .down = TARRY_COMPRESS_INT8}},
     {44, 0, 0, 0, 16, 0, 0, 0, NAME_BYTES, 8, 0, 0, 0, 0, 0, 0, 0,
      9,  0, 0, 0, 0,  0, 0, 0, 10,         0, 0, 0, 1, 2, 1, 2, 3},
     52},
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
    {WIRE_ASK,
     {.ask = {.request = 13, .kind = WIRE_ASK_STATE, .sum = SUM}},
     {32, 0, 0, 0, 18, 0, 0, 0, 13, 0, 0, 0, 2, 0, 0, 0, SUM_BYTES},
     40},
    {WIRE_ANSWER,
     {.answer = {.request = 13, .outcome = WIRE_OUTCOME_COMES, .sum = SUM, .total = 14}},
     {72, 0, 0, 0, 19, 0, 0, 0, 13, 0, 0, 0, 1, 0, 0, 0, SUM_BYTES, 14},
     80},
    {WIRE_ANSWER,
     {.answer = {.request = 13, .outcome = WIRE_OUTCOME_WHOLE, .sum = SUM, .digest = {15}}},
     {72, 0, 0, 0, 19, 0, 0, 0, 13, 0, 0, 0, 2, 0, 0, 0, SUM_BYTES, 0, 0, 0, 0, 0, 0, 0, 0, 15},
     80},
    {WIRE_ANSWER,
     {.answer = {.request = 13, .outcome = WIRE_OUTCOME_WAITS, .sum = SUM}},
     {72, 0, 0, 0, 19, 0, 0, 0, 13, 0, 0, 0, 3, 0, 0, 0, SUM_BYTES},
     80},
    {WIRE_PIECE,
     {.piece = {.request = 13, .first = 16, .count = 100}},
     {116, 0, 0, 0, 20, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 16},
     24},
    /* A state of more bytes than 32 bits count. */
    {WIRE_ANSWER,
     {.answer =
          {.request = 13, .outcome = WIRE_OUTCOME_COMES, .sum = SUM, .total = WIRE_BLOB_MOST}},
     {72, 0, 0, 0, 19, 0, 0, 0, 13, 0, 0, 0, 1, 0, 0, 0, SUM_BYTES, 0, 0, 0, 0, 0, 0, 1},
     80},
    {WIRE_PIECE,
     {.piece = {.request = 13, .first = WIRE_BLOB_MOST - 100, .count = 100}},
     {116, 0, 0, 0, 20, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 156, 255, 255, 255, 255, 255},
     24},
};

enum { ALL = sizeof(all) / sizeof(all[0]) };

static void frames_have_the_documented_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL; i++) {
        uint8_t frame[MOST_FRAME], again[MOST_FRAME];
        any_body read;
        assert_int_equal(encode(all[i].kind, &all[i].body, frame), all[i].size);
        assert_memory_equal(frame, all[i].bytes, all[i].size);
        assert_int_equal(decode(frame, &read), TARRY_OK);
        assert_int_equal(encode(all[i].kind, &read, again), all[i].size);
        assert_memory_equal(again, frame, all[i].size);
    }
}

/* Whatever one byte becomes: it is refused, or read for what it is. */
static void no_byte_is_overlooked(void **state)
{
    (void)state;
    size_t taken = 0;
    for (size_t i = 0; i < ALL; i++) {
        for (size_t at = 0; at < all[i].size; at++) {
            for (unsigned flip = 1; flip < 256; flip <<= 1) {
                uint8_t frame[MOST_FRAME], again[MOST_FRAME];
                any_body read;
                memcpy(frame, all[i].bytes, sizeof(frame));
                frame[at] ^= (uint8_t)flip;
                if (frame[4] != all[i].bytes[4] || decode(frame, &read) != TARRY_OK)
                    continue;
                taken++;
                if (all[i].kind == WIRE_GREETING &&
                    (read.greeting.oldest > WIRE_VERSION || read.greeting.newest < WIRE_VERSION))
                    continue; /* the rest is none of this version's business */
                assert_int_equal(encode(all[i].kind, &read, again), all[i].size);
                assert_memory_equal(again, frame, all[i].size);
            }
        }
    }
    assert_true(taken > 0);
}

static void counts_are_bounded(void **state)
{
    (void)state;
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
        {WIRE_PIECE, 16, TARRY_ERROR_FORMAT},
        {WIRE_PIECE, 16 + WIRE_PIECE_BYTES, TARRY_OK},
        {WIRE_PIECE, 17 + WIRE_PIECE_BYTES, TARRY_ERROR_FORMAT},
        {WIRE_ASK, 31, TARRY_ERROR_FORMAT},
        {WIRE_ANSWER, 73, TARRY_ERROR_FORMAT},
        {WIRE_BEGUN, 41, TARRY_ERROR_FORMAT},
        {WIRE_GREETING, 9, TARRY_ERROR_FORMAT},
    };
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint8_t bytes[WIRE_HEAD_BYTES] = {0};
        wire_head head;
        for (unsigned at = 0; at < 4; at++)
            bytes[at] = (uint8_t)(lengths[i].length >> 8 * at);
        bytes[4] = (uint8_t)lengths[i].kind;
        assert_int_equal(wire_head_decode(bytes, &head), lengths[i].error);
    }
    /* A number in part. */
    const wire_head head = {.kind = WIRE_BLOCK, .length = 36 + 63};
    wire_block block;
    assert_int_equal(wire_block_decode(&head, all[4].bytes + WIRE_HEAD_BYTES, &block),
                     TARRY_ERROR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_have_the_documented_bytes),
        cmocka_unit_test(no_byte_is_overlooked),
        cmocka_unit_test(counts_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
