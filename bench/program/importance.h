/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings in simulated time: real gradients, whose norms the simulator's workers report, and
 * rounds of the machines themselves. So the seconds to a loss depend on nothing but the seed. */
#ifndef BENCH_IMPORTANCE_H
#define BENCH_IMPORTANCE_H

#include <tarry/error.h>
#include <tarry/plan.h>
#include <tarry/server.h>

typedef struct bench_importance_settings {
    tarry_plan_settings plan; /* its pieces are 1 */
    tarry_server_settings server;
    const char *data;      /* IDX images or another file of classes */
    const char *straggler; /* SPEC; a chunk takes a second */
    bool sorted;           /* the samples, by label */
    double rate;           /* of gradient descent */
    double loss;           /* to be reached */
    uint64_t rounds;       /* at most */
} bench_importance_settings;

typedef struct bench_importance_row {
    bool reached;          /* the loss; else the figures are of all rounds */
    uint64_t rounds;       /* until then */
    double seconds;        /* simulated */
    double work;           /* chunks computed, in copies of all data */
    double loss;           /* in the end */
    double error, sampled; /* means: expected error, chunks sampled */
    double apart;          /* mean over rounds: |sum - truth|^2 / |truth|^2 */
} bench_importance_row;

/* A linear softmax on all of the data. Errors: those of reading data, of tarry_plan_create,
 * tarry_straggler_create and tarry_sim_create; COVERAGE if a round has no estimate. */
int bench_importance_run(const bench_importance_settings *settings, bench_importance_row *row,
                         tarry_diagnostic *diagnostic);

/* `tarry-bench importance`: argv[0] is "importance". Gives back the exit status. */
int command_bench_importance(int argc, char **argv);

#endif
