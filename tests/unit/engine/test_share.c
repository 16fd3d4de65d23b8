/* SPDX-License-Identifier: Apache-2.0 */
/* Who sums what, by looking at every number, and the decoding of shares beside the slow sum. */
#include "base/random.h"
#include "engine/sum_form.h"
#include "seed.h"
#include "sum_case.h"
#include "test.h"

enum { MEMBERS_MOST = 9, PARTS_MOST = 4 };

/* Shares of a stripe follow each other, differ by a cache line at most, and together are the
 * stripe. */
static void check_shares(const layout *cut, uint32_t count)
{
    size_t next = 0;
    for (uint32_t stripe = 0; stripe < cut->stripes; stripe++) {
        size_t start = layout_stripe_start(cut, stripe), least = SIZE_MAX, most = 0;
        for (uint32_t place = 0; place < count; place++) {
            share own = share_of(cut, stripe, count, place);
            assert_int_equal(own.first, next);
            assert_true(own.length == 0 || (own.first - start) % 16 == 0);
            assert_true(own.length <= share_most(cut, count));
            least = own.length < least ? own.length : least;
            most = own.length > most ? own.length : most;
            next += own.length;
        }
        assert_true(most - least <= 16 + 15); /* a line more, and a last line that is not full */
        assert_int_equal(next, start + layout_stripe_length(cut, stripe));
    }
    assert_int_equal(next, cut->part_length);
}

/* What all members send makes (1 + 1 / l) d (n - 1) numbers, but for the padding. */
static void check_traffic(const layout *cut, uint32_t count)
{
    size_t decoded = 0;
    for (uint32_t stripe = 0; stripe < cut->stripes; stripe++)
        for (uint32_t place = 0; place < count; place++)
            decoded += share_numbers(cut, share_of(cut, stripe, count, place));
    assert_int_equal(decoded, cut->dimension);
}

static void check_decoding(const layout *cut, const sum_case *of)
{
    bool has[MEMBERS_MOST];
    uint32_t places[MEMBERS_MOST];
    float rows[MEMBERS_MOST * PARTS_MOST];
    share_terms terms = {.places = places, .rows = rows};
    for (uint32_t i = 0; i < of->count; i++)
        has[i] = of->part[i] != NULL;
    share_terms_set(&terms, of->weights, of->parts, of->count, has);
    OWNED(float) sum = checked_malloc((of->dimension + 1) * sizeof(*sum));
    for (size_t x = 0; x <= of->dimension; x++)
        sum[x] = 77.5F;
    for (uint32_t stripe = 0; stripe < cut->stripes; stripe++) {
        for (uint32_t place = 0; place < of->count; place++) {
            share own = share_of(cut, stripe, of->count, place);
            const float *z[MEMBERS_MOST];
            for (uint32_t t = 0; t < terms.count; t++)
                z[t] = of->part[places[t]] + own.first;
            share_decode(kernel_best(), cut, own, &terms, z, KERNEL_SET, sum + own.first,
                         cut->part_length);
        }
    }
    sum_case_check(of, sum);
    assert_true(sum[of->dimension] == 77.5F);
}

TEST(shares_are_the_sum_for_all_members_and_parts)
{
    static const size_t dimensions[] = {1, 2, 3, 15, 17, 64, 100, 1000, 4099};
    uint64_t seed = test_seed("share", 5);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    for (uint32_t count = 1; count <= MEMBERS_MOST; count++) {
        for (uint32_t parts = 1; parts <= PARTS_MOST; parts++) {
            for (size_t i = 0; i < sizeof(dimensions) / sizeof(*dimensions); i++) {
                layout cut = layout_make(dimensions[i], parts, 1 + random_below(&stream, 2000));
                OWNED(sum_case)
                of = sum_case_make(dimensions[i], parts, count, i % 2 == 1, seed + i);
                check_shares(&cut, count);
                check_traffic(&cut, count);
                check_decoding(&cut, of);
            }
        }
    }
}

TEST(members_without_a_part_are_left_out)
{
    enum { COUNT = 7, PARTS = 2 };
    static const bool has[COUNT] = {true, false, false, true, true, false, true};
    float weights[PARTS * COUNT], rows[PARTS * COUNT];
    uint32_t places[COUNT];
    for (size_t i = 0; i < PARTS * COUNT; i++)
        weights[i] = (float)i;
    share_terms terms = {.places = places, .rows = rows};
    share_terms_set(&terms, weights, PARTS, COUNT, has);
    assert_int_equal(terms.count, 4);
    assert_memory_equal(places, ((uint32_t[]){0, 3, 4, 6}), 4 * sizeof(*places));
    assert_memory_equal(rows, ((float[]){0, 3, 4, 6, 7, 10, 11, 13}), 8 * sizeof(*rows));
    share_terms_set(&terms, weights, PARTS, COUNT, (bool[COUNT]){false});
    assert_int_equal(terms.count, 0);
}
