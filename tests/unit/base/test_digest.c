/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"
#include "test.h"

/* The bytes 00 01 .. 07 and the bytes of 1.0; the expected value is that of sha256sum. */
TEST(digest_is_sha256_of_little_endian_bytes)
{
    const uint32_t words[] = {0x07060504};
    const double one = 1.0;
    const uint8_t expected[4] = {0x19, 0x11, 0xb0, 0x81};
    uint8_t out[32];
    digest *sum = digest_begin();
    assert_non_null(sum);
    assert_int_equal(digest_add_bytes(sum, (const uint8_t[]){0, 1, 2, 3}, 4), 0);
    assert_int_equal(digest_add_u32(sum, words, 1), 0);
    assert_int_equal(digest_add_f64(sum, &one, 1), 0);
    assert_int_equal(digest_end(sum, out), 0);
    assert_memory_equal(out, expected, sizeof(expected));

    uint8_t bytes[16], at_once[32];
    for (uint8_t i = 0; i < 8; i++)
        bytes[i] = i;
    memcpy(bytes + 8, (const uint8_t[]){0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, 8);
    assert_int_equal(digest_of_bytes(bytes, sizeof(bytes), at_once), 0);
    assert_memory_equal(at_once, out, sizeof(out));
}
