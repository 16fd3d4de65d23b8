/* SPDX-License-Identifier: Apache-2.0 */
/* A job for the local runtime: sums of seeded random vectors,
 * one per chunk, and the same sums worked out serially. */
#ifndef TEST_SUMMING_H
#define TEST_SUMMING_H

#include <tarry/local.h>

#include "test.h"

typedef struct summing {
    tarry_plan_settings plan_settings;
    tarry_local_settings
        local_settings; /* compute, user, parameters and dimension are set by summing_begin */
    size_t dimension;
    const char *straggler_spec;       /* NULL: none */
    const tarry_allocator *allocator; /* NULL: the C library's */
    uint64_t seed;
    void (*prepare)(tarry_plan *plan); /* may change the plan before the runtime has it, or NULL */
    bool lasting; /* a chunk has the same vector in every round, but for the parameters' factor */
    bool alike;   /* all chunks have the same vector */
    _Atomic uint32_t failing_chunk; /* its computation fails; UINT32_MAX: none does */

    tarry_straggler *straggler;
    tarry_plan *plan;
    tarry_runtime *local;
    float *sum;
    double *truth;
    double lengths; /* sum of the chunks' |gradient| */
    float parameters[2];
} summing;

/* 8 workers, 8 chunks, replication 3, 1 part, 1,000 numbers; who is silent for less than 30 s may
 * just have been held up. */
void summing_init(summing *job);
/* Makes plan, straggler and runtime; asserts that it worked. */
void summing_begin(summing *job);
void summing_end(summing *job);
OWNED_STRUCT_BY(summing, summing_end)
/* A case with one (test.h). */
#define SUMMING(name) TEST_OF(name, summing, job, summing_end)

/* Runs a round; its sum is in job->sum, the true one in job->truth. */
int summing_round(summing *job, tarry_round_result *result, tarry_diagnostic *diagnostic);
/* max |sum - truth| / max |truth| */
double summing_error(const summing *job);
/* |sum - truth|^2 / |truth|^2 */
double summing_squared_error(const summing *job);
/* |sum - truth| / sum of the chunks' |gradient| */
double summing_relative_error(const summing *job);

#endif
