/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to write and read the forms INT8 and INT4, which give the same bytes and numbers, to the
 * bit: plain C, and vector instructions where the processor has them. */
#ifndef COMPRESS_COMPRESS_INT_H
#define COMPRESS_COMPRESS_INT_H

#include <stddef.h>
#include <stdint.h>

enum {
    INT_BLOCK = 256,
    INT_SCALE_BYTES = 4,
    INT8_MOST = 127,
    INT4_MOST = 7,
    /* In the place of a number that is not finite. */
    INT8_ODD = -128,
    INT4_ODD = -8,
};

/* As compress_encode and compress_decode_add (compress.h). */
typedef struct compress_int_form {
    void (*put)(const float *numbers, size_t count, uint64_t key, uint8_t *bytes);
    void (*add)(const uint8_t *bytes, size_t count, float weight, float *out);
} compress_int_form;

typedef struct compress_int {
    const char *name; /* "reference", "avx2" */
    compress_int_form int8, int4;
} compress_int;

/* The index-th one that this processor can run, from the reference (0) to the best; NULL past the
 * last. */
const compress_int *compress_int_at(size_t index);
const compress_int *compress_int_best(void);

/* ---- for its own files ---- */

/* The reference's for one block of `count` numbers, of which the first is the `first`-th of all. */
void int8_put_block(const float *numbers, size_t count, uint64_t key, uint32_t first,
                    uint8_t *bytes);
void int8_add_block(const uint8_t *bytes, size_t count, float weight, float *out);
void int4_put_block(const float *numbers, size_t count, uint64_t key, uint32_t first,
                    uint8_t *bytes);
void int4_add_block(const uint8_t *bytes, size_t count, float weight, float *out);
/* The step of a block whose largest magnitude is `largest`, which is finite, and which becomes
 * `most` steps; and 1 over it. Both 0: its numbers count as zeros. */
float int_step(float largest, int most, float *inverse);
/* Bytes of a block of `count` numbers in INT4. */
static inline size_t int4_block_bytes(size_t count)
{
    return INT_SCALE_BYTES + (count + 1) / 2;
}

/* On x86-64 only; the caller has checked that the processor has AVX2. */
void int8_put_avx2(const float *numbers, size_t count, uint64_t key, uint8_t *bytes);
void int8_add_avx2(const uint8_t *bytes, size_t count, float weight, float *out);
void int4_put_avx2(const float *numbers, size_t count, uint64_t key, uint8_t *bytes);
void int4_add_avx2(const uint8_t *bytes, size_t count, float weight, float *out);

#endif
