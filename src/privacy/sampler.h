/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisson sampling: each sample is in a round's batch with the same probability, by itself. Whether
 * it is depends on the key, the round and the sample alone, so that all copies of a chunk draw the
 * same samples, whoever works them out and in whatever pieces.
 */
#ifndef PRIVACY_SAMPLER_H
#define PRIVACY_SAMPLER_H

#include "privacy/keystream.h"

typedef struct sampler {
    double rate;                      /* the probability, 0..1 */
    uint8_t key[KEYSTREAM_KEY_BYTES]; /* secret, or nothing is gained from sampling */
} sampler;

/* Those of the samples first .. first + count - 1 that are in the round's batch, ascending:
 * *drawn of them, for which `samples` has room for `count`. 0, or -1 without memory. */
int sampler_draw(const sampler *of, uint64_t round, uint64_t first, size_t count, size_t *samples,
                 size_t *drawn);

#endif
