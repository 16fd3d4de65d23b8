/* SPDX-License-Identifier: Apache-2.0 */
/* A sum among members, made from a seed, and the slow oracle that judges it. */
#ifndef TEST_SUM_CASE_H
#define TEST_SUM_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/compress.h>

#include "test.h"

typedef struct sum_case {
    size_t dimension;
    uint32_t parts;
    uint32_t count; /* of members */
    float **
        part; /* [count]: ceil(dimension / parts) numbers each, zeros beyond the sum; NULL: zeros */
    float *weights; /* parts x count */
    float *sum;     /* the oracle's, worked out once for all who are held to it */
} sum_case;

/* Random coded parts and weights; every third member or so has zeros if `zeros`. Asserts that there
 * is memory. */
sum_case *sum_case_make(size_t dimension, uint32_t parts, uint32_t count, bool zeros,
                        uint64_t seed);
void sum_case_free(sum_case *of);
OWNED_BY(sum_case, sum_case_free)

/* Asserts that `sum` is the case's: to the bit the one that the best kernel makes of one number at
 * a time, in the order of members; which is near the sum in double. */
void sum_case_check(const sum_case *of, const float *sum);
/* The forms in which numbers of a sum travel; all zeros: float32. */
typedef struct sum_case_forms {
    tarry_compress up, down;
    uint32_t exact;
    uint64_t seed;
} sum_case_forms;

/* Those that tests of engines try. */
enum { SUM_CASE_TRIED = 6, SUM_CASE_BOTH_INT8 = SUM_CASE_TRIED - 1 };
extern const sum_case_forms sum_case_tried[SUM_CASE_TRIED];

/*
 * Asserts that numbers first .. last - 1 of a sum of one part are what its forms may give: each
 * term rounded once, but for that of whoever summed it, and their sum once. Of BF16, and of what is
 * exact, to the bit; of INT8 by less than a step for each that was rounded.
 */
void sum_case_check_rounded(const sum_case *of, const sum_case_forms *forms, const float *sum,
                            size_t first, size_t last);
/* The same of an engine that adds up in its own way: what is exact is near the sum, and others are
 * off by less than a step for each time that they were rounded. */
void sum_case_check_rounded_near(const sum_case *of, const sum_case_forms *forms, const float *sum,
                                 size_t first, size_t last);
/* How many of the numbers are not the same, to the bit. */
size_t sum_case_differing(const float *one, const float *other, size_t count);
/* Whether it is, to the bit; for where an assertion can't be made. */
bool sum_case_holds(const sum_case *of, const float *sum);

/* What an engine says that has come of a sum, as it was then. */
typedef struct sum_watch {
    const float *sum;
    float *came;
    bool *told;
    bool again; /* a number came twice */
    size_t dimension;
} sum_watch;

sum_watch *sum_watch_make(const float *sum, size_t dimension);
/* A tarry_engine_sum's `came`; `user` is the watch. */
void sum_watch_came(void *user, size_t first, size_t count);
/* Asserts that each number came once, and is still the same. */
void sum_watch_check(const sum_watch *watch);
void sum_watch_free(sum_watch *watch); /* NULL is allowed */

#endif
