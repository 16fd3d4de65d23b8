/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/design/design.h"

/* The first chunk i with floor(i m / N) >= worker, that is ceil(worker N / m). */
static uint32_t first_chunk(const tarry_plan *plan, uint32_t worker)
{
    uint64_t product = (uint64_t)worker * plan->chunks;
    return (uint32_t)((product + plan->workers - 1) / plan->workers);
}

int design_cyclic(tarry_plan *plan, uint32_t replication)
{
    uint32_t workers = plan->workers;
    for (uint32_t worker = 0; worker < workers; worker++) {
        uint32_t load = 0;
        for (uint32_t step = 0; step < replication; step++) {
            uint32_t last = (worker + step) % workers;
            load += first_chunk(plan, last + 1) - first_chunk(plan, last);
        }
        plan->worker_offset[worker + 1] = load;
    }
    int error = design_take_slots(plan);
    if (error != TARRY_OK)
        return error;

    uint32_t slot = 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        for (uint32_t step = 0; step < replication; step++) {
            uint32_t last = (worker + step) % workers;
            uint32_t end = first_chunk(plan, last + 1);
            for (uint32_t chunk = first_chunk(plan, last); chunk < end; chunk++)
                plan->slot_chunk[slot++] = chunk;
        }
    }
    return TARRY_OK;
}
