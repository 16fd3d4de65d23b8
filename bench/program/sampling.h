/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings in simulated time: real gradients, and rounds of the machines themselves. So the
 * seconds to a loss depend on nothing but the seed. */
#ifndef BENCH_SAMPLING_H
#define BENCH_SAMPLING_H

#include <tarry/error.h>
#include <tarry/plan.h>
#include <tarry/server.h>

typedef struct bench_sampling_settings {
    tarry_plan_settings plan; /* its pieces are 1 */
    tarry_server_settings server;
    const char *data;      /* IDX images or another file of classes */
    const char *straggler; /* SPEC; if it adds no seconds a chunk takes a second, or of that the
                              batch's share */
    uint64_t batch;        /* samples of a round, drawn from all chunks; 0: all of them */
    bool sorted;           /* the samples, by label */
    double rate;           /* of gradient descent */
    double loss;           /* to be reached */
    uint64_t rounds;       /* at most */
} bench_sampling_settings;

typedef struct bench_sampling_row {
    bool reached;          /* the loss; else the figures are of all rounds */
    uint64_t rounds;       /* until then */
    double seconds;        /* simulated */
    double work;           /* gradients of samples computed, in copies of all data */
    double loss;           /* in the end */
    double error, sampled; /* means: expected error, chunks sampled */
    double apart;          /* mean over rounds: |sum - truth|^2 / |truth|^2 */
} bench_sampling_row;

/* A linear softmax on all of the data. Errors: those of reading data, of tarry_plan_create,
 * tarry_straggler_create and tarry_sim_create; COVERAGE if a round has no estimate. */
int bench_sampling_run(const bench_sampling_settings *settings, bench_sampling_row *row,
                       tarry_diagnostic *diagnostic);

/* `tarry-bench sampling`: argv[0] is "sampling". Gives back the exit status. */
int command_bench_sampling(int argc, char **argv);

#endif
