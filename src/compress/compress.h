/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of tarry/compress.h as bytes, little-endian, the same on every machine:
 *
 *   NONE  count float32
 *   BF16  count times the upper half of a float32, rounded to nearest, to even where two are near
 *   INT8  for each block of up to 256 numbers, the scale s (float32), and a byte q each, -127..127:
 *         the number is q s. s is the largest magnitude over 127, and a number x becomes
 *         floor(x / s + u), u uniform in [0, 1) by steps of 2^-16: its mean is x, to 2^-16 s. A
 *         block whose largest magnitude is below 127 FLT_MIN is zeros.
 *   INT4  for each such block the scale s, and half a byte each: a sign (the upper bit) and a level
 *         l, 0..7, of the number +-2^(l - 1) s, or 0 with l = 0. s is the largest magnitude over
 *         64. x becomes the one that |x| is 0.75 to 1.5 times of; what is below 0.75 s becomes 0.
 *         Two numbers a byte, the first of them in the lower half, and zeros beside the last of an
 *         odd number. Below 64 FLT_MIN a block is zeros.
 *   TOPK  for each block of up to 65536 numbers, n of them, the k = ceil(share n / 10^6) of the
 *         largest magnitudes (of equal ones the first); all others are 0. Their places, which
 *         ascend from 0 to n - 1, as Elias and Fano write them: with l the largest number for which
 *         n >> l is at least k (or 0), the l lowest bits of each place, one behind the other, and
 *         then k + ((n - 1) >> l) bits, of which place p, the j-th from 0, sets bit j + (p >> l);
 *         the first bit is the lowest of its byte, and zeros fill the last byte of either. Then
 *         these k numbers in INT4.
 *   SIGN  for each block of up to 256 numbers, the mean of their magnitudes (float32), and a bit
 *         each, 1 for those with a minus, the first of eight in the lowest bit of its byte: the
 *         number is that mean with that sign.
 *
 *   POWERSGD  compress_lowrank.h has it: float32, of thin matrices
 *
 * The last `exact` numbers are float32 in every form, behind the bytes of those before them.
 *
 * A number that is not finite stays so, and others are as without it: in BF16 it is what it was; in
 * INT8 it is the byte -128, and in INT4 the sign with level 0, to be read as NaN, of a block whose
 * scale has its sign bit set; in TOPK it counts as larger than all finite ones, and is NaN as in
 * INT4. In SIGN it makes
 * all numbers of its block NaN: there is no bit to say which it is.
 */
#ifndef COMPRESS_COMPRESS_H
#define COMPRESS_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/compress.h>

/* POWERSGD; else all zeros. What is borrowed outlives the form. */
typedef struct compress_lowrank {
    uint32_t rank;                /* 1..TARRY_COMPRESS_RANK_MOST */
    uint32_t count;               /* of the part's matrices, from its first number on: */
    const tarry_matrix *matrices; /* borrowed */
    size_t stripe;       /* numbers of a stripe of the part: no matrix goes on behind one */
    size_t first;        /* the numbers in question are those of the part from here on */
    bool odd;            /* of an odd round */
    const float *factor; /* the thin matrices that all share in it; borrowed */
} compress_lowrank;

typedef struct compress_form {
    tarry_compress kind;
    uint32_t share; /* TOPK: in millionths, 1..TARRY_COMPRESS_SHARE_MOST; else 0 */
    uint32_t exact; /* the last so many numbers, as far as there are so many, are as they were */
    compress_lowrank low;
} compress_form;

/* The form of numbers first .. first + count - 1 of a part of `length` numbers, `form` being that
 * of the whole part. */
static inline compress_form compress_within(compress_form form, size_t length, size_t first,
                                            size_t count)
{
    size_t behind = length - first - count;
    form.exact = form.exact > behind ? form.exact - (uint32_t)behind : 0;
    form.low.first += first;
    return form;
}

/* Whether what it rounds away is to be kept for the next time. */
static inline bool compress_feeds_back(tarry_compress kind)
{
    return kind == TARRY_COMPRESS_INT4 || kind == TARRY_COMPRESS_TOPK ||
           kind == TARRY_COMPRESS_SIGN || kind == TARRY_COMPRESS_POWERSGD;
}

/* The bytes of `count` numbers in the form; more than 4 count only of INT8 and INT4 with one or two
 * numbers, and of TOPK and SIGN with one. */
size_t compress_bytes(compress_form form, size_t count);

/* What stripe `stripe` of a part is rounded by: another key for other arguments. */
uint64_t compress_key(uint64_t seed, uint64_t round, uint32_t attempt, uint32_t worker,
                      uint32_t stripe);

/* Writes numbers[0..count-1] in the form, compress_bytes of them; INT8 rounds by the key, and by
 * nothing else. */
void compress_encode(compress_form form, const float *numbers, size_t count, uint64_t key,
                     uint8_t *bytes);

/* out[i] += weight * (the i-th of `count` numbers that `bytes` holds). Any bytes are numbers. */
void compress_decode_add(compress_form form, const uint8_t *bytes, size_t count, float weight,
                         float *out);

/* Numbers after which the form begins anew, so that from a multiple of it on they can be read by
 * themselves; POWERSGD: it never does. */
size_t compress_piece(compress_form form);
/* The same of numbers first .. first + some - 1 of these, into out[0..some-1]; first: a multiple of
 * compress_piece. */
void compress_decode_add_some(compress_form form, const uint8_t *bytes, size_t count, size_t first,
                              size_t some, float weight, float *out);

/* Ways to write and read the forms BF16, INT8, INT4 and POWERSGD, which give the same bytes and
 * numbers, to the bit: plain C, and vector instructions where the processor has them. */

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
