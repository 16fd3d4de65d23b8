/* SPDX-License-Identifier: Apache-2.0 */
/* What a relay and its parent say to each other has the bytes that docs/wire.md says, and nothing
 * else is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/wire/wire_trunk.h"

enum { MOST_FRAME = WIRE_HEAD_BYTES + 2048 };

/* Reads a frame and writes what was read. 0: it was refused. */
typedef size_t rewrite(const wire_head *head, const uint8_t *body, uint8_t *again);

static size_t rewrite_batch(const wire_head *head, const uint8_t *body, uint8_t *again)
{
    wire_batch batch;
    if (wire_batch_decode(head, body, &batch) != TARRY_OK)
        return 0;
    for (uint32_t i = 0; i < batch.count; i++) {
        uint32_t lane = 0;
        tarry_message report;
        wire_batch_get(&batch, i, &lane, &report);
        assert_int_equal(report.type, TARRY_MESSAGE_REPORT);
        assert_int_equal(report.round, batch.round);
        assert_int_equal(report.term, batch.term);
        wire_batch_put(&batch, again, i, lane, &report);
    }
    return wire_batch_encode(&batch, again);
}

static size_t rewrite_lane(const wire_head *head, const uint8_t *body, uint8_t *again)
{
    uint32_t lane;
    wire_head inner;
    const uint8_t *inner_body;
    if (wire_lane_decode(head, body, &lane, &inner, &inner_body) != TARRY_OK)
        return 0;
    size_t size = WIRE_HEAD_BYTES + inner.length;
    wire_lane_head(lane, size, again);
    wire_head_encode(inner.kind, inner.length, again + WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES);
    memcpy(again + 2 * WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES, inner_body, inner.length);
    return WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES + size;
}

static size_t rewrite_gather(const wire_head *head, const uint8_t *body, uint8_t *again)
{
    wire_gather gather;
    float weights[64];
    if (wire_gather_decode(head, body, &gather) != TARRY_OK)
        return 0;
    assert_true(gather.parts <= 64);
    for (uint32_t i = 0; i < gather.count; i++) {
        uint32_t lane, epoch;
        wire_gather_get(&gather, i, &lane, &epoch, weights);
        wire_gather_put(&gather, again, i, lane, epoch, weights);
    }
    return wire_gather_encode(&gather, again);
}

#define REWRITE(noun)                                                                              \
    static size_t rewrite_##noun(const wire_head *head, const uint8_t *body, uint8_t *again)       \
    {                                                                                              \
        wire_##noun read;                                                                          \
        return wire_##noun##_decode(head, body, &read) == TARRY_OK                                 \
                   ? wire_##noun##_encode(&read, again)                                            \
                   : 0;                                                                            \
    }

REWRITE(lane_open)
REWRITE(lane_part)
REWRITE(lane_end)
REWRITE(lane_blob)
REWRITE(taken)
REWRITE(heard)
REWRITE(gathered)
REWRITE(parents)
REWRITE(advertise)

static rewrite *const rewriters[WIRE_KINDS] = {
    [WIRE_BATCH] = rewrite_batch,       [WIRE_LANE_OPEN] = rewrite_lane_open,
    [WIRE_LANE] = rewrite_lane,         [WIRE_LANE_PART] = rewrite_lane_part,
    [WIRE_LANE_END] = rewrite_lane_end, [WIRE_LANE_BLOB] = rewrite_lane_blob,
    [WIRE_TAKEN] = rewrite_taken,       [WIRE_HEARD] = rewrite_heard,
    [WIRE_GATHER] = rewrite_gather,     [WIRE_GATHERED] = rewrite_gathered,
    [WIRE_PARENTS] = rewrite_parents,   [WIRE_ADVERTISE] = rewrite_advertise,
};

/* The fixed part in a block of its very size, so that the sanitizer sees a step beyond it. */
static size_t read_and_write(const uint8_t *frame, uint8_t *again)
{
    wire_head head;
    if (wire_head_decode(frame, &head) != TARRY_OK || rewriters[head.kind] == NULL)
        return 0;
    size_t fixed = wire_fixed_length(&head, frame[WIRE_HEAD_BYTES]);
    if (fixed > MOST_FRAME - WIRE_HEAD_BYTES)
        return 0;
    uint8_t *exact = malloc(fixed);
    assert_non_null(exact);
    memcpy(exact, frame + WIRE_HEAD_BYTES, fixed);
    size_t size = rewriters[head.kind](&head, exact, again);
    free(exact);
    return size;
}

typedef struct known {
    uint8_t bytes[MOST_FRAME];
    size_t size;   /* of what stands before the numbers */
    bool has_text; /* in which '?' stands for what is not printable */
} known;

static const known all[] = {
    /* Two reports without lanes, the second one failed. */
    {{48, 0, 0, 0, 21, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
      2,  0, 0, 0, 5,  0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 7, 0, 1, 0},
     56,
     false},
    /* One of lane 8. */
    {{36, 0, 0, 0, 21, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0,
      0,  0, 8, 0, 0,  0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0},
     44,
     false},
    {{15, 0, 0, 0, 22, 0, 0, 0, 8, 1, 0, 0, 0, 0, 3, 0, 'd', 'e', 'r', 3, 'a', ':', '1'}, 23, true},
    {{9, 0, 0, 0, 22, 0, 0, 0, 8, 1, 0, 0, 1, 0, 0, 0, 0}, 17, true},
    /* A BYE of a child. */
    {{13, 0, 0, 0, 23, 0, 0, 0, 8, 1, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 1}, 21, false},
    /* A PART of 8 numbers. */
    {{60, 0, 0, 0, 24, 0, 0, 0, 8, 1, 0, 0, TARRY_MESSAGE_PART, 0, 2, 0, 1}, 36, false},
    {{8, 0, 0, 0, 25, 0, 0, 0, 8, 1, 0, 0, 2, 2, 'o', 'h'}, 16, true},
    {{56, 0, 0, 0, 26, 0, 0, 0, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 77, [32] = 1},
     64,
     false},
    {{56, 0, 0, 0, 26, 0, 0, 0, 8, 1, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 77}, 64, false},
    {{8, 0, 0, 0, 27, 0, 0, 0, 8, 1, 0, 0, 2}, 16, false},
    {{8, 0, 0, 0, 27, 0, 0, 0, 255, 255, 255, 255, 1}, 16, false},
    {{6, 0, 0, 0, 28, 0, 0, 0, 16, 0, 0, 0, 5, 128}, 14, false},
    /* Two contributors with a weight of 1 and of 2 each. */
    {{64, 0, 0,   0,  29, 0, 0, 0,  9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0,   0,  7, 0, 0, 0,
      2,  0, 0,   0,  2,  0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0,   0,  1, 0, 0, 0,
      0,  0, 128, 63, 0,  0, 0, 64, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64},
     72,
     false},
    {{56, 0, 0, 0, 30, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 1},
     32,
     false},
    {{7, 0, 0, 0, 31, 0, 0, 0, 2, 2, 'a', 'b', 2, 'c', 'd'}, 15, false},
    {{3, 0, 0, 0, 32, 0, 0, 0, 2, 'a', 'b'}, 11, false},
};

enum { ALL = sizeof(all) / sizeof(all[0]) };

static void frames_have_the_documented_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL; i++) {
        uint8_t again[MOST_FRAME];
        assert_int_equal(read_and_write(all[i].bytes, again), all[i].size);
        assert_memory_equal(again, all[i].bytes, all[i].size);
    }
}

static void a_report_of_a_batch_says_what_was_put(void **state)
{
    (void)state;
    uint8_t frame[MOST_FRAME];
    wire_batch batch = {.round = UINT64_C(1) << 40, .term = 7, .lanes = true, .count = 2}, read;
    const tarry_message first = {.epoch = 3, .slot = 4, .next = 5, .sequence = 6, .failed = true};
    const tarry_message second = {.epoch = UINT32_MAX, .slot = 8, .next = 9, .sequence = 65535};
    wire_batch_put(&batch, frame, 0, 11, &first);
    wire_batch_put(&batch, frame, 1, 65535, &second);
    assert_int_equal(wire_batch_encode(&batch, frame), 8 + 16 + 2 * 20);
    wire_head head;
    assert_int_equal(wire_head_decode(frame, &head), TARRY_OK);
    assert_int_equal(wire_batch_decode(&head, frame + WIRE_HEAD_BYTES, &read), TARRY_OK);
    assert_int_equal(read.count, 2);
    uint32_t lane = 0;
    tarry_message report;
    wire_batch_get(&read, 0, &lane, &report);
    assert_int_equal(lane, 11);
    assert_true(report.failed);
    assert_int_equal(report.slot, 4);
    assert_int_equal(report.next, 5);
    assert_int_equal(report.sequence, 6);
    assert_int_equal(report.term, 7);
    assert_true(report.round == UINT64_C(1) << 40);
    wire_batch_get(&read, 1, &lane, &report);
    assert_int_equal(lane, 65535);
    assert_false(report.failed);
    assert_int_equal(report.epoch, UINT32_MAX);
    assert_int_equal(report.sequence, 65535);
}

static bool differs_in_text_alone(const uint8_t *frame, const uint8_t *again, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (again[i] != frame[i] && again[i] != '?')
            return false;
    return true;
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
                memcpy(frame, all[i].bytes, sizeof(frame));
                frame[at] ^= (uint8_t)flip;
                size_t size = frame[4] == all[i].bytes[4] ? read_and_write(frame, again) : 0;
                if (size == 0)
                    continue;
                taken++;
                if (all[i].has_text)
                    assert_true(differs_in_text_alone(frame, again, size));
                else
                    assert_memory_equal(again, frame, size);
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
        {WIRE_BATCH, 31, TARRY_ERROR_FORMAT},
        {WIRE_BATCH, 32, TARRY_OK},
        {WIRE_BATCH, 16 + 1024 * 24, TARRY_OK},
        {WIRE_BATCH, 17 + 1024 * 24, TARRY_ERROR_FORMAT},
        {WIRE_LANE_OPEN, 8, TARRY_ERROR_FORMAT},
        {WIRE_LANE_OPEN, 8 + 4096 + 256, TARRY_OK},
        {WIRE_LANE_OPEN, 9 + 4096 + 256, TARRY_ERROR_FORMAT},
        {WIRE_LANE, 11, TARRY_ERROR_FORMAT},
        {WIRE_LANE, 12 + (1 << 20), TARRY_OK},
        {WIRE_LANE, 13 + (1 << 20), TARRY_ERROR_FORMAT},
        {WIRE_LANE_PART, 28, TARRY_ERROR_FORMAT},
        {WIRE_LANE_PART, 28 + 4 * WIRE_NUMBERS_MOST, TARRY_OK},
        {WIRE_LANE_PART, 29 + 4 * WIRE_NUMBERS_MOST, TARRY_ERROR_FORMAT},
        {WIRE_HEARD, 4, TARRY_ERROR_FORMAT},
        {WIRE_HEARD, 4 + 8192, TARRY_OK},
        {WIRE_HEARD, 5 + 8192, TARRY_ERROR_FORMAT},
        {WIRE_GATHER, 43, TARRY_ERROR_FORMAT},
        {WIRE_GATHER, 1 << 20, TARRY_OK},
        {WIRE_GATHER, (1 << 20) + 1, TARRY_ERROR_FORMAT},
        {WIRE_PARENTS, 0, TARRY_ERROR_FORMAT},
        {WIRE_PARENTS, 1 + 4 * 256, TARRY_OK},
        {WIRE_PARENTS, 2 + 4 * 256, TARRY_ERROR_FORMAT},
        {WIRE_TAKEN, 9, TARRY_ERROR_FORMAT},
        {WIRE_ADVERTISE, 1, TARRY_ERROR_FORMAT},
    };
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint8_t bytes[WIRE_HEAD_BYTES] = {0};
        wire_head head;
        for (unsigned at = 0; at < 4; at++)
            bytes[at] = (uint8_t)(lengths[i].length >> 8 * at);
        bytes[4] = (uint8_t)lengths[i].kind;
        assert_int_equal(wire_head_decode(bytes, &head), lengths[i].error);
    }
}

typedef struct wrong {
    size_t of; /* an index of `all` */
    size_t at;
    uint8_t byte;
} wrong;

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const wrong wrongs[] = {
        {2, 10, 1},                    /* a lane beyond the most */
        {3, 12, 0},                    /* no certificate, and not trusted */
        {4, 16, WIRE_HEARTBEAT},       /* a BYE's length, of another kind */
        {4, 10, 1},                    /* a lane beyond the most */
        {5, 12, TARRY_MESSAGE_REPORT}, /* a LANE_PART of what is none */
        {6, 12, 0},                    /* no reason */
        {6, 12, WIRE_LANE_REASONS},
        {8, 12, WIRE_BLOBS},
        {8, 40, 1}, /* a digest of data */
        {7, 16, 1}, /* a plan with an index */
        {9, 12, 0},
        {9, 12, WIRE_LANE_WINDOW + 1},
        {11, 8, 17},   /* not a multiple of 8 */
        {12, 24, 0},   /* no parts */
        {12, 28, 3},   /* a contributor that is not there */
        {12, 51, 127}, /* a weight that is not finite */
        {14, 8, 3},
        {14, 8, 5},
        {15, 9, 7}, /* a control character */
    };
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        uint8_t frame[MOST_FRAME], again[MOST_FRAME];
        memcpy(frame, all[wrongs[i].of].bytes, sizeof(frame));
        frame[wrongs[i].at] = wrongs[i].byte;
        if (read_and_write(frame, again) != 0)
            fail_msg("%zu: byte %zu of %zu as %u was read", i, wrongs[i].at, wrongs[i].of,
                     wrongs[i].byte);
    }
}

/* Frames of relays don't nest, and what has numbers has a frame of its own. */
static void a_lane_takes_small_frames_of_workers_alone(void **state)
{
    (void)state;
    for (wire_kind kind = WIRE_HELLO; kind < WIRE_KINDS; kind++) {
        bool passes = kind == WIRE_HELLO || kind == WIRE_WELCOME || kind == WIRE_REFUSED ||
                      kind == WIRE_BYE || kind == WIRE_MESSAGE || kind == WIRE_FETCH ||
                      kind == WIRE_READY || kind == WIRE_MEMBER || kind == WIRE_BATCH ||
                      kind == WIRE_PARENTS;
        assert_int_equal(wire_lane_takes(kind), passes);
    }
    uint8_t frame[MOST_FRAME] = {0}, again[MOST_FRAME];
    wire_lane_head(1, WIRE_HEAD_BYTES + CODEC_HEADER_BYTES + 4, frame);
    wire_message_head(CODEC_HEADER_BYTES, 4, frame + WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES);
    uint8_t *type = frame + 2 * WIRE_HEAD_BYTES + WIRE_LANE_HEAD_BYTES;
    *type = TARRY_MESSAGE_PART;
    assert_int_equal(read_and_write(frame, again), 0);
    *type = TARRY_MESSAGE_REPORT;
    assert_true(read_and_write(frame, again) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_have_the_documented_bytes),
        cmocka_unit_test(a_report_of_a_batch_says_what_was_put),
        cmocka_unit_test(no_byte_is_overlooked),
        cmocka_unit_test(counts_are_bounded),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_lane_takes_small_frames_of_workers_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
