/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/vector_digest.h"

#include <assert.h>
#include <string.h>

#include "base/mix.h"
#include "coding/kernel.h"

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
