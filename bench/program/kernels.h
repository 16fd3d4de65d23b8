/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding against what the machine can do: its read bandwidth, and BLAS. */
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coding/kernel.h"

enum { BENCH_LIST_MAX = 32 };

typedef struct bench_settings {
    size_t dimension; /* d >= 1 */
    uint32_t parts;   /* >= 1 */
    uint32_t repeat;  /* >= 1 */
    const kernel *kernel;
    bool packed; /* vectors follow each other without padding; else each begins at a page, as
                    vectors do that were allocated one by one */
    size_t inputs[BENCH_LIST_MAX]; /* each >= 1 */
    size_t input_count;            /* >= 1 */
} bench_settings;

/* The best of the repeats, in GB/s: 1e9 bytes of inputs read and outputs written. */
typedef struct bench_row {
    size_t inputs;
    double read;   /* of the inputs, d numbers each, one after the other */
    double sgemv;  /* cblas_sgemv: the inputs as columns of a d x inputs matrix, one thread */
    double stored; /* the kernel over the same, with ordinary stores */
    double encode; /* transfer_encode: the inputs, d numbers each, into one coded part */
    double decode; /* transfer_decode: that many coded parts into an estimate of d numbers */
} bench_row;

/*
 * Fills settings->input_count rows. All on one thread, in the same memory, with caches that were
 * filled with something else before each measurement; the measurements take turns, so that what
 * else the machine does hits all alike. Errors: NO_MEMORY.
 */
int bench_kernels_run(const bench_settings *settings, bench_row *rows);

/* `tarry-bench kernels`: argv[0] is "kernels". Gives back the exit status. */
int command_bench_kernels(int argc, char **argv);

#endif
