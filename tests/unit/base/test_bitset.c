/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bitset.h"
#include "test.h"

TEST(set_bits_are_found_and_counted)
{
    uint64_t set[3] = {0};
    const size_t bits[] = {0, 1, 63, 64, 127, 128, 190};
    for (size_t i = 0; i < sizeof(bits) / sizeof(*bits); i++)
        bitset_set(set, bits[i]);
    assert_int_equal(bitset_count(set, 191), 7);
    assert_int_equal(bitset_count(set, 190), 6);
    assert_int_equal(bitset_count(set, 64), 3);
    assert_true(bitset_test(set, 127));
    assert_false(bitset_test(set, 126));
    bitset_put(set, 127, false);
    assert_false(bitset_test(set, 127));
    bitset_clear(set, 191);
    assert_int_equal(bitset_count(set, 192), 0);
}

TEST(copies_cross_words)
{
    uint64_t from[2] = {UINT64_C(0xA5A5A5A5A5A5A5A5), UINT64_C(0x0F0F0F0F0F0F0F0F)};
    uint64_t to[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    bitset_copy(to, 40, from, 10, 100);
    for (size_t bit = 0; bit < 100; bit++)
        assert_int_equal(bitset_test(to, 40 + bit), bitset_test(from, 10 + bit));
    assert_true(bitset_test(to, 39));
    assert_true(bitset_test(to, 140));
}

/* Every place within a word, on both sides, and lengths of less than a word to more than two. */
TEST(copies_are_those_of_single_bits)
{
    enum { WORDS = 4, LONGEST = 131 };
    uint64_t from[WORDS];
    for (size_t word = 0; word < WORDS; word++)
        from[word] = (word + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t start = 0; start < 64; start++)
        for (size_t at = 0; at < 64; at++)
            for (size_t bits = 0; bits <= LONGEST; bits++) {
                uint64_t to[WORDS], wanted[WORDS];
                memset(to, 0xC3, sizeof(to));
                memcpy(wanted, to, sizeof(to));
                for (size_t bit = 0; bit < bits; bit++)
                    bitset_put(wanted, at + bit, bitset_test(from, start + bit));
                bitset_copy(to, at, from, start, bits);
                assert_memory_equal(to, wanted, sizeof(to));
            }
}
