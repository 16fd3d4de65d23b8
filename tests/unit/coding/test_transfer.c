/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "coding/layout.h"
#include "draw.h"
#include "seed.h"
#include "test.h"

enum { MAX_COUNT = 20 };

static const float GUARD = -12345.5F;

/* Vectors of random numbers, for one t. */
typedef struct trial {
    const kernel *kernel;
    layout cut;
    size_t count;
    float *vectors[MAX_COUNT]; /* gradients or coded parts; NULL where the coefficients are zero */
    float *numbers;            /* coefficients or weights, count x parts or parts x count */
    random_stream stream;
} trial;

static void trial_init(trial *t, const kernel *with, layout cut, size_t count, size_t length,
                       random_stream *stream)
{
    t->kernel = with;
    t->cut = cut;
    t->count = count;
    t->numbers = checked_calloc(count * cut.parts + 1, sizeof(float));
    for (size_t i = 0; i < count; i++) {
        t->vectors[i] = checked_calloc(length, sizeof(float));
        for (size_t x = 0; x < length; x++)
            t->vectors[i][x] = draw_float(stream);
    }
    for (size_t i = 0; i < count * cut.parts; i++)
        t->numbers[i] = random_below(stream, 4) == 0 ? 0 : draw_float(stream);
}

static void trial_free(trial *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->vectors[i]);
    free(t->numbers);
}
OWNED_STRUCT_BY(trial, trial_free)

/* |value - sum| must stay within what rounding `terms` float operations can do. */
static void assert_sum(float value, double sum, double magnitude, size_t terms)
{
    double bound = ((double)terms + 2) * (double)FLT_EPSILON * magnitude;
    if (fabs((double)value - sum) <= bound)
        return;
    print_error("%.9g instead of %.9g, bound %.3g\n", (double)value, sum, bound);
    fail();
}

/* Coordinate x of part k of the padded gradient. */
static double padded(const float *gradient, const layout *cut, uint32_t part, size_t x)
{
    size_t place = part * cut->part_length + x;
    return place < cut->dimension ? (double)gradient[place] : 0;
}

static void check_encode(const trial *t)
{
    const layout *cut = &t->cut;
    OWNED(uint8_t) scratch = checked_malloc(transfer_encode_scratch(t->count, cut->parts) + 1);
    OWNED(float) z = checked_malloc((cut->part_length + 1) * sizeof(*z));
    for (uint32_t stripe = 0; stripe < cut->stripes; stripe++) {
        size_t start = layout_stripe_start(cut, stripe);
        size_t length = layout_stripe_length(cut, stripe);
        z[length] = GUARD;
        for (size_t x = 0; x < length; x++)
            z[x] = NAN;
        transfer_encode(t->kernel, cut, stripe, (const float *const *)t->vectors, t->numbers,
                        t->count, z, scratch);
        for (size_t x = 0; x < length; x++) {
            double sum = 0, magnitude = 0;
            for (size_t i = 0; i < t->count; i++) {
                for (uint32_t part = 0; part < cut->parts && t->vectors[i] != NULL; part++) {
                    double term = (double)t->numbers[i * cut->parts + part] *
                                  padded(t->vectors[i], cut, part, start + x);
                    sum += term;
                    magnitude += fabs(term);
                }
            }
            assert_sum(z[x], sum, magnitude, t->count * cut->parts);
        }
        assert_true(z[length] == GUARD);
    }
}

static void check_decode(const trial *t, bool add)
{
    const layout *cut = &t->cut;
    OWNED(float) estimate = checked_malloc((cut->dimension + 1) * sizeof(*estimate));
    for (size_t x = 0; x < cut->dimension; x++)
        estimate[x] = add ? 2 : NAN;
    estimate[cut->dimension] = GUARD;
    for (uint32_t stripe = 0; stripe < cut->stripes; stripe++) {
        const float *z[MAX_COUNT];
        for (size_t j = 0; j < t->count; j++)
            z[j] = t->vectors[j] + layout_stripe_start(cut, stripe);
        transfer_decode(t->kernel, cut, stripe, z, t->numbers, t->count, add, estimate);
    }
    for (size_t place = 0; place < cut->dimension; place++) {
        size_t part = place / cut->part_length, x = place % cut->part_length;
        double sum = add ? 2 : 0, magnitude = sum;
        for (size_t j = 0; j < t->count; j++) {
            double term = (double)t->numbers[part * t->count + j] * (double)t->vectors[j][x];
            sum += term;
            magnitude += fabs(term);
        }
        assert_sum(estimate[place], sum, magnitude, t->count);
    }
    assert_true(estimate[cut->dimension] == GUARD);
}

/* The random settings: d from far below l to several blocks, stripes of 1, odd and whole parts. */
static layout random_layout(random_stream *stream)
{
    static const uint32_t limits[] = {4, 30, 300, 9000};
    size_t dimension = 1 + random_below(stream, limits[random_below(stream, 4)]);
    uint32_t parts = 1 + random_below(stream, 6);
    size_t stripe = 65536;
    if (dimension < 300 && random_below(stream, 3) == 0)
        stripe = 1;
    else if (random_below(stream, 2) == 0)
        stripe = 7 + 2 * (size_t)random_below(stream, 800);
    return layout_make(dimension, parts, stripe);
}

TEST(encoding_is_the_dense_sum)
{
    uint64_t seed = test_seed("encode", 1);
    for (size_t index = 0; kernel_at(index) != NULL; index++) {
        for (uint32_t round = 0; round < 200; round++) {
            random_stream stream = random_stream_make(seed, RANDOM_TEST, round, 0);
            layout cut = random_layout(&stream);
            OWNED(trial) t;
            trial_init(&t, kernel_at(index), cut, random_below(&stream, MAX_COUNT + 1),
                       cut.dimension, &stream);
            for (size_t i = 0; i < t.count; i += 3) { /* not computed: no gradient at all */
                memset(t.numbers + i * cut.parts, 0, cut.parts * sizeof(float));
                free(t.vectors[i]);
                t.vectors[i] = NULL;
            }
            check_encode(&t);
        }
    }
}

TEST(decoding_is_the_dense_sum)
{
    uint64_t seed = test_seed("decode", 2);
    for (size_t index = 0; kernel_at(index) != NULL; index++) {
        for (uint32_t round = 0; round < 200; round++) {
            random_stream stream = random_stream_make(seed, RANDOM_TEST, round, 1);
            layout cut = random_layout(&stream);
            OWNED(trial) t;
            trial_init(&t, kernel_at(index), cut, random_below(&stream, MAX_COUNT + 1),
                       cut.part_length, &stream);
            check_decode(&t, false);
            check_decode(&t, true);
        }
    }
}

/* Long gradients are stored past the cache, by the same sums. */
TEST(long_gradients_are_summed_alike)
{
    uint64_t seed = test_seed("long", 6);
    for (uint32_t parts = 1; parts <= 3; parts++) {
        random_stream stream = random_stream_make(seed, RANDOM_TEST, parts, 2);
        layout cut = layout_make(((size_t)1 << 21) + 5, parts, 65536);
        OWNED(trial) t;
        trial_init(&t, kernel_best(), cut, 2, cut.dimension, &stream);
        check_encode(&t);
        check_decode(&t, false);
        check_decode(&t, true);
    }
}
