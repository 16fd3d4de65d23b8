/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/random.h"
#include "privacy/secure/ring.h"
#include "seed.h"
#include "test.h"

/* What a number counts as, by the definition, in long double. */
static int64_t oracle(const ring *of, float number, bool *clamped)
{
    long double exact = isfinite(number) ? (long double)number : 0;
    *clamped = !isfinite(number) || fabsl(exact) > (long double)of->bound;
    long double bound = nextafterf((float)of->bound, 0);
    while ((long double)nextafterf((float)bound, INFINITY) <= (long double)of->bound &&
           isfinite(nextafterf((float)bound, INFINITY)))
        bound = nextafterf((float)bound, INFINITY);
    if (exact > bound)
        exact = bound;
    if (exact < -bound)
        exact = -bound;
    return (int64_t)rintl(ldexpl(exact, of->fraction));
}

static float draw_float(random_stream *stream)
{
    const uint64_t bits = random_u64(stream);
    switch (bits >> 60) {
    case 0: {
        uint32_t any = (uint32_t)bits;
        float number;
        memcpy(&number, &any, sizeof(number));
        return number;
    }
    case 1:
        return INFINITY;
    case 2:
        return 0.5F * (float)(int)(bits % 64) - 16;
    default:
        return ldexpf((float)(int32_t)(uint32_t)bits, -(int)(bits >> 40 & 31) - 12);
    }
}

TEST(each_number_counts_as_the_nearest_whole_number)
{
    enum { COUNT = 3000 };
    static float numbers[COUNT];
    static uint8_t words[1 + 8 * COUNT], before[1 + 8 * COUNT];
    random_stream stream = random_stream_make(test_seed("ring", 1), RANDOM_TEST, 0, 0);
    const double bounds[] = {1, 0.3, 1000.1, 1e-30, 3e38, 1e300, 16};
    for (size_t i = 0; i < 14; i++) {
        ring of;
        assert_true(ring_choose(i % 2 == 0 ? 32 : 64, bounds[i / 2], 7 + i, &of));
        for (size_t k = 0; k < COUNT; k++)
            numbers[k] = draw_float(&stream);
        for (size_t k = 0; k < sizeof(words); k++)
            before[k] = words[k] = (uint8_t)random_u64(&stream);
        size_t most = 0, clamped = ring_add(&of, numbers, COUNT, words + 1);
        for (size_t k = 0; k < COUNT; k++) {
            bool over;
            const int64_t wanted = oracle(&of, numbers[k], &over);
            uint64_t got = ring_word(&of, words + 1, k) - ring_word(&of, before + 1, k);
            if (of.bits == 32)
                assert_int_equal((int32_t)(uint32_t)got, wanted);
            else
                assert_true((int64_t)got == wanted);
            assert_true((uint64_t)(wanted < 0 ? -wanted : wanted) <= ring_most(&of));
            most += over;
        }
        assert_int_equal(clamped, most);
    }
}

/* To the bit, at lengths and addresses of all kinds. */
TEST(all_kernels_are_the_reference)
{
    enum { COUNT = 300 };
    float numbers[COUNT];
    uint8_t words[8 + 8 * COUNT], wanted[8 + 8 * COUNT];
    random_stream stream = random_stream_make(test_seed("ring", 3), RANDOM_TEST, 0, 0);
    for (size_t turn = 0; turn < 4000; turn++) {
        ring of;
        const double bound = ldexp(random_uniform(&stream), (int)random_below(&stream, 220) - 100);
        assert_true(ring_choose(turn % 2 == 0 ? 32 : 64, bound, 1 + turn % 50, &of));
        const ring_scale scale = ring_scale_of(&of);
        for (size_t i = 0; i < COUNT; i++)
            numbers[i] = turn % 3 == 0 ? draw_float(&stream)
                                       : (float)(bound * 1.2 * (random_uniform(&stream) - 0.5) *
                                                 (turn % 3 == 1 ? 1.9 : 0x1p-20));
        const size_t from = random_below(&stream, 8), count = random_below(&stream, COUNT - 8);
        const size_t place = random_below(&stream, 8);
        for (size_t k = 1; ring_kernel_at(k) != NULL; k++) {
            for (size_t i = 0; i < sizeof(words); i++)
                words[i] = wanted[i] = (uint8_t)random_u32(&stream);
            const ring_kernel *one = &ring_reference, *other = ring_kernel_at(k);
            const size_t clamped = (of.bits == 32 ? one->add32 : one->add64)(&scale, numbers + from,
                                                                             count, wanted + place);
            assert_int_equal((of.bits == 32 ? other->add32 : other->add64)(&scale, numbers + from,
                                                                           count, words + place),
                             clamped);
            assert_memory_equal(words, wanted, sizeof(words));
        }
    }
    assert_ptr_equal(ring_kernel_at(0), &ring_reference);
}

TEST(every_kernel_sums_words_alike)
{
    enum { COUNT = 300 };
    uint8_t in[8 + 8 * COUNT], out[8 + 8 * COUNT], wanted[8 + 8 * COUNT];
    random_stream stream = random_stream_make(test_seed("ring", 4), RANDOM_TEST, 0, 0);
    for (size_t turn = 0; turn < 2000; turn++) {
        const ring of = {.bits = turn % 2 == 0 ? 32 : 64};
        const bool subtract = turn % 4 < 2;
        const size_t from = random_below(&stream, 8), place = random_below(&stream, 8);
        const size_t count = random_below(&stream, COUNT + 1);
        for (size_t k = 0; ring_kernel_at(k) != NULL; k++) {
            for (size_t i = 0; i < sizeof(in); i++) {
                in[i] = (uint8_t)random_u32(&stream);
                out[i] = wanted[i] = (uint8_t)random_u32(&stream);
            }
            for (size_t i = 0; i < count; i++) {
                const uint64_t word = ring_word(&of, in + from, i);
                ring_count(&of, wanted + place, i, subtract ? 0 - word : word);
            }
            ring_kernel_at(k)->sum(of.bits, out + place, in + from, ring_bytes(&of, count),
                                   subtract);
            assert_memory_equal(out, wanted, sizeof(out));
        }
    }
}

TEST(the_largest_fraction_is_the_last_that_cannot_wrap)
{
    for (uint32_t bits = 32; bits <= 64; bits += 32) {
        for (uint64_t chunks = 1; chunks < 1U << 31; chunks = chunks * 3 + 1) {
            ring of;
            assert_true(ring_choose(bits, 5.25, chunks, &of));
            assert_true(ring_fits(&of, chunks));
            assert_true((long double)ring_most(&of) * (long double)chunks < powl(2, bits - 1));
            of.fraction++;
            assert_false(ring_fits(&of, chunks));
            assert_true(rintl(ldexpl(5.25L, of.fraction)) * (long double)chunks >=
                        powl(2, bits - 1));
        }
    }
    ring of = {.bits = 32, .fraction = 0, .bound = 1};
    assert_true(ring_fits(&of, INT32_MAX));
    assert_false(ring_fits(&of, (uint64_t)INT32_MAX + 1));
    assert_false(ring_fits(&of, 0));
    of.bound = 0.6; /* counts as 1 */
    assert_false(ring_fits(&of, (uint64_t)INT32_MAX + 1));
    of.bits = 31;
    assert_false(ring_fits(&of, 1));
    assert_false(ring_choose(32, 0, 1, &of));
    assert_false(ring_choose(32, -1, 1, &of));
    assert_false(ring_choose(32, NAN, 1, &of));
    assert_false(ring_choose(64, INFINITY, 1, &of));
    assert_false(ring_choose(48, 1, 1, &of));
    assert_false(ring_choose(32, 1, UINT64_MAX, &of));
}

TEST(sums_are_those_of_integers_and_are_read_rounded_once)
{
    enum { CHUNKS = 5, COUNT = 100 };
    random_stream stream = random_stream_make(test_seed("ring", 2), RANDOM_TEST, 0, 0);
    for (uint32_t bits = 32; bits <= 64; bits += 32) {
        ring of;
        assert_true(ring_choose(bits, 2, CHUNKS, &of));
        uint64_t sum[COUNT] = {0}, words[COUNT] = {0};
        long double wanted[COUNT] = {0};
        float numbers[COUNT];
        for (size_t c = 0; c < CHUNKS; c++) {
            bool over;
            memset(words, 0, sizeof(words));
            for (size_t i = 0; i < COUNT; i++) {
                numbers[i] = 3 * (float)random_uniform(&stream) * (i % 2 == 0 ? 1 : -1);
                wanted[i] += oracle(&of, numbers[i], &over);
            }
            ring_add(&of, numbers, COUNT, words);
            ring_sum(&of, words, COUNT, sum);
        }
        ring_read(&of, sum, COUNT, bits == 32 ? (float *)(void *)sum : numbers);
        for (size_t i = 0; i < COUNT; i++) {
            float got = bits == 32 ? ((float *)(void *)sum)[i] : numbers[i];
            assert_true(got == (float)ldexpl(wanted[i], -of.fraction));
        }
    }
}

TEST(counting_words_wrap_and_leave_their_neighbours)
{
    for (uint32_t bits = 32; bits <= 64; bits += 32) {
        ring of = {.bits = bits, .fraction = 0, .bound = 1};
        uint8_t words[24] = {0};
        ring_count(&of, words, 1, 7);
        ring_count(&of, words, 1, UINT64_MAX);
        assert_int_equal(ring_word(&of, words, 1), 6);
        ring_count(&of, words, 1, UINT64_C(0) - 7);
        assert_true(ring_word(&of, words, 1) == UINT64_MAX >> (64 - bits));
        assert_int_equal(ring_word(&of, words, 0), 0);
        assert_int_equal(ring_word(&of, words, 2), 0);
    }
}
