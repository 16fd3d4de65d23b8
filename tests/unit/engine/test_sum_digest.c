/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <xxhash.h>

#include "base/bytes.h"
#include "base/random.h"
#include "engine/sum_form.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

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
    float *sum = checked_malloc(MOST * sizeof(*sum));
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

TEST(a_digest_is_that_of_the_stripes_digests)
{
    static const size_t dimensions[] = {
        1, 60, 61, SUM_DIGEST_STRIPE - 1, SUM_DIGEST_STRIPE, SUM_DIGEST_STRIPE + 1, MOST};
    for (size_t i = 0; i < sizeof(dimensions) / sizeof(*dimensions); i++)
        for (uint64_t step = 0; step < 3; step++)
            assert_true(sum_digest(step, *state, dimensions[i]) ==
                        slow_digest(step, *state, dimensions[i]));
}

TEST(every_bit_the_length_and_the_step_count)
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

/* Pieces in any order, some of which nobody is told of. */
TEST(pieces_in_any_order_have_the_same_digest)
{
    enum { PIECES = 9, TIMES = 20 };
    random_stream stream = random_stream_make(test_seed("pieces", 9), RANDOM_TEST, 0, 0);
    sum_digester own;
    assert_ok(sum_digester_init(&own, MOST, NULL));
    for (uint64_t time = 0; time < TIMES; time++) {
        uint32_t cut[PIECES + 1] = {0}, order[PIECES] = {0};
        cut[PIECES] = MOST;
        for (uint32_t i = 1; i < PIECES; i++) {
            cut[i] = cut[i - 1] + random_below(&stream, MOST - cut[i - 1] + 1);
            order[i] = i;
        }
        random_shuffle(&stream, order, PIECES);
        uint32_t untold = random_below(&stream, PIECES + 1);
        sum_digester_begin(&own, time, *state);
        for (uint32_t i = 0; i + untold < PIECES; i++)
            sum_digester_add(&own, cut[order[i]], cut[order[i] + 1] - cut[order[i]]);
        assert_true(sum_digester_end(&own) == slow_digest(time, *state, MOST));
    }
    sum_digester_destroy(&own, NULL);
}

/* What is not told to be there is not read before the end; what is, not after. */
TEST(a_stripe_is_read_once_it_is_there)
{
    float *sum = *state;
    sum_digester own;
    uint64_t expected = sum_digest(1, sum, MOST);
    assert_ok(sum_digester_init(&own, MOST, NULL));
    sum_digester_begin(&own, 1, sum);
    float first = sum[0];
    sum[0] = -first;
    sum_digester_add(&own, 1, SUM_DIGEST_STRIPE - 1);
    sum[0] = first;
    sum_digester_add(&own, 0, 1);
    sum[0] = -first;
    assert_true(sum_digester_end(&own) == expected);
    sum[0] = first;
    sum_digester_destroy(&own, NULL);
}

static int make(void *user, const tarry_allocator *allocator)
{
    sum_digester own;
    int error = sum_digester_init(&own, MOST, allocator);
    sum_digester_destroy(&own, allocator);
    return error;
}

TEST(without_memory_there_is_none)
{
    assert_int_equal(fail_each_allocation(make, NULL), 2);
}

TEST_GROUP(set_up, tear_down)
