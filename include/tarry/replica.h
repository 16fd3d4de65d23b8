/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker holds where everyone gets the sum: the parameters and whatever steps them. Every
 * worker has the same state after the same step.
 */
#ifndef TARRY_REPLICA_H
#define TARRY_REPLICA_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One thread at a time calls these; compute functions may run meanwhile, with the parameters that
 * `parameters` gave before. What does not give TARRY_OK ends the worker with that error. */
typedef struct tarry_replica {
    void *user;
    /* Steps on the sum of `step`, which counts from 1; it was committed. Must do the same at every
     * worker, to the bit. `sum` is NULL if the numbers are not float32 in host memory: the worker's
     * owner of vectors has them at TARRY_PLACE_SUM. The method is NULL, where tasks are taken:
     * steps are tasks, too (tarry_task.sum), and nothing else is to be taken, nor `save` called,
     * before one is given back. */
    int (*step)(void *user, uint64_t step, const float *sum);
    /* Writes the parameters as they are now: after creation, a step or a load. NULL: compute
     * functions get none (tarry_task.parameters is NULL). */
    int (*parameters)(void *user, float *parameters);
    /* Bytes of the state now; at most 2^48 go over a network. While another worker loads it, it is
     * in memory once more here, and twice there. */
    uint64_t (*state_size)(void *user);
    /* Writes bytes first .. first + size - 1 of the state; pieces follow each other, and nothing
     * steps in between. The same state gives the same bytes at every worker. */
    int (*save)(void *user, uint64_t first, void *bytes, size_t size);
    /* Takes the state from these pieces, `total` bytes in all, in their order; the last one
     * completes it. What comes from another worker was checked against its digest before the first
     * piece is given here. */
    int (*load)(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size);
} tarry_replica;

#ifdef __cplusplus
}
#endif

#endif
