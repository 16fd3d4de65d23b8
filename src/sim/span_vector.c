/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/span_vector.h"

#include <math.h>

#include "base/random.h"

void span_vector_whole(uint64_t seed, uint64_t round, uint32_t origin, size_t dimension,
                       float *gradient)
{
    random_stream stream = random_stream_make(seed, RANDOM_SIMULATION, (uint32_t)round, origin);
    for (size_t i = 0; i < dimension; i++)
        gradient[i] = (float)random_normal(&stream);
}

/* The bridge's own numbers at the middle of stretch `index` of 2^level: the key tells stretches
 * apart. */
static random_stream middle_stream(uint64_t seed, uint64_t round, uint32_t origin, uint32_t level,
                                   uint64_t index)
{
    uint64_t node = (UINT64_C(1) << level) + index;
    return random_stream_make(seed ^ node << 32, RANDOM_SPAN, (uint32_t)round, origin);
}

/*
 * Adds `sign` times the bridge at place / of. It stands between the ends of a stretch that is
 * halved until the place is an end; in the middle of a stretch of length h the bridge is normal
 * around the mean of both ends, with variance h / 4.
 */
static void add_bridge(uint64_t seed, uint64_t round, const tarry_span *span, uint64_t place,
                       double sign, size_t dimension, double *scratch, double *sum)
{
    double *left = scratch, *right = scratch + dimension;
    if (place == 0)
        return;
    random_stream whole =
        random_stream_make(seed, RANDOM_SIMULATION, (uint32_t)round, span->origin);
    for (size_t i = 0; i < dimension; i++) {
        left[i] = 0;
        right[i] = (float)random_normal(&whole);
    }
    uint64_t begin = 0, length = span->of;
    for (uint32_t level = 0; begin + length != place; level++) {
        random_stream stream = middle_stream(seed, round, span->origin, level, begin / length);
        double deviation = sqrt((double)length / span->of) / 2;
        length /= 2;
        bool beyond = place > begin + length;
        double *end = beyond ? left : right;
        for (size_t i = 0; i < dimension; i++)
            end[i] = (left[i] + right[i]) / 2 + deviation * random_normal(&stream);
        begin += beyond ? length : 0;
    }
    for (size_t i = 0; i < dimension; i++)
        sum[i] += sign * right[i];
}

void span_vector_add(uint64_t seed, uint64_t round, tarry_span span, size_t dimension,
                     double *scratch, double *sum)
{
    add_bridge(seed, round, &span, (uint64_t)span.first + span.count, 1, dimension, scratch, sum);
    add_bridge(seed, round, &span, span.first, -1, dimension, scratch, sum);
}
