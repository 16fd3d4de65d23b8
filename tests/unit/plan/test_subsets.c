/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/decode/decode.h"
#include "seed.h"
#include "test.h"

static uint32_t as_bits(const uint32_t *members, uint32_t size, uint32_t n)
{
    uint32_t bits = 0;
    for (uint32_t k = 0; k < size; k++) {
        assert_true(members[k] < n);
        assert_true(k == 0 || members[k - 1] < members[k]);
        bits |= UINT32_C(1) << members[k];
    }
    return bits;
}

TEST(each_subset_comes_once)
{
    for (uint32_t n = 0; n <= 10; n++) {
        for (uint32_t size = 0; size <= n; size++) {
            bool seen[1024] = {false};
            uint32_t members[10], expected = 0;
            uint64_t count = 0;
            for (uint32_t bits = 0; bits < UINT32_C(1) << n; bits++)
                expected += (uint32_t)__builtin_popcount(bits) == size;
            assert_int_equal(subsets_count(n, size), expected);
            subsets_first(members, size);
            do {
                bool *entry = &seen[as_bits(members, size, n)];
                assert_false(*entry);
                *entry = true;
                count++;
            } while (subsets_next(members, size, n));
            assert_int_equal(count, expected);
        }
    }
}

TEST(counts_saturate)
{
    assert_int_equal(subsets_count(3, 4), 0);
    assert_int_equal(subsets_count(60, 30), UINT64_C(118264581564861424));
    assert_true(subsets_count(200, 100) == UINT64_MAX);
    assert_int_equal(subsets_count(UINT32_MAX, 1), UINT32_MAX);
}

TEST(draws_are_even)
{
    random_stream stream = random_stream_make(test_seed("draws", 31), RANDOM_TEST, 0, 0);
    int hits[64] = {0};
    uint32_t members[3];
    for (int draw = 0; draw < 20000; draw++) {
        subsets_draw(&stream, members, 3, 6);
        hits[as_bits(members, 3, 6)]++;
    }
    /* 20 sets, 1000 draws each, standard deviation 31. */
    for (uint32_t bits = 0; bits < 64; bits++) {
        if (__builtin_popcount(bits) == 3)
            assert_in_range(hits[bits], 845, 1155);
    }
}
