/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weighted sums of vectors, the one operation behind encoding and decoding: out (+)= sum_k
 * coefficient[k] * in[k]. A reference in plain C, and variants for the instruction sets; which one
 * is chosen when the program runs.
 */
#ifndef CODING_KERNEL_H
#define CODING_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

typedef enum kernel_mode {
    KERNEL_SET,    /* out = sum; out is then read soon: ordinary stores */
    KERNEL_ADD,    /* out += sum */
    KERNEL_STREAM, /* out = sum; out is large and not read soon: stores that pass the cache by,
                      where there are any */
} kernel_mode;

/*
 * out[x] = [out[x] +] sum_{k < inputs} coefficients[k] * in[k][x] for x < length. Any alignment and
 * length; inputs may be 0 (SET and STREAM then zero out). out overlaps no input; inputs may repeat.
 */
typedef void kernel_combine(float *out, const float *const *in, const float *coefficients,
                            size_t inputs, size_t length, kernel_mode mode);

typedef struct kernel {
    const char *name; /* "reference", "avx2", "avx512" */
    kernel_combine *combine;
} kernel;

/* The index-th kernel that this processor can run,
 * from the reference (0) to the best; NULL past the last. */
const kernel *kernel_at(size_t index);
/* The best one. */
const kernel *kernel_best(void);

#endif
