/* SPDX-License-Identifier: Apache-2.0 */
#include "vectors_case.h"

#include <math.h>

#include "base/memory.h"
#include "base/mix.h"
#include "base/random.h"
#include "seed.h"
#include "test.h"

/* ---- the cases ---- */

enum { PLACES = 20, MOST = 20000 };

/* A place as it should be. */
typedef struct mirror {
    double *numbers[PLACES];
    size_t dimension;
    tarry_element element;
} mirror;

static size_t number_bytes(tarry_element element)
{
    return element == TARRY_ELEMENT_FLOAT64 ? sizeof(double) : sizeof(float);
}

static double rounded(tarry_element element, double value)
{
    return element == TARRY_ELEMENT_FLOAT64 ? value : (double)(float)value;
}

static void put(tarry_element element, void *numbers, size_t i, double value)
{
    if (element == TARRY_ELEMENT_FLOAT64)
        ((double *)numbers)[i] = value;
    else
        ((float *)numbers)[i] = (float)value;
}

static double get(tarry_element element, const void *numbers, size_t i)
{
    return element == TARRY_ELEMENT_FLOAT64 ? ((const double *)numbers)[i]
                                            : (double)((const float *)numbers)[i];
}

static void write_place(tarry_vectors *vectors, mirror *own, uint32_t place, random_stream *stream)
{
    void *numbers = checked_malloc(own->dimension * number_bytes(own->element));
    for (size_t i = 0; i < own->dimension; i++) {
        own->numbers[place][i] = rounded(own->element, random_uniform(stream) - 0.5);
        put(own->element, numbers, i, own->numbers[place][i]);
    }
    assert_ok(vectors->methods->write(vectors, place, 0, own->dimension, numbers));
    free(numbers);
}

/* In ranges of which some are empty, and some begin at odd numbers. */
static void check_place(tarry_vectors *vectors, const mirror *own, uint32_t place, double error)
{
    void *numbers = checked_malloc(own->dimension * number_bytes(own->element));
    for (size_t first = 0, count = 0; first < own->dimension;
         first += count, count = 2 * count + 1) {
        if (count > own->dimension - first)
            count = own->dimension - first;
        assert_ok(vectors->methods->read(vectors, place, first, count, numbers));
        for (size_t i = 0; i < count; i++)
            if (!(fabs(get(own->element, numbers, i) - own->numbers[place][first + i]) <= error))
                fail_msg("'%s': place %u, number %zu of %zu: %g, not %g", vectors->methods->name,
                         place, first + i, own->dimension, get(own->element, numbers, i),
                         own->numbers[place][first + i]);
    }
    free(numbers);
}

static void combine(tarry_vectors *vectors, mirror *own, uint32_t into, uint32_t base,
                    const uint32_t *places, const float *coefficients, uint32_t count)
{
    assert_ok(vectors->methods->combine(vectors, into, base, places, coefficients, count));
    for (size_t i = 0; i < own->dimension; i++) {
        double sum = base == TARRY_NO_PLACE ? 0 : own->numbers[base][i];
        for (uint32_t k = 0; k < count; k++)
            sum = rounded(own->element, sum + (double)coefficients[k] * own->numbers[places[k]][i]);
        own->numbers[into][i] = sum;
    }
}

/* Sums by powers of 2 are rounded alike by all. */
static void check_combinations(tarry_vectors *vectors, mirror *own, random_stream *stream)
{
    const uint32_t counts[] = {0, 1, 2, 3, PLACES - 2, 40};
    const uint32_t bases[] = {TARRY_NO_PLACE, 0, 1};
    uint32_t places[40];
    float coefficients[40];
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (size_t b = 0; b < sizeof(bases) / sizeof(bases[0]); b++) {
            for (int powers = 0; powers < 2; powers++) {
                for (uint32_t k = 0; k < counts[c]; k++) {
                    places[k] = 1 + (uint32_t)random_below(stream, PLACES - 1);
                    coefficients[k] = powers ? ldexpf(1, -(int)(k % 5)) * (k % 3 == 1 ? -1 : 1)
                                             : (float)random_uniform(stream);
                }
                combine(vectors, own, 0, bases[b], places, coefficients, counts[c]);
                check_place(vectors, own, 0, powers ? 0 : 1e-5);
                write_place(vectors, own, 0, stream);
            }
        }
    }
}

/* As tarry/vectors.h and docs/wire.md say, word by word. */
static uint64_t slow_digest(const mirror *own, uint32_t place, uint64_t step)
{
    const size_t per_word = own->element == TARRY_ELEMENT_FLOAT64 ? 1 : 2;
    const uint64_t key = mix_u64(step);
    uint64_t sum = 0;
    for (size_t i = 0; i * per_word < own->dimension; i++) {
        uint64_t words[2] = {0}; /* the second one is for compilers that doubt per_word */
        for (size_t n = 0; n < per_word && i * per_word + n < own->dimension; n++)
            put(own->element, words, n, own->numbers[place][i * per_word + n]);
        const uint64_t v = words[0];
        uint64_t s = v + key + i * UINT64_C(0x9e3779b97f4a7c15);
        sum += (s & UINT32_MAX) * (s >> 32) + (v << 32 | v >> 32);
    }
    return mix_u64(sum ^ mix_u64(key + own->dimension));
}

static void check_digests(tarry_vectors *vectors, const mirror *own)
{
    for (uint64_t step = 0; step < 3; step++) {
        uint64_t digest = 0;
        assert_ok(vectors->methods->digest(vectors, 2, step, &digest));
        assert_true(digest == slow_digest(own, 2, step));
    }
}

/* Some numbers in the middle, beside others. */
static void check_writes(tarry_vectors *vectors, mirror *own)
{
    double three[3];
    if (own->dimension < 5)
        return;
    for (size_t first = 0; first + 3 <= own->dimension; first += own->dimension / 2 - 1) {
        for (size_t i = 0; i < 3; i++) {
            own->numbers[3][first + i] = (double)first + (double)i;
            put(own->element, three, i, (double)first + (double)i);
        }
        assert_ok(vectors->methods->write(vectors, 3, first, 3, three));
    }
    check_place(vectors, own, 3, 0);
}

/* Places that are there stay when others are added. */
static void check_growth(tarry_vectors *vectors, const mirror *own)
{
    const tarry_vectors_methods *methods = vectors->methods;
    void *before = methods->host != NULL ? methods->host(vectors, 4) : NULL;
    assert_ok(methods->reserve(vectors, 3 * PLACES, own->dimension, own->element));
    assert_ok(methods->reserve(vectors, 1, own->dimension, own->element));
    assert_true((methods->host != NULL ? methods->host(vectors, 4) : NULL) == before);
    for (uint32_t place = 0; place < PLACES; place++)
        check_place(vectors, own, place, 0);
}

static void check_host(tarry_vectors *vectors, const mirror *own)
{
    const tarry_vectors_methods *methods = vectors->methods;
    if (methods->host == NULL)
        return;
    for (uint32_t place = 0; place < PLACES; place++) {
        const void *numbers = methods->host(vectors, place);
        for (size_t i = 0; i < own->dimension; i++)
            assert_true(get(own->element, numbers, i) == own->numbers[place][i]);
    }
}

static void conform(tarry_vectors *vectors, size_t dimension, tarry_element element)
{
    random_stream stream = random_stream_make(test_seed("vectors", dimension), RANDOM_TEST, 0, 0);
    mirror own = {.dimension = dimension, .element = element};
    for (uint32_t place = 0; place < PLACES; place++)
        own.numbers[place] = checked_malloc(dimension * sizeof(double));
    assert_ok(vectors->methods->reserve(vectors, PLACES, dimension, element));
    for (uint32_t place = 0; place < PLACES; place++)
        write_place(vectors, &own, place, &stream);
    check_combinations(vectors, &own, &stream);
    check_digests(vectors, &own);
    check_writes(vectors, &own);
    check_host(vectors, &own);
    check_growth(vectors, &own);
    for (uint32_t place = 0; place < PLACES; place++)
        free(own.numbers[place]);
}

void vectors_conform(tarry_vectors *vectors, tarry_element element)
{
    const size_t dimensions[] = {1, 2, 5, 63, 1000, MOST};
    for (size_t i = 0; i < sizeof(dimensions) / sizeof(dimensions[0]); i++)
        conform(vectors, dimensions[i], element);
}

/* ---- an owner without host memory ---- */

typedef struct far_vectors {
    tarry_vectors base;
    tarry_allocator allocator;
    size_t dimension;
    tarry_element element;
    uint32_t places;
    double *numbers[3 * PLACES]; /* number i of a place is the negative of its i-th from the end */
} far_vectors;

static far_vectors *far_of(tarry_vectors *vectors)
{
    return (far_vectors *)vectors;
}

static double *far_number(const far_vectors *own, uint32_t place, size_t i)
{
    return &own->numbers[place][own->dimension - 1 - i];
}

static void far_release(far_vectors *own, uint32_t first)
{
    while (own->places > first)
        memory_release(&own->allocator, own->numbers[--own->places]);
}

static int far_reserve(tarry_vectors *vectors, uint32_t places, size_t dimension,
                       tarry_element element)
{
    far_vectors *own = far_of(vectors);
    const uint32_t before = own->places;
    if (places > 3 * PLACES)
        return TARRY_ERROR_ARGUMENT;
    if (dimension != own->dimension || element != own->element)
        far_release(own, 0);
    own->dimension = dimension;
    own->element = element;
    while (own->places < places) {
        double *made = memory_allocate(&own->allocator, dimension, sizeof(*made));
        if (made == NULL) {
            far_release(own, before);
            return TARRY_ERROR_NO_MEMORY;
        }
        own->numbers[own->places++] = made;
    }
    return TARRY_OK;
}

static int far_combine(tarry_vectors *vectors, uint32_t into, uint32_t base, const uint32_t *places,
                       const float *coefficients, uint32_t count)
{
    const far_vectors *own = far_of(vectors);
    for (size_t i = 0; i < own->dimension; i++) {
        double sum = base == TARRY_NO_PLACE ? 0 : *far_number(own, base, i);
        for (uint32_t k = 0; k < count; k++)
            sum = rounded(own->element,
                          sum + (double)coefficients[k] * *far_number(own, places[k], i));
        *far_number(own, into, i) = sum;
    }
    return TARRY_OK;
}

static int far_read(tarry_vectors *vectors, uint32_t place, size_t first, size_t count,
                    void *numbers)
{
    const far_vectors *own = far_of(vectors);
    for (size_t i = 0; i < count; i++)
        put(own->element, numbers, i, -*far_number(own, place, first + i));
    return TARRY_OK;
}

static int far_write(tarry_vectors *vectors, uint32_t place, size_t first, size_t count,
                     const void *numbers)
{
    const far_vectors *own = far_of(vectors);
    for (size_t i = 0; i < count; i++)
        *far_number(own, place, first + i) = -get(own->element, numbers, i);
    return TARRY_OK;
}

static int far_digest(tarry_vectors *vectors, uint32_t place, uint64_t step, uint64_t *digest)
{
    const far_vectors *own = far_of(vectors);
    mirror seen = {.dimension = own->dimension, .element = own->element};
    seen.numbers[0] = memory_allocate(&own->allocator, own->dimension, sizeof(double));
    if (seen.numbers[0] == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < own->dimension; i++)
        seen.numbers[0][i] = -*far_number(own, place, i);
    *digest = slow_digest(&seen, 0, step);
    memory_release(&own->allocator, seen.numbers[0]);
    return TARRY_OK;
}

static void far_free(tarry_vectors *vectors)
{
    far_vectors *own = far_of(vectors);
    const tarry_allocator allocator = own->allocator;
    far_release(own, 0);
    memory_release(&allocator, own);
}

static const tarry_vectors_methods far_methods = {
    .name = "far",
    .reserve = far_reserve,
    .combine = far_combine,
    .digest = far_digest,
    .read = far_read,
    .write = far_write,
    .free = far_free,
};

int far_vectors_create(const tarry_allocator *allocator, tarry_vectors **vectors)
{
    far_vectors *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->base.methods = &far_methods;
    made->allocator = memory_allocator(allocator);
    *vectors = &made->base;
    return TARRY_OK;
}
