/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for any runtime: least squares by gradient descent with momentum, whose replicas are held
 * to a history worked out in this thread, and engines that lose a sum on command.
 */
#ifndef TEST_REPLICA_H
#define TEST_REPLICA_H

#include <pthread.h>
#include <stdatomic.h>

#include <tarry/compute.h>
#include <tarry/engine.h>
#include <tarry/replica.h>
#include <tarry/runtime.h>

enum { REPLICA_MOST_WORKERS = 8, REPLICA_MOST_STEPS = 64 };

/* What a worker steps. */
typedef struct test_replica {
    struct replica_job *job;
    float *state; /* parameters, and behind them their velocity */
    uint64_t steps, loads;
    atomic_uint saves; /* copies of it that were begun */
} test_replica;

typedef struct replica_job {
    size_t dimension;
    uint32_t workers, chunks;
    pthread_mutex_t lock;
    pthread_cond_t change;
    test_replica replicas[REPLICA_MOST_WORKERS];
    /* Engines that fail: at these of a worker's sums, counted from 1, by a set of bits. */
    uint64_t losing[REPLICA_MOST_WORKERS];  /* its own copy of a sum that was made */
    uint64_t failing[REPLICA_MOST_WORKERS]; /* the sum, for all, */
    uint64_t fails_after;                   /* once it has moved so many bytes */
} replica_job;

void replica_job_init(replica_job *job, uint32_t workers, uint32_t chunks, size_t dimension);
void replica_job_end(replica_job *job);
/* The gradients: tarry_compute's, with the job as user. */
int replica_compute(void *user, const tarry_task *task);
/* Of a worker. */
tarry_replica replica_of(replica_job *job, uint32_t worker);
/* The state after so many steps, worked out in this thread; the caller's to free. */
float *replica_expect(const replica_job *job, uint64_t steps);
/* Asserts that the first worker's parameters are those, to 1e-6 of the largest. */
void replica_compare(const replica_job *job, const float *expected);
/* A step of an owner that has the parameters itself, as replicas do it: state is 2 d numbers. */
void replica_descend(const replica_job *job, float *state, const float *sum);
/* For tarry_local_settings: engines in shared memory, which lose what the job says. */
int replica_engine(void *job, uint32_t worker, tarry_engine **engine);
/* Sums that such an engine has begun; while it is not called. */
unsigned replica_engine_sums(const tarry_engine *engine);
/* Waits until all workers have stepped so often, where they do so by themselves. */
void replica_await(replica_job *job, uint64_t steps);
/* Asserts that all workers have stepped `steps` times, and that their states are the same to the
 * bit. */
void replica_check(replica_job *job, uint64_t steps);

/* Runs one more round, and asserts that the sum which the runtime's owner gets then is the one that
 * the first worker has stepped on. */
void replica_check_sum(replica_job *job, tarry_runtime *runtime);
/* Copies of states that were begun so far, over all workers. */
unsigned replica_saves(const replica_job *job);
/* Gets the state, and asserts that it is the first worker's after `steps` steps. */
void replica_check_state(replica_job *job, tarry_runtime *runtime, uint64_t steps);
/* Gets the state as a caller does who waits no time in each call, and asserts the same of it. Gives
 * back how many calls it took. */
unsigned replica_check_state_in_slices(replica_job *job, tarry_runtime *runtime, uint64_t steps);

#endif
