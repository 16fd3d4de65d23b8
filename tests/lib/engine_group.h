/* SPDX-License-Identifier: Apache-2.0 */
/* Engines that are the members of one group, in one thread, for tests of any engine. */
#ifndef TEST_ENGINE_GROUP_H
#define TEST_ENGINE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/engine.h>

#include "sum_case.h"

enum { ENGINE_GROUP_MOST = 9 };

/* Who takes part: engines[i] is worker `workers[i]`, in ascending order; NULL: one elsewhere, of
 * that address. */
typedef struct engine_group {
    uint32_t count;
    tarry_engine *engines[ENGINE_GROUP_MOST];
    uint32_t workers[ENGINE_GROUP_MOST];
    tarry_engine_member elsewhere[ENGINE_GROUP_MOST];
    float *sums[ENGINE_GROUP_MOST];        /* of the sum in progress; owned */
    sum_watch *watches[ENGINE_GROUP_MOST]; /* NULL: nobody listens to what comes of it */
    tarry_engine_progress progress[ENGINE_GROUP_MOST];
    sum_case_forms forms; /* of sums that begin from here on */
} engine_group;

/* All engines form the group; asserts that each does. */
void engine_group_form(engine_group *group, uint64_t epoch);
/* Forms it at one member alone. */
int engine_group_form_one(const engine_group *group, uint32_t place, uint64_t epoch,
                          tarry_diagnostic *diagnostic);
/* Starts a sum at one member, or at all; sums that were made before are given back. */
void engine_group_start_one(engine_group *group, uint32_t place, const sum_case *of,
                            uint32_t attempt);
void engine_group_start(engine_group *group, const sum_case *of, uint32_t attempt);
/* Lets a member do one thing, if there is one to be done. */
void engine_group_step(engine_group *group, uint32_t place);
/* Steps members in an order drawn from the seed until all are DONE or FAILED, `steps` were made (0:
 * no limit), or nobody has moved for long. Gives back the steps. */
uint64_t engine_group_run(engine_group *group, uint64_t seed, uint64_t steps);
/* Asserts that all are done, with the case's sum. */
void engine_group_check(const engine_group *group, const sum_case *of);
/* Asserts that the engine, whose group is formed, refuses forms with feedback, and any form in a
 * sum of several parts. */
void engine_refuses_forms(tarry_engine *engine);
/* A whole sum by all members, in an order drawn from the seed; asserts that it is right. */
void engine_group_sum(engine_group *group, const sum_case *of, uint32_t attempt, uint64_t seed);
void engine_group_release_sums(engine_group *group);

#endif
