/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/runner_local.h"

#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"

typedef struct runner_local {
    runner base;
    tarry_local *local;
} runner_local;

static tarry_local *local_of(const runner *self)
{
    return ((const runner_local *)self)->local;
}

static int run_round(runner *self, const float *parameters, float *sum, tarry_round_result *result,
                     tarry_diagnostic *diagnostic)
{
    return tarry_local_round(local_of(self), parameters, sum, result, diagnostic);
}

static int set_costs(runner *self, const double *costs)
{
    return tarry_local_costs(local_of(self), costs);
}

static int replan(runner *self, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    return tarry_local_replan(local_of(self), next, diagnostic);
}

static int visit(runner *self, int (*look)(void *user, const tarry_server *server), void *user)
{
    return look(user, tarry_local_server(local_of(self)));
}

static int checkpoint(runner *self, uint8_t *bytes)
{
    return tarry_local_checkpoint(local_of(self), bytes);
}

/* Its workers arrive once. */
static void stored(runner *self, const uint8_t *bytes)
{
    (void)self;
    (void)bytes;
}

static void interrupt(runner *self)
{
    tarry_local_interrupt(local_of(self));
}

static tarry_local_worker worker_state(const runner *self, uint32_t worker)
{
    return tarry_local_worker_state(local_of(self), worker);
}

static void job_id(const runner *self, uint8_t id[RUNNER_JOB_ID_SIZE])
{
    (void)self;
    memset(id, 0, RUNNER_JOB_ID_SIZE);
}

static void release(runner *self, bool finished)
{
    (void)finished;
    tarry_local_free(local_of(self));
    memory_release(NULL, self);
}

static const runner_methods methods = {
    .computes_here = true,
    .round = run_round,
    .costs = set_costs,
    .replan = replan,
    .visit = visit,
    .checkpoint = checkpoint,
    .stored = stored,
    .interrupt = interrupt,
    .worker = worker_state,
    .job_id = job_id,
    .free = release,
};

int runner_local_create(void *user, const runner_request *request, runner **out,
                        tarry_diagnostic *diagnostic)
{
    (void)user;
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    runner_server_settings(request, &settings.server);
    settings.parameters = settings.dimension = request->dimension;
    settings.compute = request->compute;
    settings.user = request->user;
    settings.straggler = request->straggler;
    settings.checkpoint = request->checkpoint;
    settings.checkpoint_size = request->checkpoint_size;
    runner_local *made = memory_allocate(NULL, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "local runtime");
    made->base.methods = &methods;
    int error = tarry_local_create(request->plan, &settings, NULL, &made->local, diagnostic);
    if (error != TARRY_OK) {
        memory_release(NULL, made);
        return error;
    }
    *out = &made->base;
    return TARRY_OK;
}
