/* SPDX-License-Identifier: Apache-2.0 */
/* Whole rounds of the local runtime against the memory traffic that they need. */
#ifndef BENCH_ROUND_H
#define BENCH_ROUND_H

#include <stdint.h>

#include <tarry/error.h>
#include <tarry/plan.h>

typedef struct bench_round_settings {
    tarry_plan_settings plan;
    size_t dimension;     /* d >= 1 */
    uint32_t rounds;      /* >= 1 */
    bool all;             /* wait for all workers, so that every copy is coded */
    size_t stripe_length; /* 0: as the runtime chooses */
} bench_round_settings;

/* Medians over the rounds. */
typedef struct bench_round_row {
    double seconds; /* of a round, no stragglers, chunk functions that do nothing */
    double signal;  /* seconds until the encode signal: reports and waking threads */
    double copies;  /* coded: gradients read */
    double bytes;   /* needed: coded gradients read once, parts written and read once */
    double copy;  /* bytes per second read and written by memcpy, one thread, taking turns with the
                     rounds */
    double ratio; /* seconds over bytes / copy */
} bench_round_row;

/* Errors: those of tarry_plan_create and tarry_local_create, NO_MEMORY. */
int bench_round_run(const bench_round_settings *settings, bench_round_row *row,
                    tarry_diagnostic *diagnostic);

/* `tarry-bench round`: argv[0] is "round". Gives back the exit status. */
int command_bench_round(int argc, char **argv);

#endif
