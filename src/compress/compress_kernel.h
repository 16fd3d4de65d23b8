/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to write and read the forms BF16, INT8, INT4 and POWERSGD, which give the same bytes and
 * numbers, to the bit: plain C, and vector instructions where the processor has them. */
#ifndef COMPRESS_COMPRESS_KERNEL_H
#define COMPRESS_COMPRESS_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* As compress_encode and compress_decode_add (compress.h). */
typedef struct compress_way {
    void (*put)(const float *numbers, size_t count, uint64_t key, uint8_t *bytes);
    void (*add)(const uint8_t *bytes, size_t count, float weight, float *out);
} compress_way;

/* Of a matrix M and of the thin ones P (rows x rank) and Q (columns x rank). */
typedef struct lowrank_shape {
    size_t rank, rows, columns;
} lowrank_shape;

/* A block of POWERSGD (compress_lowrank.h): M row by row, thin matrices column by column, the one
 * that is sent as bytes. */
typedef struct lowrank_way {
    void (*put_left)(lowrank_shape of, const float *m, const float *right, uint8_t *bytes);
    void (*put_right)(lowrank_shape of, const float *m, const float *left, uint8_t *bytes);
    /* out += weight P Q^T; the one in `bytes` is NULL. */
    void (*add)(lowrank_shape of, const float *left, const float *right, const uint8_t *bytes,
                float weight, float *out);
} lowrank_way;

typedef struct compress_kernel {
    const char *name; /* "reference", "avx2", "avx512", "neon" */
    compress_way bf16, int8, int4;
    lowrank_way lowrank;
} compress_kernel;

/* The index-th one that this processor can run, from the reference (0) to the best; NULL past the
 * last. */
const compress_kernel *compress_kernel_at(size_t index);
const compress_kernel *compress_kernel_best(void);

/* ---- its variants ---- */

extern const compress_kernel compress_reference;
/* The caller has checked that the processor has what they need. */
extern const compress_kernel compress_avx2;   /* on x86-64 only: AVX2 */
extern const compress_kernel compress_avx512; /* on x86-64 only: AVX-512F and BW */
extern const compress_kernel compress_neon;   /* on arm64 only, whose processors all have it */

#endif
