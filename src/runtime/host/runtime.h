/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime consists of: a host of the machine, and what differs from one to another. */
#ifndef HOST_RUNTIME_H
#define HOST_RUNTIME_H

#include <tarry/runtime.h>

#include "runtime/host/host.h"

typedef void runtime_request(tarry_runtime *self, void *argument);

/* As the public functions of the same names, whose comments hold. NULL stands for what the public
 * header says of runtimes that don't have it. */
typedef struct runtime_methods {
    /* Calls `request` in the thread of the host, while nothing steps it; NULL: here. */
    void (*ask)(tarry_runtime *self, runtime_request *request, void *argument);
    int (*open)(tarry_runtime *self, tarry_diagnostic *diagnostic);
    int (*wait)(tarry_runtime *self, uint32_t workers, uint64_t wait_ns,
                tarry_diagnostic *diagnostic);
    int (*round)(tarry_runtime *self, const float *parameters, float *sum,
                 tarry_round_result *result, tarry_diagnostic *diagnostic);
    int (*replan)(tarry_runtime *self, const tarry_plan *next, tarry_diagnostic *diagnostic);
    /* A copy of the worker's state, after *after or later, which then says after what; *bytes is of
     * the host's allocator. The caller's thread. Errors: STATE (it has no such state), NO_MEMORY.
     * NULL: the server makes the sum. */
    int (*state)(tarry_runtime *self, uint32_t worker, uint64_t until_ns, tarry_sum_id *after,
                 uint8_t **bytes, uint64_t *size);
    /* The same of the sum that the worker holds, of this name and digest, into the dimension's
     * numbers. */
    int (*sum)(tarry_runtime *self, uint32_t worker, uint64_t until_ns, const tarry_sum_id *sum,
               float *into);
    /* Workers may load this state from the server. The caller's thread. Errors: SYSTEM. NULL: they
     * can't. */
    int (*vectors)(tarry_runtime *self, const tarry_sum_id *after, const void *bytes,
                   uint64_t size);
    void (*interrupt)(tarry_runtime *self);
    /* What the host does not know of a worker. In the host's thread. */
    void (*describe)(tarry_runtime *self, uint32_t worker, tarry_worker_state *state);
    const char *(*address)(const tarry_runtime *self, uint32_t index);
    const uint8_t *(*job_id)(const tarry_runtime *self);
    /* In the host's thread. */
    void (*note)(tarry_runtime *self, uint64_t done, uint64_t rounds, const char *note);
    void (*free)(tarry_runtime *self, bool finished);
} runtime_methods;

/* The first member of each kind of runtime. */
struct tarry_runtime {
    const runtime_methods *methods;
    host *host;
    bool awaits_checkpoint; /* the machine was restored, and must not be stepped before one is
                               stored */
};

#endif
