/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/sampling.h"

#include <math.h>
#include <stddef.h>

#include "base/random.h"

/* The mean of the norms that are known; 0: none is, or they are 0. */
static double mean_of(const float *norms, uint32_t count)
{
    double sum = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; norms != NULL && i < count; i++) {
        known += norms[i] >= 0;
        sum += norms[i] >= 0 ? (double)norms[i] : 0;
    }
    return known > 0 ? sum / known : 0;
}

/* Makes `chances`, which are sizes above 0 now, chances of the sum `wanted`: the largest become 1
 * until what is left for the others, in proportion to their sizes, makes none of them more. */
static void scale(uint32_t count, double wanted, double *chances)
{
    double certain = 0;
    for (bool more = true; more;) {
        double open = 0;
        for (uint32_t i = 0; i < count; i++)
            open += chances[i] >= 0 ? chances[i] : 0;
        double times = open > 0 ? (wanted - certain) / open : 0;
        more = false;
        for (uint32_t i = 0; i < count; i++) {
            if (chances[i] < 0 || chances[i] * times < 1)
                continue;
            chances[i] = -1; /* certain */
            certain++;
            more = true;
        }
        for (uint32_t i = 0; !more && i < count; i++)
            chances[i] = chances[i] < 0 ? 1 : chances[i] * times;
    }
}

void sampling_chances(const float *norms, uint32_t count, double wanted, double *chances)
{
    double mean = mean_of(norms, count);
    for (uint32_t i = 0; i < count; i++) {
        bool known = mean > 0 && norms[i] >= 0;
        chances[i] = known ? fmax((double)norms[i] / mean, SAMPLING_FLOOR) : 1;
    }
    scale(count, wanted, chances);
}

bool sampling_draws(uint64_t seed, uint64_t round, uint32_t chunk, double chance)
{
    /* The purpose, the chunk and half of the round are a stream's; the other half is the key's. */
    random_stream stream =
        random_stream_make(seed ^ (round >> 32 << 32), RANDOM_SAMPLE, (uint32_t)round, chunk);
    return random_uniform(&stream) < chance;
}
