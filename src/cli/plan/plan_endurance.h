/* SPDX-License-Identifier: Apache-2.0 */
/* How many deaths of workers a plan survives, as tarry plan prints it. */
#ifndef CLI_PLAN_ENDURANCE_H
#define CLI_PLAN_ENDURANCE_H

#include <jansson.h>

#include <tarry/plan.h>

#define PLAN_ENDURANCE_SEQUENCES 1000
#define PLAN_ENDURANCE_POINTS 32 /* of the curve, at most */

typedef struct plan_endurance {
    uint32_t any;                              /* deaths that are survived, whoever dies */
    double mean, p5, median, p95;              /* of random deaths that are survived */
    uint32_t sorted[PLAN_ENDURANCE_SEQUENCES]; /* the same in each sequence, ascending */
} plan_endurance;

/* Sequences of deaths are drawn from `seed`. Errors: NO_MEMORY. */
int plan_endurance_measure(const tarry_plan *plan, uint64_t seed, plan_endurance *out);

/* Two lines, each after `start`. */
void plan_endurance_print(const plan_endurance *endurance, const char *start);

/* NULL if there is no memory. */
json_t *plan_endurance_json(const plan_endurance *endurance);

#endif
