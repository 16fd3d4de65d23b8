/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to write and read the form INT8, which give the same bytes and numbers, to the bit: plain C,
 * and vector instructions where the processor has them. */
#ifndef COMPRESS_COMPRESS_INT8_H
#define COMPRESS_COMPRESS_INT8_H

#include <stddef.h>
#include <stdint.h>

enum {
    INT8_BLOCK = 256,
    INT8_SCALE_BYTES = 4,
    INT8_MOST = 127,
};

/* As compress_encode and compress_decode_add (compress.h). */
typedef struct compress_int8 {
    const char *name; /* "reference", "avx2" */
    void (*put)(const float *numbers, size_t count, uint64_t key, uint8_t *bytes);
    void (*add)(const uint8_t *bytes, size_t count, float weight, float *out);
} compress_int8;

/* The index-th one that this processor can run, from the reference (0) to the best; NULL past the
 * last. */
const compress_int8 *compress_int8_at(size_t index);
const compress_int8 *compress_int8_best(void);

/* ---- for its own files ---- */

/* The reference's for one block of `count` numbers, of which the first is the `first`-th of all. */
void int8_put_block(const float *numbers, size_t count, uint64_t key, uint32_t first,
                    uint8_t *bytes);
void int8_add_block(const uint8_t *bytes, size_t count, float weight, float *out);
/* The step of a block whose largest magnitude is `most`, which is finite, and 1 over it; both 0:
 * its numbers count as zeros. */
float int8_step(float most, float *inverse);

/* On x86-64 only; the caller has checked that the processor has AVX2. */
void int8_put_avx2(const float *numbers, size_t count, uint64_t key, uint8_t *bytes);
void int8_add_avx2(const uint8_t *bytes, size_t count, float weight, float *out);

#endif
