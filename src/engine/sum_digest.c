/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sum_digest.h"

#define XXH_STATIC_LINKING_ONLY /* a state that needs no allocation */
#include <xxhash.h>

#include "base/bytes.h"

uint64_t sum_digest(uint64_t step, const float *sum, size_t dimension)
{
    XXH3_state_t stripes;
    XXH3_INITSTATE(&stripes);
    XXH3_64bits_reset_withSeed(&stripes, step);
    for (size_t first = 0; first < dimension; first += SUM_DIGEST_STRIPE) {
        size_t left = dimension - first;
        size_t length = left < SUM_DIGEST_STRIPE ? left : SUM_DIGEST_STRIPE;
        uint8_t word[8];
        bytes_put(word, XXH3_64bits_withSeed(sum + first, length * sizeof(*sum), step),
                  sizeof(word));
        XXH3_64bits_update(&stripes, word, sizeof(word));
    }
    return XXH3_64bits_digest(&stripes);
}

uint64_t sum_digest_piece(uint64_t step, const float *sum, const layout *cut, size_t whole)
{
    XXH3_state_t parts;
    XXH3_INITSTATE(&parts);
    XXH3_64bits_reset_withSeed(&parts, step);
    for (uint32_t part = 0; part < cut->parts; part++) {
        uint8_t word[8];
        bytes_put(word, sum_digest(step, sum + part * cut->part_length, whole), sizeof(word));
        XXH3_64bits_update(&parts, word, sizeof(word));
    }
    return XXH3_64bits_digest(&parts);
}
