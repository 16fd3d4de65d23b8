/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples workers held under any of several plans, and how many are left that a number of
 * colluding workers never held, whoever they are.
 */
#ifndef PLAN_EXPOSURE_EXPOSURE_H
#define PLAN_EXPOSURE_EXPOSURE_H

#include "plan/plan.h"

typedef struct exposure exposure;

/* Nobody held anything. Errors: NO_MEMORY. */
int exposure_create(const tarry_allocator *allocator, exposure **self);
void exposure_free(exposure *self); /* NULL is allowed */

/* The worker holds the samples begin .. end - 1; more of them may have been held before. Errors:
 * NO_MEMORY, on which nothing changes. */
int exposure_add(exposure *self, uint32_t worker, uint64_t begin, uint64_t end);

/*
 * Every worker holds the samples of its chunks in the plan. samples: per original chunk, how many
 * it has (at most 2^32), one chunk after the other; NULL: PLAN_ORIGIN_WEIGHT each. All of them,
 * whoever holds them, are what is counted. Errors: NO_MEMORY, on which part of the plan may have
 * been added.
 */
int exposure_add_plan(exposure *self, const tarry_plan *plan, const uint64_t *samples);

/* Samples begin .. end - 1 of a worker. */
typedef struct exposure_range {
    uint64_t begin, end;
    uint32_t worker;
} exposure_range;

/* What is held, by worker and then by place: (*ranges)[0..count-1], of which none touch or are
 * empty; borrowed until more is added. Gives back the count. */
size_t exposure_ranges(exposure *self, const exposure_range **ranges);

typedef struct exposure_bound {
    uint64_t samples; /* that are held by anybody */
    uint64_t unheld;  /* of them, at least so many were never held by any set of the colluders */
    bool exact;       /* and for some set no more */
} exposure_bound;

/*
 * The bound for any set of `colluders` workers. The sets are gone through, the ones with the
 * largest loads first, and left out where even disjoint loads of the rest would not be worse than
 * what was found. If that takes more than `steps` looks at a worker and at a piece of what
 * it holds, the bound is what is
 * left without the largest loads, as if they had nothing in common: true, but it may not be exact.
 * Errors: NO_MEMORY.
 */
int exposure_unheld(exposure *self, uint32_t colluders, uint64_t steps, exposure_bound *bound);

/* About a second. */
#define EXPOSURE_STEPS UINT64_C(200000000)

#endif
