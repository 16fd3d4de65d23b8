/* SPDX-License-Identifier: Apache-2.0 */
/* What secure sums cost a worker: masks beside the processor's AES, numbers added to rings beside
 * its read bandwidth, digests and keys. */
#ifndef BENCH_MASKS_H
#define BENCH_MASKS_H

#include <stddef.h>
#include <stdint.h>

typedef struct bench_masks_settings {
    size_t dimension;    /* d >= 1 */
    uint32_t neighbours; /* >= 1: members that one shares masks with */
    uint32_t repeat;     /* >= 1 */
} bench_masks_settings;

/* Of words of 32 bits, or of 64; 1e9 numbers or words a second. */
typedef struct bench_ring {
    double mask;      /* one stream added to d words: mask_apply */
    double member;    /* all masks of a member, times its neighbours: secure_member_mask_numbers */
    double add;       /* d numbers added to d words: ring_add */
    double reference; /* the same in plain C */
    double sum;       /* d words added to d words: ring_sum */
    double read;      /* d words turned into numbers: ring_read */
} bench_ring;

/* The best of the repeats. */
typedef struct bench_masks {
    double read;      /* GB/s: numbers read from memory */
    double aes;       /* GB/s: AES-128 in counter mode, in the nearest cache */
    double sha256;    /* GB/s: a digest of d numbers */
    double pair_us;   /* to make a key pair */
    double secret_us; /* to agree on a secret */
    double key_us;    /* to derive a mask key */
    bench_ring rings[2];
} bench_masks;

/* Fills *out. All on one thread, in the same memory, with caches that were filled with something
 * else before each measurement; the measurements take turns. Errors: NO_MEMORY. */
int bench_masks_run(const bench_masks_settings *settings, bench_masks *out);

/* `tarry-bench masks`: argv[0] is "masks". Gives back the exit status. */
int command_bench_masks(int argc, char **argv);

#endif
