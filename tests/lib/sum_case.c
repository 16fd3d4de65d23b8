/* SPDX-License-Identifier: Apache-2.0 */
#include "sum_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "coding/kernel.h"

static float draw(random_stream *stream)
{
    return (float)random_normal(stream);
}

/* Number `place` as the best kernel sums it by itself. */
static float summed(const sum_case *of, size_t place)
{
    size_t length = (of->dimension + of->parts - 1) / of->parts;
    const float *weights = of->weights + place / length * of->count;
    float sum = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        if (of->part[i] == NULL)
            continue;
        const float *in = of->part[i] + place % length;
        kernel_best()->combine(&sum, &in, &weights[i], 1, 1, KERNEL_ADD);
    }
    return sum;
}

static bool is_near(const sum_case *of, size_t place, float value)
{
    size_t length = (of->dimension + of->parts - 1) / of->parts;
    double sum = 0, magnitude = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        if (of->part[i] == NULL)
            continue;
        double term = (double)of->weights[place / length * of->count + i] *
                      (double)of->part[i][place % length];
        sum += term;
        magnitude += fabs(term);
    }
    return fabs((double)value - sum) <= ((double)of->count + 2) * (double)FLT_EPSILON * magnitude;
}

sum_case *sum_case_make(size_t dimension, uint32_t parts, uint32_t count, bool zeros, uint64_t seed)
{
    random_stream stream = random_stream_make(seed, RANDOM_TEST, parts, count);
    size_t length = (dimension + parts - 1) / parts;
    sum_case *of = calloc(1, sizeof(*of));
    assert_non_null(of);
    *of = (sum_case){dimension,
                     parts,
                     count,
                     calloc(count, sizeof(float *)),
                     calloc((size_t)parts * count, sizeof(float)),
                     calloc(dimension, sizeof(float))};
    assert_true(of->part != NULL && of->weights != NULL && of->sum != NULL);
    for (uint32_t i = 0; i < count; i++) {
        if (zeros && random_below(&stream, 3) == 0)
            continue;
        of->part[i] = malloc(length * sizeof(float));
        assert_non_null(of->part[i]);
        for (size_t x = 0; x < length; x++)
            of->part[i][x] = draw(&stream);
    }
    for (size_t i = 0; i < (size_t)parts * count; i++)
        of->weights[i] = draw(&stream);
    for (size_t place = 0; place < dimension; place++) {
        of->sum[place] = summed(of, place);
        assert_true(is_near(of, place, of->sum[place]));
    }
    return of;
}

void sum_case_free(sum_case *of)
{
    for (uint32_t i = 0; i < of->count; i++)
        free(of->part[i]);
    free(of->part);
    free(of->weights);
    free(of->sum);
    free(of);
}

bool sum_case_holds(const sum_case *of, const float *sum)
{
    return memcmp(sum, of->sum, of->dimension * sizeof(float)) == 0;
}

void sum_case_check_behind(const sum_case *before, const sum_case *of, size_t whole,
                           const float *sum)
{
    size_t length = (of->dimension + of->parts - 1) / of->parts;
    for (size_t place = 0; place < of->dimension; place++) {
        const sum_case *by = place % length < whole ? before : of;
        if (memcmp(&sum[place], &by->sum[place], sizeof(float)) == 0)
            continue;
        print_error("%u members, %u parts: number %zu of %zu is %.9g, not %.9g\n", by->count,
                    of->parts, place, of->dimension, (double)sum[place], (double)by->sum[place]);
        fail();
    }
}

void sum_case_check_near(const sum_case *of, const float *sum)
{
    for (size_t place = 0; place < of->dimension; place++) {
        if (is_near(of, place, sum[place]))
            continue;
        print_error("%u members, %u parts: number %zu of %zu is %.9g, not near %.9g\n", of->count,
                    of->parts, place, of->dimension, (double)sum[place], (double)of->sum[place]);
        fail();
    }
}

void sum_case_check(const sum_case *of, const float *sum)
{
    sum_case_check_behind(of, of, 0, sum);
}

sum_watch *sum_watch_make(const float *sum, size_t dimension)
{
    sum_watch *watch = malloc(sizeof(*watch));
    assert_non_null(watch);
    *watch = (sum_watch){
        .sum = sum,
        .came = malloc(dimension * sizeof(float)),
        .told = calloc(dimension, sizeof(bool)),
        .dimension = dimension,
    };
    assert_non_null(watch->came);
    assert_non_null(watch->told);
    return watch;
}

/* By the engine's thread, which must not leave by an assertion of a test. */
void sum_watch_came(void *user, size_t first, size_t count)
{
    sum_watch *watch = user;
    memcpy(watch->came + first, watch->sum + first, count * sizeof(float));
    for (size_t x = first; x < first + count; x++) {
        watch->again = watch->again || watch->told[x];
        watch->told[x] = true;
    }
}

void sum_watch_check(const sum_watch *watch)
{
    sum_watch_check_behind(watch, watch->dimension, 0);
}

void sum_watch_check_behind(const sum_watch *watch, size_t stride, size_t whole)
{
    assert_false(watch->again);
    for (size_t x = 0; x < watch->dimension; x++) {
        assert_int_equal(watch->told[x], x % stride >= whole);
        if (watch->told[x])
            assert_memory_equal(&watch->came[x], &watch->sum[x], sizeof(float));
    }
}

void sum_watch_free(sum_watch *watch)
{
    if (watch == NULL)
        return;
    free(watch->told);
    free(watch->came);
    free(watch);
}
