/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisson sampling of chunks: before a round each chunk is drawn with the chance p, by itself, and
 * its gradient g_i counts 1/p times. The mean of the sum over draws is sum_i g_i, and its variance
 * (1/p - 1) sum_i |g_i|^2.
 */
#ifndef PROTOCOL_SAMPLING_H
#define PROTOCOL_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the chunk is drawn in the round, by its chance: a function of these and the seed. */
bool sampling_draws(uint64_t seed, uint64_t round, uint32_t chunk, double chance);

#endif
