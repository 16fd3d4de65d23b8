/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <Random123/philox.h>
#include <math.h>

random_stream random_stream_make(uint64_t seed, random_purpose purpose, uint32_t a, uint32_t b)
{
    return (random_stream){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, (uint32_t)purpose, a, b},
        .used = 4,
    };
}

void random_refill(random_stream *stream)
{
    const uint32_t *from = stream->counter;
    philox4x32_ctr_t counter = {{from[0], from[1], from[2], from[3]}};
    philox4x32_key_t key = {{stream->key[0], stream->key[1]}};
    philox4x32_ctr_t block = philox4x32(counter, key);
    for (unsigned word = 0; word < 4; word++)
        stream->block[word] = block.v[word];
    stream->counter[0]++;
    stream->used = 0;
}

/* D. Lemire, Fast random integer generation in an interval, 2019:
 * multiply, and reject the short remainder. */
uint32_t random_below(random_stream *stream, uint32_t bound)
{
    uint64_t product = (uint64_t)random_u32(stream) * bound;
    uint32_t low = (uint32_t)product;
    if (low < bound) {
        uint32_t threshold = (uint32_t)-bound % bound;
        while (low < threshold) {
            product = (uint64_t)random_u32(stream) * bound;
            low = (uint32_t)product;
        }
    }
    return (uint32_t)(product >> 32);
}

double random_exponential(random_stream *stream)
{
    return -log(random_uniform(stream));
}

/* Box and Muller; the second number of the pair is not kept,
 * so that a stream's state stays simple. */
double random_normal(random_stream *stream)
{
    double radius = sqrt(2 * random_exponential(stream));
    return radius * cos(6.283185307179586 * random_uniform(stream));
}

void random_shuffle(random_stream *stream, uint32_t *values, uint32_t count)
{
    for (uint32_t left = count; left > 1; left--) {
        uint32_t pick = random_below(stream, left);
        uint32_t value = values[pick];
        values[pick] = values[left - 1];
        values[left - 1] = value;
    }
}
