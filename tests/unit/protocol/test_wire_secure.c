/* SPDX-License-Identifier: Apache-2.0 */
/* What is said for secure sums has the bytes that docs/wire.md says, and nothing else is read. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/wire/wire_bodies.h"
#include "test.h"

#define FOUR(byte) byte, byte, byte, byte
#define SIXTEEN(byte) FOUR(byte), FOUR(byte), FOUR(byte), FOUR(byte)

static const wire_key key = {.worker = 5,
                             .epoch = 6,
                             .instance = {SIXTEEN('i')},
                             .key = {SIXTEEN('k'), SIXTEEN('l')},
                             .numerics = 7,
                             .certificate_size = 3,
                             .signature_size = 2,
                             .certificate = (const uint8_t *)"cer",
                             .signature = (const uint8_t *)"si"};
static const uint8_t key_bytes[] = {
    73,           0, 0, 0, 12, 0, 0, 0, 5, 0, 0, 0, 6, 0,   0,   0,   SIXTEEN('i'), SIXTEEN('k'),
    SIXTEEN('l'), 7, 0, 0, 0,  0, 0, 0, 0, 3, 0, 2, 0, 'c', 'e', 'r', 's',          'i'};

/* The body in a block of its very size, so that the sanitizer sees a step beyond it. Gives back the
 * size of what it is written as again, at `again`; 0: it is refused. */
static size_t rewrite(const uint8_t *frame, uint8_t *again)
{
    wire_head head;
    wire_key words;
    size_t size = 0;
    if (wire_head_decode(frame, &head) != TARRY_OK)
        return 0;
    uint8_t *exact = malloc(head.length);
    assert_non_null(exact);
    memcpy(exact, frame + WIRE_HEAD_BYTES, head.length);
    if (head.kind == WIRE_KEY && wire_decode(&head, exact, &words) == TARRY_OK)
        size = wire_encode(WIRE_KEY, &words, again);
    free(exact);
    return size;
}

TEST(frames_have_the_documented_bytes)
{
    static uint8_t frame[WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES], again[sizeof(frame)];
    assert_int_equal(wire_encode(WIRE_KEY, &key, frame), sizeof(key_bytes));
    assert_memory_equal(frame, key_bytes, sizeof(key_bytes));
    assert_int_equal(rewrite(frame, again), sizeof(key_bytes));
    assert_memory_equal(again, key_bytes, sizeof(key_bytes));
}

TEST(the_longest_key_is_read)
{
    static uint8_t bytes[WIRE_CERTIFICATE_BYTES], frame[WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES],
        again[sizeof(frame)];
    wire_key longest = key;
    longest.certificate = longest.signature = bytes;
    longest.certificate_size = WIRE_CERTIFICATE_BYTES;
    longest.signature_size = WIRE_SIGNATURE_BYTES;
    assert_int_equal(wire_encode(WIRE_KEY, &longest, frame), sizeof(frame));
    assert_int_equal(rewrite(frame, again), sizeof(frame));
    assert_memory_equal(frame, again, sizeof(frame));
}

/* Whatever one byte becomes: it is refused, or read for what it is. */
TEST(no_byte_is_overlooked)
{
    size_t taken = 0;
    for (size_t i = 4; i < sizeof(key_bytes); i++)
        for (unsigned value = 0; value < 256; value++) {
            static uint8_t again[WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES];
            uint8_t frame[WIRE_HEAD_BYTES + 128];
            memcpy(frame, key_bytes, sizeof(key_bytes));
            frame[i] = (uint8_t)value;
            size_t size = frame[4] == key_bytes[4] ? rewrite(frame, again) : 0;
            if (size == 0)
                continue;
            assert_int_equal(size, sizeof(key_bytes));
            assert_memory_equal(again, frame, size);
            taken++;
        }
    assert_true(taken > 192 * sizeof(key_bytes));
}
