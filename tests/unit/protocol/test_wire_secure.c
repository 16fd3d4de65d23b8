/* SPDX-License-Identifier: Apache-2.0 */
/* What is said for secure sums has the bytes that docs/wire.md says, and nothing else is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/wire/wire_secure.h"

#define FOUR(byte) byte, byte, byte, byte
#define SIXTEEN(byte) FOUR(byte), FOUR(byte), FOUR(byte), FOUR(byte)

static const wire_secure rules = {.bits = 64,
                                  .fraction = -2,
                                  .bound = 1,
                                  .colluders = 3,
                                  .least = 4,
                                  .roster = {SIXTEEN('a'), SIXTEEN('b')}};
static const uint8_t rules_bytes[] = {
    64, 0, 0, 0, 23,           0,           0, 0, 64, 0, 0, 0, 254, 255, 255, 255, 0, 0,
    0,  0, 0, 0, 0xf0,         0x3f,        4, 0, 0,  0, 0, 0, 0,   0,   3,   0,   0, 0,
    0,  0, 0, 0, SIXTEEN('a'), SIXTEEN('b')};

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
    73,           0, 0, 0, 24, 0, 0, 0, 5, 0, 0, 0, 6, 0,   0,   0,   SIXTEEN('i'), SIXTEEN('k'),
    SIXTEEN('l'), 7, 0, 0, 0,  0, 0, 0, 0, 3, 0, 2, 0, 'c', 'e', 'r', 's',          'i'};

/* The body in a block of its very size, so that the sanitizer sees a step beyond it. Gives back the
 * size of what it is written as again, at `again`; 0: it is refused. */
static size_t rewrite(const uint8_t *frame, uint8_t *again)
{
    wire_head head;
    wire_secure secure;
    wire_key words;
    size_t size = 0;
    if (wire_head_decode(frame, &head) != TARRY_OK)
        return 0;
    uint8_t *exact = malloc(head.length);
    assert_non_null(exact);
    memcpy(exact, frame + WIRE_HEAD_BYTES, head.length);
    if (head.kind == WIRE_SECURE && wire_secure_decode(&head, exact, &secure) == TARRY_OK)
        size = wire_secure_encode(&secure, again);
    if (head.kind == WIRE_KEY && wire_key_decode(&head, exact, &words) == TARRY_OK)
        size = wire_key_encode(&words, again);
    free(exact);
    return size;
}

static void frames_have_the_documented_bytes(void **state)
{
    (void)state;
    static uint8_t frame[WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES], again[sizeof(frame)];
    assert_int_equal(wire_secure_encode(&rules, frame), sizeof(rules_bytes));
    assert_memory_equal(frame, rules_bytes, sizeof(rules_bytes));
    assert_int_equal(rewrite(frame, again), sizeof(rules_bytes));
    assert_memory_equal(again, rules_bytes, sizeof(rules_bytes));
    assert_int_equal(wire_key_encode(&key, frame), sizeof(key_bytes));
    assert_memory_equal(frame, key_bytes, sizeof(key_bytes));
    assert_int_equal(rewrite(frame, again), sizeof(key_bytes));
    assert_memory_equal(again, key_bytes, sizeof(key_bytes));
}

static void the_longest_key_is_read(void **state)
{
    (void)state;
    static uint8_t bytes[WIRE_CERTIFICATE_BYTES], frame[WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES],
        again[sizeof(frame)];
    wire_key longest = key;
    longest.certificate = longest.signature = bytes;
    longest.certificate_size = WIRE_CERTIFICATE_BYTES;
    longest.signature_size = WIRE_SIGNATURE_BYTES;
    assert_int_equal(wire_key_encode(&longest, frame), sizeof(frame));
    assert_int_equal(rewrite(frame, again), sizeof(frame));
    assert_memory_equal(frame, again, sizeof(frame));
}

/* Whatever one byte becomes: it is refused, or read for what it is. */
static void no_byte_is_overlooked(void **state)
{
    (void)state;
    const uint8_t *const all[] = {rules_bytes, key_bytes};
    const size_t sizes[] = {sizeof(rules_bytes), sizeof(key_bytes)};
    size_t taken = 0;
    for (unsigned kind = 0; kind < 2; kind++)
        for (size_t i = 4; i < sizes[kind]; i++)
            for (unsigned value = 0; value < 256; value++) {
                static uint8_t again[WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES];
                uint8_t frame[WIRE_HEAD_BYTES + 128];
                memcpy(frame, all[kind], sizes[kind]);
                frame[i] = (uint8_t)value;
                size_t size = frame[4] == all[kind][4] ? rewrite(frame, again) : 0;
                if (size == 0)
                    continue;
                assert_int_equal(size, sizes[kind]);
                assert_memory_equal(again, frame, size);
                taken++;
            }
    assert_true(taken > 256 * sizeof(key_bytes));
}

static bool are_taken(wire_secure changed)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES], again[sizeof(frame)];
    wire_secure_encode(&changed, frame);
    return rewrite(frame, again) > 0;
}

static void rules_that_make_no_grid_are_refused(void **state)
{
    (void)state;
    wire_secure changed = rules;
    assert_true(are_taken(changed));
    const double bounds[] = {0, -1, INFINITY, -INFINITY, NAN};
    for (unsigned i = 0; i < 5; i++) {
        changed.bound = bounds[i];
        assert_false(are_taken(changed));
    }
    changed = rules;
    const uint32_t bits[] = {0, 1, 16, 31, 33, 63, 65, UINT32_MAX};
    for (unsigned i = 0; i < 8; i++) {
        changed.bits = bits[i];
        assert_false(are_taken(changed));
    }
    changed = rules;
    const int32_t fractions[] = {-127, 127, INT32_MIN, INT32_MAX};
    for (unsigned i = 0; i < 4; i++) {
        changed.fraction = fractions[i];
        assert_false(are_taken(changed));
    }
    changed.fraction = 126;
    assert_true(are_taken(changed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_have_the_documented_bytes),
        cmocka_unit_test(the_longest_key_is_read),
        cmocka_unit_test(no_byte_is_overlooked),
        cmocka_unit_test(rules_that_make_no_grid_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
