/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to whole vectors: weighted sums, the one operation behind encoding and decoding, out
 * (+)= sum_k coefficient[k] * in[k]; and digests. A reference in plain C, and variants for the
 * instruction sets; which one is chosen when the program runs.
 */
#ifndef CODING_KERNEL_H
#define CODING_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/*
 * The sum modulo 2^64, over words first .. first + count - 1 of a vector, of what each word comes
 * to at its place (vector_digest.h). `words` is the first of these; any alignment.
 */
typedef uint64_t kernel_mix(const void *words, uint64_t first, size_t count, uint64_t key);

typedef struct kernel {
    const char *name; /* "reference", "avx2", "avx512" */
    kernel_combine *combine;
    kernel_mix *mix;
} kernel;

/* Vectors of this length (8 MiB) are taken to be out of every cache by the time they are read:
 * measured over encoding and decoding together, docs/kernels.md. */
enum { KERNEL_STREAM_DIMENSION = 1 << 21 };

/* How all of a vector of so many numbers is overwritten. */
static inline kernel_mode kernel_overwrite(size_t dimension)
{
    return dimension >= KERNEL_STREAM_DIMENSION ? KERNEL_STREAM : KERNEL_SET;
}

/* The index-th kernel that this processor can run,
 * from the reference (0) to the best; NULL past the last. */
const kernel *kernel_at(size_t index);
/* The best one. */
const kernel *kernel_best(void);

#endif
