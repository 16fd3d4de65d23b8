/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisson sampling of chunks: before a round chunk i is drawn with a chance p_i, by itself, and its
 * gradient g_i counts 1/p_i times. The mean of the sum over draws is sum_i g_i, whatever the
 * chances are, as long as each is above 0, and its variance sum_i (1/p_i - 1) |g_i|^2. For sum_i
 * p_i = K that is least with p_i = min(1, c |g_i|) (W. Chen, S. Horvath and P. Richtarik, Optimal
 * Client Sampling for Federated Learning, 2020).
 */
#ifndef PROTOCOL_SAMPLING_H
#define PROTOCOL_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

/* What a norm counts for at least, of the mean of those that are known: a chunk that became large
 * since is drawn at last, and no weight is much more than ten times n / K. */
#define SAMPLING_FLOOR 0.1

/*
 * Sets chances[0..count-1], each above 0 and at most 1, of sum `wanted` (0 < wanted <= count): in
 * proportion to the norms (>= 0, finite; below 0: not known, taken for the mean), or to the floor.
 * Where no norm is known, all known are 0, or `norms` is NULL: wanted / count each.
 */
void sampling_chances(const float *norms, uint32_t count, double wanted, double *chances);

/* Whether the chunk is drawn in the round, by its chance: a function of these and the seed. */
bool sampling_draws(uint64_t seed, uint64_t round, uint32_t chunk, double chance);

#endif
