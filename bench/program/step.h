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

/* What befalls the last worker in the middle of a round. */
typedef enum bench_upset {
    BENCH_UPSET_NONE,
    BENCH_UPSET_STOP, /* SIGSTOP while it computes; it does not go on */
    BENCH_UPSET_KILL, /* SIGKILL in the middle of the sum */
    BENCH_UPSET_JOIN, /* it was not there before */
} bench_upset;

typedef struct bench_step_settings {
    const bench_cluster *cluster; /* NULL: plain text */
    bool share;                   /* memory among all on this machine */
    uint32_t workers, chunks, pieces, replication;
    size_t dimension; /* d >= 1 */
    double seconds;   /* that each worker takes for its equal share of all chunks */
    double slow;      /* times as long at the last worker; 1: it is as the others */
    uint32_t times;   /* rounds, after some that do not count */
    bench_upset upset;
    uint32_t upset_at; /* the round, counted from 1, up to `times`; 0 without an upset */
    uint32_t vectors;  /* a worker's state has so many, each of d numbers; 0: it has a few bytes */
    double silence;    /* seconds after which who says nothing is given up */
    bool keep_all;     /* workers keep all gradients, and no running sums */
} bench_step_settings;

/* Times in seconds; of an upset that was not asked for they are 0. */
typedef struct bench_step_upset {
    /* KILL, from when it was killed: until the server knew, until an attempt without it began, and
     * until all others had stepped. */
    double known, again, repaired;
    uint32_t attempts; /* of that round: 1: it was killed before the sum, or after it */
    uint64_t computed; /* pieces of that round, as the server heard of them */
    /* JOIN, from when its process began to connect: until it had the state, and until it had
     * stepped on its first sum; and what a copy of a state took that nothing else went beside. */
    double loaded, joined, alone;
    uint32_t first; /* the round of its first sum, counted from 1; 0: it never took part */
} bench_step_upset;

/* Of each round; times in seconds. */
typedef struct bench_step_row {
    double seconds[STEP_TIMES_MOST]; /* from the round's begin until all workers have stepped that
                                        take part */
    double added[STEP_TIMES_MOST];   /* of these, those after the last gradient was there */
    double busy;   /* of a core, that a worker which is not slow takes: the mean over all rounds */
    bool all_good; /* every sum was exact, by the server and by its numbers at every worker */
    bench_step_upset upset;
} bench_step_row;

/* Errors: those of the runtime, NO_MEMORY, SYSTEM (a process ended). */
int bench_step_run(const bench_step_settings *settings, bench_step_row *row,
                   tarry_diagnostic *diagnostic);

/* `tarry-bench step`: argv[0] is "step". Gives back the exit status. */
int command_bench_step(int argc, char **argv);

#endif
