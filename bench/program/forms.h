/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading the forms of coded parts against what the machine can do: its read bandwidth,
 * and sums of float32. */
#ifndef BENCH_FORMS_H
#define BENCH_FORMS_H

#include <stddef.h>
#include <stdint.h>

#include "compress/compress.h"

enum {
    BENCH_FORMS = 8,          /* float32, and those that are shorter */
    BENCH_TOPK_SHARE = 10000, /* in millionths: what topk:0.01 sends */
};

typedef struct bench_forms_settings {
    size_t dimension; /* d >= 1 */
    uint32_t parts;   /* >= 1: that are summed */
    uint32_t repeat;  /* >= 1 */
    const compress_kernel *kernel;
} bench_forms_settings;

/* The best of the repeats. */
typedef struct bench_form {
    const char *name;
    double bytes;  /* a number */
    double encode; /* GB/s: 1e9 bytes of numbers read and of the form written; of float32 a copy */
    double add;    /* 1e9 numbers/s: a part is added to a vector of d numbers */
    double sum;    /* the same of `parts` parts, stripe by stripe, as a server makes a sum */
} bench_form;

typedef struct bench_forms {
    double read; /* GB/s of float32 */
    bench_form forms[BENCH_FORMS];
} bench_forms;

/* Fills *out. All on one thread, in the same memory, with caches that were filled with something
 * else before each measurement; the measurements take turns. Errors: NO_MEMORY. */
int bench_forms_run(const bench_forms_settings *settings, bench_forms *out);

/* `tarry-bench forms`: argv[0] is "forms". Gives back the exit status. */
int command_bench_forms(int argc, char **argv);

#endif
