/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the workers of this process hold where everyone gets the sum: each its own parameters and
 * its own optimizer, which step on the same sums as the server would (--sum server), to the bit. A
 * server of workers elsewhere has one that none of them steps, for the state that they begin with.
 *
 * Workers' threads step them; another thread may look at the state after a step.
 */
#ifndef CLI_JOB_REPLICAS_H
#define CLI_JOB_REPLICAS_H

#include <tarry/replica.h>

#include "learn/local_steps.h"

typedef struct job_replicas job_replicas;

typedef struct job_replicas_settings {
    const objective *model;       /* borrowed */
    optimizer_settings optimizer; /* of the parameters */
    local_settings local;         /* what a sum is of */
    double samples;               /* that a sum is over */
    /* What they begin with: the state after so many steps, which is copied. parameters NULL: the
     * first state, drawn by the seed. */
    uint64_t seed, steps;
    const float *parameters;
    const optimizer_state *state; /* of an optimizer of that kind */
} job_replicas_settings;

/* What each of them takes. */
uint64_t job_replicas_bytes(optimizer_kind kind, size_t dimension);

/* As many as the process has workers. The caller frees *out, after what calls the replicas. Errors:
 * NO_MEMORY. */
int job_replicas_create(const job_replicas_settings *settings, uint32_t count, job_replicas **out);
void job_replicas_free(job_replicas *self); /* NULL is allowed */

/* `count` of them, in the order of workers; they belong to `self`. */
const tarry_replica *job_replicas_list(const job_replicas *self);

/* All of the first one's state, as its replica saves it; *bytes is the caller's, by
 * memory_release. Errors: NO_MEMORY. */
int job_replicas_copy(job_replicas *self, uint8_t **bytes, uint64_t *size);

/*
 * Waits until one of them has taken so many steps, and copies what it has then; none may take more
 * meanwhile. `state` is of an optimizer of the same kind.
 */
void job_replicas_look(job_replicas *self, uint64_t steps, float *parameters,
                       optimizer_state *state);
/* The same of bytes of a state that should be that after so many steps, as a replica of the same
 * job saves it; any bytes may come in. Errors: FORMAT, with nothing copied. */
int job_replicas_read(const job_replicas *self, uint64_t steps, const void *bytes, uint64_t size,
                      float *parameters, optimizer_state *state);

#endif
