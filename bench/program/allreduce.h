/* SPDX-License-Identifier: Apache-2.0 */
/* Sums among processes of this machine, by the engine alone: no server, no vote. */
#ifndef BENCH_ALLREDUCE_H
#define BENCH_ALLREDUCE_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/direct.h>
#include <tarry/error.h>

enum { ALLREDUCE_TIMES_MOST = 1000, ALLREDUCE_MEMBERS_MOST = 256 };

typedef struct bench_allreduce_settings {
    tarry_direct_settings direct; /* of each one's engine */
    uint32_t members;             /* >= 1; a process each */
    size_t dimension;             /* d >= 1 */
    uint32_t parts;               /* >= 1 */
    uint32_t times;               /* sums, after two that do not count */
    double late;                  /* seconds that the first member begins after all others */
} bench_allreduce_settings;

typedef struct bench_allreduce_row {
    double seconds[ALLREDUCE_TIMES_MOST]; /* from the first begin (or that of the late member) to
                                             the last end, of each sum */
    double median;                        /* of these */
    double
        moved; /* numbers that a member sends, or reads of others, per sum: the mean over members */
    double busy; /* processor seconds of a member that is not late, per sum: the mean */
} bench_allreduce_row;

/* Errors: those of the engine, NO_MEMORY, SYSTEM (a process ended), NUMERICAL (a sum is wrong). */
int bench_allreduce_run(const bench_allreduce_settings *settings, bench_allreduce_row *row,
                        tarry_diagnostic *diagnostic);

/* `tarry-bench allreduce`: argv[0] is "allreduce". Gives back the exit status. */
int command_bench_allreduce(int argc, char **argv);

#endif
