/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the simulator is, and what memory it takes. */
#ifndef BENCH_SIMULATE_H
#define BENCH_SIMULATE_H

#include <stdint.h>

#include <tarry/error.h>
#include <tarry/plan.h>

typedef struct bench_simulate_settings {
    tarry_plan_settings plan;
    const char *straggler; /* SPEC */
    uint64_t reports;      /* rounds are run until workers have sent as many, >= 1 */
} bench_simulate_settings;

typedef struct bench_simulate_row {
    uint64_t rounds, reports, events;
    double seconds;       /* of all rounds, in processor time of one thread */
    double longest_round; /* the same */
    double virtual_round; /* seconds of virtual time, mean */
    double memory;        /* bytes that this process had resident at most so far */
} bench_simulate_row;

/* Exact rounds of plain links. Errors: those of tarry_plan_create, tarry_straggler_create and
 * tarry_sim_create, NUMERICAL, COVERAGE if a round has no estimate. */
int bench_simulate_run(const bench_simulate_settings *settings, bench_simulate_row *row,
                       tarry_diagnostic *diagnostic);

/* `tarry-bench simulate`: argv[0] is "simulate". Gives back the exit status. */
int command_bench_simulate(int argc, char **argv);

#endif
