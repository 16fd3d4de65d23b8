/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of workers that all get the sum: a server, and a process for each worker, on this machine,
 * whose gradients take a time that is told. */
#ifndef BENCH_STEP_H
#define BENCH_STEP_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

#include "program/cluster.h"

enum { STEP_TIMES_MOST = 1000, STEP_WORKERS_MOST = 64 };

typedef struct bench_step_settings {
    const bench_cluster *cluster; /* NULL: plain text */
    bool share;                   /* memory among all on this machine */
    uint32_t workers, chunks, pieces, replication;
    size_t dimension; /* d >= 1 */
    double seconds;   /* that each worker takes for its equal share of all chunks */
    double slow;      /* times as long at the last worker; 1: it is as the others */
    uint32_t times;   /* rounds, after some that do not count */
    uint32_t stop;    /* the last worker is stopped in the middle of this round, counted from 1, and
                         does not go on; 0: it is not */
    double silence;   /* seconds after which who says nothing is given up */
} bench_step_settings;

/* Of each round; times in seconds. */
typedef struct bench_step_row {
    double seconds[STEP_TIMES_MOST]; /* from the round's begin until all workers have stepped that
                                        are not stopped */
    double added[STEP_TIMES_MOST];   /* of these, those after the last gradient was there */
    double busy;   /* of a core, that a worker which is not slow takes: the mean over all rounds */
    bool all_good; /* every sum was exact, by the server and by its numbers at every worker */
} bench_step_row;

/* Errors: those of the runtime, NO_MEMORY, SYSTEM (a process ended). */
int bench_step_run(const bench_step_settings *settings, bench_step_row *row,
                   tarry_diagnostic *diagnostic);

/* `tarry-bench step`: argv[0] is "step". Gives back the exit status. */
int command_bench_step(int argc, char **argv);

#endif
