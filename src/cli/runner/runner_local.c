/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/runner_local.h"

#include <tarry/local.h>

#include "base/diagnostic.h"
#include "base/memory.h"

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
    runner *made = memory_allocate(NULL, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "local runtime");
    int error = tarry_local_create(request->plan, &settings, NULL, &made->runtime, diagnostic);
    if (error != TARRY_OK) {
        memory_release(NULL, made);
        return error;
    }
    *out = made;
    return TARRY_OK;
}
