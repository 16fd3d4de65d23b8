/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of which several come in one frame have the bytes that docs/wire.md says, and nothing
 * else is read. */
#include <stdbool.h>

#include "protocol/wire/wire.h"
#include "test.h"

enum { MOST_FRAME = WIRE_HEAD_BYTES + 2048 };

/* Reads a frame, whose body is in a block of its very size, so that the sanitizer sees a step
 * beyond it, and writes what was read. 0: it was refused. */
static size_t read_and_write(const uint8_t *frame, uint8_t *again)
{
    wire_head head;
    wire_batch batch;
    if (wire_head_decode(frame, &head) != TARRY_OK || head.kind != WIRE_BATCH ||
        head.length > MOST_FRAME - WIRE_HEAD_BYTES)
        return 0;
    OWNED(uint8_t) exact = checked_malloc(head.length);
    memcpy(exact, frame + WIRE_HEAD_BYTES, head.length);
    if (wire_batch_decode(&head, exact, &batch) != TARRY_OK)
        return 0;
    for (uint32_t i = 0; i < batch.count; i++) {
        tarry_message report;
        wire_batch_get(&batch, i, &report);
        assert_int_equal(report.type, TARRY_MESSAGE_REPORT);
        assert_int_equal(report.round, batch.round);
        assert_int_equal(report.term, batch.term);
        wire_batch_put(again, i, &report);
    }
    return wire_batch_encode(&batch, again);
}

/* Two reports, the second one failed. */
static const uint8_t known[] = {48, 0, 0, 0, 21, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0,
                                0,  0, 0, 0, 0,  1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 6, 0,
                                0,  0, 1, 0, 0,  0, 3, 0, 0, 0, 4, 0, 0, 0, 7, 0, 1, 0};

TEST(frames_have_the_documented_bytes)
{
    uint8_t again[MOST_FRAME];
    assert_int_equal(read_and_write(known, again), sizeof(known));
    assert_memory_equal(again, known, sizeof(known));
}

TEST(a_report_of_a_batch_says_what_was_put)
{
    uint8_t frame[MOST_FRAME];
    wire_batch batch = {.round = UINT64_C(1) << 40, .term = 7, .count = 2}, read;
    const tarry_message first = {.epoch = 3, .slot = 4, .next = 5, .sequence = 6, .failed = true};
    const tarry_message second = {.epoch = UINT32_MAX, .slot = 8, .next = 9, .sequence = 65535};
    wire_batch_put(frame, 0, &first);
    wire_batch_put(frame, 1, &second);
    assert_int_equal(wire_batch_encode(&batch, frame), 8 + 16 + 2 * 16);
    wire_head head;
    assert_int_equal(wire_head_decode(frame, &head), TARRY_OK);
    assert_int_equal(wire_batch_decode(&head, frame + WIRE_HEAD_BYTES, &read), TARRY_OK);
    assert_int_equal(read.count, 2);
    tarry_message report;
    wire_batch_get(&read, 0, &report);
    assert_true(report.failed);
    assert_int_equal(report.slot, 4);
    assert_int_equal(report.next, 5);
    assert_int_equal(report.sequence, 6);
    assert_int_equal(report.term, 7);
    assert_true(report.round == UINT64_C(1) << 40);
    wire_batch_get(&read, 1, &report);
    assert_false(report.failed);
    assert_int_equal(report.epoch, UINT32_MAX);
    assert_int_equal(report.sequence, 65535);
}

/* Whatever one byte becomes: it is refused, or read for what it is. */
TEST(no_byte_is_overlooked)
{
    size_t taken = 0;
    for (size_t at = 0; at < sizeof(known); at++) {
        for (unsigned flip = 1; flip < 256; flip <<= 1) {
            uint8_t frame[MOST_FRAME] = {0}, again[MOST_FRAME];
            memcpy(frame, known, sizeof(known));
            frame[at] ^= (uint8_t)flip;
            size_t size = read_and_write(frame, again);
            if (size == 0)
                continue;
            taken++;
            assert_memory_equal(again, frame, size);
        }
    }
    assert_true(taken > 0);
}
