/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The integers mod 2^w in which secure sums are made. A number g counts as the whole number nearest
 * to 2^f g, after g was clamped to -B..B; ties go to the even one. As long as 2^f B N < 2^(w-1) for
 * the N chunks of a plan, no sum of them wraps.
 *
 * Words are w/8 bytes each, little-endian, at any address. Nothing here branches on numbers or
 * words, or takes time that depends on them.
 */
#ifndef PRIVACY_RING_H
#define PRIVACY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ring {
    uint32_t bits;    /* w: 32 or 64 */
    int32_t fraction; /* f: -RING_MOST_FRACTION..RING_MOST_FRACTION */
    double bound;     /* B: positive and finite; as large as the least normal float at least */
} ring;

/* Whether the ring is one, and no sum of that many chunks, 1 or more, can wrap. */
bool ring_fits(const ring *of, uint64_t chunks);
/* The ring with the largest f that fits. False: there is none. */
bool ring_choose(uint32_t bits, double bound, uint64_t chunks, ring *out);

/* ---- of a ring that fits ---- */

/* The largest whole number that one number of a chunk may count as. */
uint64_t ring_most(const ring *of);

static inline size_t ring_bytes(const ring *of, size_t count)
{
    return of->bits / 8 * count;
}

/* words[i] += what numbers[i] counts as. Gives back how many numbers were clamped, or are not
 * finite: those count as 0. */
size_t ring_add(const ring *of, const float *numbers, size_t count, void *words);

/* sum[i] += words[i]. */
void ring_sum(const ring *of, const void *words, size_t count, void *sum);

/* numbers[i] = 2^-f words[i], of words with a sign, rounded once. With w = 32 numbers and words may
 * be the same memory; else they do not overlap. */
void ring_read(const ring *of, const void *words, size_t count, float *numbers);

/* words[at] += value; and the word itself: for counts. */
void ring_count(const ring *of, void *words, size_t at, uint64_t value);
uint64_t ring_word(const ring *of, const void *words, size_t at);

/* Ways to add numbers and words to words of a ring, which give the same to the bit: plain C, and
 * vector instructions where the processor has them. */

typedef struct ring_scale {
    float limit; /* the largest float up to B */
    float step;  /* 2^f */
} ring_scale;

ring_scale ring_scale_of(const ring *of);

/* As ring_add; words are of 32 bits, or of 64. */
typedef size_t ring_adder(const ring_scale *scale, const float *numbers, size_t count, void *words);

/* out += in, or -= in: `bytes` of words of `bits`, 32 or 64; they do not overlap. */
typedef void ring_summer(uint32_t bits, void *out, const void *in, size_t bytes, bool subtract);

typedef struct ring_kernel {
    const char *name; /* "reference", "avx2", "avx512" */
    ring_adder *add32, *add64;
    ring_summer *sum;
} ring_kernel;

/* The index-th one that this processor can run, from the reference (0) to the best; NULL past the
 * last. */
const ring_kernel *ring_kernel_at(size_t index);
const ring_kernel *ring_kernel_best(void);

/* ---- its variants ---- */

extern const ring_kernel ring_reference;
/* The caller has checked that the processor has what they need. */
extern const ring_kernel ring_avx2;   /* on x86-64 only: AVX2 */
extern const ring_kernel ring_avx512; /* on x86-64 only: AVX-512F and DQ */

#endif
