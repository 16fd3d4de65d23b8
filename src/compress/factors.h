/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server has of the form POWERSGD (compress_lowrank.h): the factor that all share in a
 * round. It is what came of the sum before, made orthonormal: of a sum S whose factor was Q the
 * next one is that of S Q, of one whose factor was P that of S^T P. So, as in a power iteration,
 * factors follow the largest singular vectors of sums. Where there was no sum before (at first, or
 * after a restart) it is drawn, from the seed and the blocks alone, and so is a column that the
 * others leave nothing of, or that is not finite.
 */
#ifndef COMPRESS_FACTORS_H
#define COMPRESS_FACTORS_H

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "compress/compress.h"

typedef struct factors factors;

/* form: of whole parts; its `odd` and `factor` do not matter. Errors: NO_MEMORY. */
int factors_create(const compress_lowrank *form, uint64_t seed, const tarry_allocator *allocator,
                   factors **made);
void factors_free(factors *self); /* NULL is allowed */
/* Bytes that it takes. */
uint64_t factors_bytes(const compress_lowrank *form);

/* That of the round: lowrank_factor_numbers of them, zeros at the end where it needs fewer; the
 * same for each call until that round's sum is learned. Borrowed until the next call. */
const float *factors_of(factors *self, uint64_t round);
/* `sum` is that of `round`, in which workers had `used`, which may be rounded: the next round's
 * factor follows it. */
void factors_learn(factors *self, uint64_t round, const float *used, const float *sum);

#endif
