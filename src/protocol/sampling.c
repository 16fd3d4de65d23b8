/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/sampling.h"

#include "base/random.h"

bool sampling_draws(uint64_t seed, uint64_t round, uint32_t chunk, double chance)
{
    /* The purpose, the chunk and half of the round are a stream's; the other half is the key's. */
    random_stream stream =
        random_stream_make(seed ^ (round >> 32 << 32), RANDOM_SAMPLE, (uint32_t)round, chunk);
    return random_uniform(&stream) < chance;
}
