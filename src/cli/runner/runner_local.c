/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/runner_local.h"

#include <tarry/local.h>

#include "base/diagnostic.h"
#include "base/memory.h"

/* What each worker holds, all with the same steps behind them. *last is the caller's to release. */
static int hold_everywhere(const runner_request *request, runner *made,
                           tarry_local_settings *settings, tarry_sum_id **last)
{
    uint32_t workers = tarry_plan_workers(request->plan);
    *last = memory_allocate(NULL, workers, sizeof(**last));
    if (*last == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t i = 0; i < workers; i++)
        (*last)[i] = request->sums.last[0];
    settings->log = request->sums;
    settings->last = *last;
    int error = job_replicas_create(request->replicas, workers, &made->replicas);
    if (error == TARRY_OK)
        settings->replicas = job_replicas_list(made->replicas);
    return error;
}

int runner_local_create(void *user, const runner_request *request, runner **out,
                        tarry_diagnostic *diagnostic)
{
    (void)user;
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    runner_server_settings(request, &settings.server);
    settings.parameters = request->dimension;
    settings.dimension = request->dimension + request->riding;
    settings.compute = request->compute;
    settings.user = request->user;
    settings.straggler = request->straggler;
    settings.checkpoint = request->checkpoint;
    settings.checkpoint_size = request->checkpoint_size;
    settings.view = request->view;
    tarry_sum_id *last = NULL;
    runner *made = memory_allocate(NULL, 1, sizeof(*made));
    int error = made == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    if (error == TARRY_OK && request->replicas != NULL)
        error = hold_everywhere(request, made, &settings, &last);
    if (error != TARRY_OK)
        diagnose_no_memory(diagnostic, "local runtime");
    else
        error = tarry_local_create(request->plan, &settings, NULL, &made->runtime, diagnostic);
    memory_release(NULL, last);
    if (error == TARRY_OK) {
        *out = made;
        return TARRY_OK;
    }
    if (made != NULL)
        job_replicas_free(made->replicas);
    memory_release(NULL, made);
    return error;
}
