/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "plan/design/design.h"

int design_take_slots(tarry_plan *plan)
{
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        plan->worker_offset[worker + 1] += plan->worker_offset[worker];
    plan->slot_chunk =
        memory_allocate(&plan->allocator, plan_edges(plan), sizeof(*plan->slot_chunk));
    return plan->slot_chunk != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}
