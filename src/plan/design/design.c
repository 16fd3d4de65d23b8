/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/design/design.h"

#include "base/diagnostic.h"
#include "base/memory.h"

int design_assign(tarry_plan *plan, const tarry_plan_settings *settings,
                  tarry_diagnostic *diagnostic)
{
    plan->worker_offset =
        memory_allocate(&plan->allocator, (size_t)plan->workers + 1, sizeof(*plan->worker_offset));
    if (plan->worker_offset == NULL)
        return diagnose_no_memory(diagnostic, "plan");

    int error = TARRY_OK;
    switch (settings->design) {
    case TARRY_DESIGN_CYCLIC:
        error = design_cyclic(plan, settings->replication);
        break;
    case TARRY_DESIGN_FRACTIONAL:
        error = design_fractional(plan, settings->replication);
        break;
    case TARRY_DESIGN_RANDOM:
        plan->chunks *= plan->pieces;
        error = plan->racks > 0 ? design_racks(plan, settings->replication, settings->seed)
                                : design_random(plan, settings->replication, settings->seed);
        break;
    case TARRY_DESIGN_FILE:
        error = design_file(plan, settings->file, diagnostic);
        break;
    }
    if (error == TARRY_OK && plan->pieces > 1 && settings->design != TARRY_DESIGN_RANDOM)
        error = design_cut(plan, settings->design != TARRY_DESIGN_FILE, settings->seed);
    if (error == TARRY_ERROR_NO_MEMORY)
        return diagnose_no_memory(diagnostic, "plan");
    return error;
}
