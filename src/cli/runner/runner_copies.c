/* SPDX-License-Identifier: Apache-2.0 */
/* What workers have after a round. A large state comes over several calls, which go on as long as
 * bytes arrive. */
#include <inttypes.h>

#include "base/diagnostic.h"
#include "cli/runner/runner.h"

/* A state over the network, or a sum. */
typedef struct copy {
    void *bytes;
    uint64_t size;
    float *sum; /* NULL: a state is wanted */
} copy;

static int receive(runner *self, uint64_t wait_ns, copy *wanted, tarry_diagnostic *diagnostic)
{
    tarry_sum_id after;
    uint64_t copied;
    int error;
    do {
        copied = tarry_runtime_copied(self->runtime);
        error = wanted->sum != NULL
                    ? tarry_runtime_sum(self->runtime, wait_ns, wanted->sum, diagnostic)
                    : tarry_runtime_state(self->runtime, wait_ns, &after, &wanted->bytes,
                                          &wanted->size, diagnostic);
    } while (error == TARRY_ERROR_STATE && tarry_runtime_copied(self->runtime) > copied);
    return error;
}

int runner_last_sum(runner *self, uint64_t wait_ns, float *sum, tarry_diagnostic *diagnostic)
{
    return receive(self, wait_ns, &(copy){.sum = sum}, diagnostic);
}

int runner_look(runner *self, uint64_t steps, uint64_t wait_ns, float *parameters,
                optimizer_state *state, tarry_diagnostic *diagnostic)
{
    if (!self->asks) {
        job_replicas_look(self->replicas, steps, parameters, state);
        return TARRY_OK;
    }
    copy came = {0};
    int error = receive(self, wait_ns, &came, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = job_replicas_read(self->replicas, steps, came.bytes, came.size, parameters, state);
    tarry_runtime_release_state(self->runtime, came.bytes);
    return error == TARRY_OK
               ? TARRY_OK
               : diagnose(diagnostic, error, "what a worker sent is no state after step %" PRIu64,
                          steps);
}
