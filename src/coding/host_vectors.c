/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors in host memory: the library's own owner, and digests of what is there. */
#include <tarry/vectors.h>

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "base/mix.h"
#include "coding/kernel.h"
#include "coding/vector_digest.h"

/* Places that are there must not move while others are added, nor what names them: block b of the
 * table has 2^b places, from 2^b - 1 on. */
enum { BLOCKS = 31 };

typedef struct host_vectors {
    tarry_vectors base;
    tarry_allocator allocator;
    const kernel *kernels;
    size_t dimension;
    tarry_element element;
    uint32_t places;
    float **block[BLOCKS];
} host_vectors;

static host_vectors *host_of(tarry_vectors *vectors)
{
    return (host_vectors *)vectors;
}

static unsigned block_of(uint32_t place)
{
    return 31 - (unsigned)__builtin_clz(place + 1);
}

static float **entry(const host_vectors *own, uint32_t place)
{
    const unsigned block = block_of(place);
    return &own->block[block][place + 1 - (UINT32_C(1) << block)];
}

static size_t number_bytes(const host_vectors *own)
{
    return own->element == TARRY_ELEMENT_FLOAT64 ? sizeof(double) : sizeof(float);
}

static void release_from(host_vectors *own, uint32_t first)
{
    while (own->places > first)
        vector_release(&own->allocator, *entry(own, --own->places));
}

static int add_place(host_vectors *own)
{
    const unsigned block = block_of(own->places);
    if (block >= BLOCKS || own->dimension > SIZE_MAX / sizeof(double))
        return TARRY_ERROR_NO_MEMORY;
    if (own->block[block] == NULL)
        own->block[block] =
            memory_allocate(&own->allocator, (size_t)1 << block, sizeof(*own->block[block]));
    if (own->block[block] == NULL)
        return TARRY_ERROR_NO_MEMORY;
    float *numbers =
        vector_allocate(&own->allocator, own->dimension * (number_bytes(own) / sizeof(*numbers)));
    if (numbers == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *entry(own, own->places++) = numbers;
    return TARRY_OK;
}

static int host_reserve(tarry_vectors *vectors, uint32_t places, size_t dimension,
                        tarry_element element)
{
    host_vectors *own = host_of(vectors);
    if (dimension != own->dimension || element != own->element)
        release_from(own, 0);
    own->dimension = dimension;
    own->element = element;
    const uint32_t before = own->places;
    int error = TARRY_OK;
    while (own->places < places && error == TARRY_OK)
        error = add_place(own);
    if (error != TARRY_OK)
        release_from(own, before);
    return error;
}

/* ---- arithmetic ---- */

enum {
    GROUP = 16,   /* inputs of a call of a kernel */
    BLOCK = 8192, /* numbers that stay in a cache while groups of inputs take turns */
};

/* As a kernel, of float64. */
static void combine_doubles(double *out, const void *const *in, const float *coefficients,
                            size_t inputs, size_t length, kernel_mode mode)
{
    enum { STEP = 512 };
    for (size_t start = 0; start < length; start += STEP) {
        const size_t count = length - start < STEP ? length - start : STEP;
        if (mode != KERNEL_ADD)
            memset(out + start, 0, count * sizeof(*out));
        for (size_t k = 0; k < inputs; k++) {
            const double *numbers = (const double *)in[k] + start;
            for (size_t x = 0; x < count; x++)
                out[start + x] += (double)coefficients[k] * numbers[x];
        }
    }
}

/* What a combination is of. */
typedef struct terms {
    uint32_t into, base;
    const uint32_t *places;
    const float *coefficients;
    uint32_t count;
} terms;

/* The numbers start .. start + length - 1 of it. */
static void combine_range(const host_vectors *own, const terms *of, size_t start, size_t length,
                          kernel_mode mode)
{
    const void *in[GROUP];
    float times[GROUP];
    char *out = (char *)*entry(own, of->into) + start * number_bytes(own);
    uint32_t taken = 0;
    do {
        size_t inputs = 0;
        if (mode != KERNEL_ADD && of->base != TARRY_NO_PLACE) {
            in[inputs] = (char *)*entry(own, of->base) + start * number_bytes(own);
            times[inputs++] = 1;
        }
        for (; taken < of->count && inputs < GROUP; taken++) {
            in[inputs] = (char *)*entry(own, of->places[taken]) + start * number_bytes(own);
            times[inputs++] = of->coefficients[taken];
        }
        if (own->element == TARRY_ELEMENT_FLOAT64)
            combine_doubles((double *)out, in, times, inputs, length, mode);
        else
            own->kernels->combine((float *)out, (const float *const *)in, times, inputs, length,
                                  mode);
        mode = KERNEL_ADD;
    } while (taken < of->count);
}

static int host_combine(tarry_vectors *vectors, uint32_t into, uint32_t base,
                        const uint32_t *places, const float *coefficients, uint32_t count)
{
    const host_vectors *own = host_of(vectors);
    const terms of = {into, base, places, coefficients, count};
    const bool whole = count < GROUP; /* one call of a kernel */
    const kernel_mode overwrite = whole ? kernel_overwrite(own->dimension) : KERNEL_SET;
    const size_t step = whole ? own->dimension : BLOCK;
    for (size_t start = 0; start < own->dimension; start += step) {
        const size_t left = own->dimension - start;
        combine_range(own, &of, start, left < step ? left : step,
                      base == into ? KERNEL_ADD : overwrite);
    }
    return TARRY_OK;
}

static int host_digest(tarry_vectors *vectors, uint32_t place, uint64_t step, uint64_t *digest)
{
    const host_vectors *own = host_of(vectors);
    const void *numbers = *entry(own, place);
    *digest = own->element == TARRY_ELEMENT_FLOAT64
                  ? vector_digest_doubles(step, numbers, own->dimension)
                  : vector_digest(step, numbers, own->dimension);
    return TARRY_OK;
}

/* ---- numbers ---- */

static void *number_at(tarry_vectors *vectors, uint32_t place, size_t first)
{
    const host_vectors *own = host_of(vectors);
    return (char *)*entry(own, place) + first * number_bytes(own);
}

static int host_read(tarry_vectors *vectors, uint32_t place, size_t first, size_t count,
                     void *numbers)
{
    memcpy(numbers, number_at(vectors, place, first), count * number_bytes(host_of(vectors)));
    return TARRY_OK;
}

static int host_write(tarry_vectors *vectors, uint32_t place, size_t first, size_t count,
                      const void *numbers)
{
    memcpy(number_at(vectors, place, first), numbers, count * number_bytes(host_of(vectors)));
    return TARRY_OK;
}

static void *host_numbers(tarry_vectors *vectors, uint32_t place)
{
    return *entry(host_of(vectors), place);
}

/* ---- the owner ---- */

static void host_free(tarry_vectors *vectors)
{
    host_vectors *own = host_of(vectors);
    const tarry_allocator allocator = own->allocator;
    release_from(own, 0);
    for (unsigned block = 0; block < BLOCKS; block++)
        memory_release(&allocator, own->block[block]);
    memory_release(&allocator, own);
}

static const tarry_vectors_methods methods = {
    .name = "host",
    .reserve = host_reserve,
    .combine = host_combine,
    .digest = host_digest,
    .read = host_read,
    .write = host_write,
    .host = host_numbers,
    .free = host_free,
};

int tarry_host_vectors_create(const tarry_allocator *allocator, tarry_vectors **vectors)
{
    host_vectors *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *made = (host_vectors){
        .base.methods = &methods,
        .allocator = memory_allocator(allocator),
        .kernels = kernel_best(),
    };
    *vectors = &made->base;
    return TARRY_OK;
}

/* ---- digests: vector_digest.h ---- */

static uint64_t mix_numbers(const float *numbers, size_t first, size_t count, uint64_t key)
{
    const kernel *with = kernel_best();
    uint64_t sum = with->mix(numbers + first, first / 2, count / 2, key);
    if (count % 2 == 0)
        return sum;
    const float last[2] = {numbers[first + count - 1], 0};
    return sum + with->mix(last, (first + count) / 2, 1, key);
}

static uint64_t finish(uint64_t sum, uint64_t key, size_t dimension)
{
    return mix_u64(sum ^ mix_u64(key + dimension));
}

void vector_digester_begin(vector_digester *self, uint64_t step, const float *numbers,
                           size_t dimension)
{
    *self = (vector_digester){.numbers = numbers, .dimension = dimension, .key = mix_u64(step)};
}

void vector_digester_add(vector_digester *self, size_t first, size_t count)
{
    assert(count <= self->dimension && first <= self->dimension - count);
    if (first % 2 != 0 || (count % 2 != 0 && first + count < self->dimension))
        return;
    self->sum += mix_numbers(self->numbers, first, count, self->key);
    self->told += count;
}

uint64_t vector_digester_end(const vector_digester *self)
{
    uint64_t sum = self->told == self->dimension
                       ? self->sum
                       : mix_numbers(self->numbers, 0, self->dimension, self->key);
    return finish(sum, self->key, self->dimension);
}

uint64_t vector_digest(uint64_t step, const float *numbers, size_t dimension)
{
    vector_digester own;
    vector_digester_begin(&own, step, numbers, dimension);
    return vector_digester_end(&own);
}

uint64_t vector_digest_bytes(const void *bytes, size_t size)
{
    const kernel *with = kernel_best();
    const uint64_t key = mix_u64(0);
    uint8_t last[8] = {0};
    memcpy(last, (const uint8_t *)bytes + size / 8 * 8, size % 8);
    uint64_t sum = with->mix(bytes, 0, size / 8, key) + with->mix(last, size / 8, 1, key);
    return mix_u64(sum ^ mix_u64(key + size));
}

uint64_t vector_digest_doubles(uint64_t step, const double *numbers, size_t dimension)
{
    const uint64_t key = mix_u64(step);
    return finish(kernel_best()->mix(numbers, 0, dimension, key), key, dimension);
}
