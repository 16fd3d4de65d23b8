/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/mixture.h"

#include <math.h>

uint32_t mixture_kinds(const uint64_t *numerics, uint32_t workers)
{
    uint32_t kinds = 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        bool known = numerics[worker] == 0;
        for (uint32_t before = 0; before < worker && !known; before++)
            known = numerics[before] == numerics[worker];
        kinds += !known;
    }
    return kinds;
}

bool mixture_meets(const tarry_plan *plan, const uint64_t *numerics, uint32_t *one, uint32_t *other)
{
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
        bool found = false;
        for (uint32_t i = 0; i < tarry_plan_replication(plan, chunk); i++) {
            uint32_t holder = tarry_plan_holder(plan, chunk, i);
            if (numerics[holder] == 0)
                continue;
            *other = holder;
            if (!found)
                *one = holder;
            found = true;
            if (numerics[*one] != numerics[*other])
                return true;
        }
    }
    return false;
}

double mixture_bound(const tarry_plan *plan, uint32_t parts, double rounding, double limit)
{
    uint32_t most = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++)
        most =
            tarry_plan_replication(plan, chunk) > most ? tarry_plan_replication(plan, chunk) : most;
    return 2 * rounding * sqrt((double)most * parts) *
           fmin(tarry_plan_conditioning(plan).worst, limit);
}
