/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/random.h"
#include "engine/sum_digest.h"
#include "seed.h"

enum { MOST = 2 * SUM_DIGEST_STRIPE + 7 };

/* The header's words, said with one buffer for all stripes' digests. */
static uint64_t slow_digest(uint64_t step, const float *sum, size_t dimension)
{
    uint8_t words[8 * 8], *end = words;
    for (size_t x = 0; x < dimension; x += SUM_DIGEST_STRIPE) {
        size_t length = dimension - x < SUM_DIGEST_STRIPE ? dimension - x : SUM_DIGEST_STRIPE;
        end = bytes_put(end, XXH3_64bits_withSeed(sum + x, 4 * length, step), 8);
    }
    return XXH3_64bits_withSeed(words, (size_t)(end - words), step);
}

static int set_up(void **state)
{
    random_stream stream = random_stream_make(test_seed("digest", 8), RANDOM_TEST, 0, 0);
    float *sum = malloc(MOST * sizeof(*sum));
    assert_non_null(sum);
    for (size_t x = 0; x < MOST; x++)
        sum[x] = (float)random_uniform(&stream);
    *state = sum;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static void a_digest_is_that_of_the_stripes_digests(void **state)
{
    static const size_t dimensions[] = {
        1, 60, 61, SUM_DIGEST_STRIPE - 1, SUM_DIGEST_STRIPE, SUM_DIGEST_STRIPE + 1, MOST};
    for (size_t i = 0; i < sizeof(dimensions) / sizeof(*dimensions); i++)
        for (uint64_t step = 0; step < 3; step++)
            assert_true(sum_digest(step, *state, dimensions[i]) ==
                        slow_digest(step, *state, dimensions[i]));
}

static void every_bit_the_length_and_the_step_count(void **state)
{
    float *sum = *state;
    uint64_t digest = sum_digest(7, sum, MOST);
    assert_true(digest != sum_digest(8, sum, MOST));
    assert_true(digest != sum_digest(7, sum, MOST - 1));
    static const size_t places[] = {0, SUM_DIGEST_STRIPE - 1, SUM_DIGEST_STRIPE, MOST - 1};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        for (unsigned bit = 0; bit < 32; bit++) {
            uint32_t bits;
            memcpy(&bits, &sum[places[i]], sizeof(bits));
            uint32_t other = bits ^ UINT32_C(1) << bit;
            memcpy(&sum[places[i]], &other, sizeof(bits));
            assert_true(digest != sum_digest(7, sum, MOST));
            memcpy(&sum[places[i]], &bits, sizeof(bits));
        }
    }
    assert_true(digest == sum_digest(7, sum, MOST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_that_of_the_stripes_digests),
        cmocka_unit_test(every_bit_the_length_and_the_step_count),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
