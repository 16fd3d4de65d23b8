/* SPDX-License-Identifier: Apache-2.0 */
#include "sum_case.h"

#include <float.h>
#include <math.h>

#include "coding/kernel.h"
#include "compress/compress.h"
#include "draw.h"
#include "test.h"

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

enum { EXACT = 37 };

const sum_case_forms sum_case_tried[SUM_CASE_TRIED] = {
    {TARRY_COMPRESS_BF16, TARRY_COMPRESS_NONE, 0, 1},
    {TARRY_COMPRESS_NONE, TARRY_COMPRESS_BF16, EXACT, 1},
    {TARRY_COMPRESS_BF16, TARRY_COMPRESS_BF16, EXACT, 1},
    {TARRY_COMPRESS_INT8, TARRY_COMPRESS_NONE, EXACT, 1},
    {TARRY_COMPRESS_NONE, TARRY_COMPRESS_INT8, 0, 1},
    {TARRY_COMPRESS_INT8, TARRY_COMPRESS_INT8, EXACT, 1},
};

sum_case *sum_case_make(size_t dimension, uint32_t parts, uint32_t count, bool zeros, uint64_t seed)
{
    random_stream stream = random_stream_make(seed, RANDOM_TEST, parts, count);
    size_t length = (dimension + parts - 1) / parts;
    sum_case *of = checked_calloc(1, sizeof(*of));
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
        of->part[i] = checked_malloc(length * sizeof(float));
        for (size_t x = 0; x < length; x++)
            of->part[i][x] = draw_float(&stream);
    }
    for (size_t i = 0; i < (size_t)parts * count; i++)
        of->weights[i] = draw_float(&stream);
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

void sum_case_check(const sum_case *of, const float *sum)
{
    for (size_t place = 0; place < of->dimension; place++) {
        if (memcmp(&sum[place], &of->sum[place], sizeof(float)) == 0)
            continue;
        print_error("%u members, %u parts: number %zu of %zu is %.9g, not %.9g\n", of->count,
                    of->parts, place, of->dimension, (double)sum[place], (double)of->sum[place]);
        fail();
    }
}

static float to_bf16(float number)
{
    const compress_form form = {.kind = TARRY_COMPRESS_BF16};
    uint8_t bytes[2];
    float found = 0;
    compress_encode(form, &number, 1, 0, bytes);
    compress_decode_add(form, bytes, 1, 1, &found);
    return found;
}

/* The number as it is where member `owner` sums it, of what is not rounded by chance. */
static float summed_by(const sum_case *of, const sum_case_forms *forms, size_t place,
                       uint32_t owner)
{
    bool exact = of->count == 1 || place + forms->exact >= of->dimension;
    float sum = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        if (of->part[i] == NULL)
            continue;
        float term = of->part[i][place];
        const float *in = &term;
        if (i != owner && forms->up != TARRY_COMPRESS_NONE && !exact)
            term = to_bf16(term);
        kernel_best()->combine(&sum, &in, &of->weights[i], 1, 1, KERNEL_ADD);
    }
    return exact || forms->down == TARRY_COMPRESS_NONE ? sum : to_bf16(sum);
}

/* *owner: of the number before, which has the same one as a rule. */
static bool is_of_some_owner(const sum_case *of, const sum_case_forms *forms, size_t place,
                             float value, uint32_t *owner)
{
    for (uint32_t tried = 0; tried < of->count; tried++) {
        float found = summed_by(of, forms, place, *owner);
        if (memcmp(&found, &value, sizeof(found)) == 0)
            return true;
        *owner = (*owner + 1) % of->count;
    }
    return false;
}

static double largest(const float *numbers, size_t count)
{
    double most = 0;
    for (size_t i = 0; numbers != NULL && i < count; i++)
        most = fmax(most, fabs((double)numbers[i]));
    return most;
}

/* How far a number may be off that is at most `most`. */
static double step_of(tarry_compress form, double most)
{
    return form == TARRY_COMPRESS_INT8 ? most / 127 : form == TARRY_COMPRESS_BF16 ? most / 256 : 0;
}

static double most_off(const sum_case *of, const sum_case_forms *forms)
{
    double off = 0;
    for (uint32_t i = 0; i < of->count; i++)
        off +=
            fabs((double)of->weights[i]) * step_of(forms->up, largest(of->part[i], of->dimension));
    return (off + step_of(forms->down, largest(of->sum, of->dimension) + off)) * (1 + 1e-5);
}

void sum_case_check_rounded(const sum_case *of, const sum_case_forms *forms, const float *sum,
                            size_t first, size_t last)
{
    assert_int_equal(of->parts, 1);
    const double most = most_off(of, forms);
    bool chance = forms->up == TARRY_COMPRESS_INT8 || forms->down == TARRY_COMPRESS_INT8;
    uint32_t owner = 0;
    for (size_t place = first; place < last; place++) {
        bool known = !chance || of->count == 1 || place + forms->exact >= of->dimension;
        if (known ? is_of_some_owner(of, forms, place, sum[place], &owner)
                  : fabs((double)sum[place] - (double)of->sum[place]) <= most)
            continue;
        print_error("%u members, forms %d and %d: number %zu of %zu is %.9g, and was %.9g\n",
                    of->count, forms->up, forms->down, place, of->dimension, (double)sum[place],
                    (double)of->sum[place]);
        fail();
    }
}

void sum_case_check_rounded_near(const sum_case *of, const sum_case_forms *forms, const float *sum,
                                 size_t first, size_t last)
{
    assert_int_equal(of->parts, 1);
    const double most = most_off(of, forms);
    for (size_t place = first; place < last; place++) {
        bool exact = of->count == 1 || place + forms->exact >= of->dimension;
        if (is_near(of, place, sum[place]) ||
            (!exact && fabs((double)sum[place] - (double)of->sum[place]) <= most))
            continue;
        print_error("%u members, forms %d and %d: number %zu of %zu is %.9g, not near %.9g\n",
                    of->count, forms->up, forms->down, place, of->dimension, (double)sum[place],
                    (double)of->sum[place]);
        fail();
    }
}

size_t sum_case_differing(const float *one, const float *other, size_t count)
{
    size_t different = 0;
    for (size_t i = 0; i < count; i++)
        different += memcmp(&one[i], &other[i], sizeof(one[i])) != 0;
    return different;
}

sum_watch *sum_watch_make(const float *sum, size_t dimension)
{
    sum_watch *watch = checked_malloc(sizeof(*watch));
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
    assert_false(watch->again);
    for (size_t x = 0; x < watch->dimension; x++) {
        assert_true(watch->told[x]);
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
