/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form POWERSGD: of a matrix its product with a thin one, which all share.
 *
 * The gradient is some matrices, one behind the other (compress_lowrank.matrices), and what is
 * none. Where a stripe of the part ends, so does a matrix: whole rows before and behind are
 * matrices of their own, a row that is torn is no matrix. With rank R, what has m rows and n
 * columns is worth it, a *block*, if R (m + n) <= m n. All else is float32, as it is.
 *
 * A block M is sent in turns (ACP-SGD: L. Zhang et al., Evaluation and optimization of gradient
 * compression for distributed deep learning, ICDCS 2023), with Q or P the block's factor, whose
 * columns are orthonormal, but for rounding:
 *
 *   in even rounds  P = M Q     (m x R), of Q (n x R), and counts as P Q^T
 *   in odd rounds   Q = M^T P   (n x R), of P (m x R), and counts as P Q^T
 *
 * So what is sent is linear in M, and what all send can be added up: it is that of the sum.
 *
 * A thin matrix is float32, column by column. In a stripe's bytes blocks and what lies between them
 * follow each other; so do the blocks' factors in the factor of the part.
 *
 * A number that is not finite, or a product beyond float32, makes all of its block infinite or NaN
 * that it is multiplied with: in even rounds its row, in odd ones its column.
 */
#ifndef COMPRESS_COMPRESS_LOWRANK_H
#define COMPRESS_COMPRESS_LOWRANK_H

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "compress/compress.h"

typedef struct lowrank_block {
    size_t first; /* in the part */
    size_t rows, columns;
    size_t factor; /* where its own begins in the part's */
} lowrank_block;

/* All zeros: at the beginning of a part. */
typedef struct lowrank_walk {
    uint32_t matrix;
    size_t begin; /* of that matrix in the part */
    size_t row;   /* of it, the next one */
    size_t factor;
} lowrank_walk;

/* The part's next block; false: there is none. `first` of `form` does not matter. */
bool lowrank_next(const compress_lowrank *form, lowrank_walk *walk, lowrank_block *block);

/* What is wrong with them, of a part with so many numbers that may be rounded; NULL: nothing.
 * `odd`, `first` and `factor` do not matter. */
const char *lowrank_fault(const compress_lowrank *form, uint64_t numbers);

/* What stands for a gradient of which only the length is known: one that is nearly square. */
tarry_matrix lowrank_square(uint64_t numbers);

/* Numbers of a factor of the whole part: as many as are needed in even rounds, or in odd ones. */
size_t lowrank_factor_numbers(const compress_lowrank *form);

/* As compress_encode and compress_decode_add (compress.h), of a stripe, or of a whole part. */
void lowrank_put(const compress_lowrank *form, const lowrank_way *way, const float *numbers,
                 size_t count, uint8_t *bytes);
void lowrank_add(const compress_lowrank *form, const lowrank_way *way, const uint8_t *bytes,
                 size_t count, float weight, float *out);

/*
 * What the server has of the form POWERSGD (compress_lowrank.h): the factor that all share in a
 * round. It is what came of the sum before, made orthonormal: of a sum S whose factor was Q the
 * next one is that of S Q, of one whose factor was P that of S^T P. So, as in a power iteration,
 * factors follow the largest singular vectors of sums. Where there was no sum before (at first, or
 * after a restart) it is drawn, from the seed and the blocks alone, and so is a column that the
 * others leave nothing of, or that is not finite.
 */

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
