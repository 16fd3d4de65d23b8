/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/decode.h"

#include <assert.h>

#include "base/memory.h"
#include "plan/conditioning.h"
#include "plan/descent.h"

enum { MOST_RESTARTS = 8 };

/* What one descent may cost, and what more than one may cost together: a second or two. */
static const double descent_limit = 4e9;
static const double restart_limit = 2e9;

/* With one part each R_S of one worker is 1, whatever the assignment. */
static tarry_conditioning conditioning_of_ones(const tarry_plan *plan)
{
    return (tarry_conditioning){
        .worst = 1, .median = 1, .subsets = plan_edges(plan), .complete = true};
}

/* Descents end in different local minima: the best of some is kept, of more where one is cheap. */
static int spread(const tarry_plan *plan, uint64_t seed, double *best,
                  tarry_conditioning *conditioning)
{
    size_t numbers = (size_t)plan->parts * plan->workers;
    double *trial = memory_allocate(&plan->allocator, numbers, sizeof(*trial));
    if (trial == NULL)
        return TARRY_ERROR_NO_MEMORY;
    double affordable = restart_limit / descent_operations(plan, descent_limit);
    int error = TARRY_OK;
    for (uint32_t restart = 0; restart == 0 || (restart < affordable && restart < MOST_RESTARTS);
         restart++) {
        tarry_conditioning found;
        error = descent_spread(plan, seed, restart, descent_limit, trial);
        if (error == TARRY_OK)
            error = conditioning_measure(plan, trial, seed, &found);
        if (error != TARRY_OK)
            break;
        if (restart == 0 || found.worst < conditioning->worst) {
            *conditioning = found;
            for (size_t k = 0; k < numbers; k++)
                best[k] = trial[k];
        }
    }
    memory_release(&plan->allocator, trial);
    return error;
}

int decode_design(tarry_plan *plan, uint64_t seed)
{
    assert(plan->min_replication >= plan->parts);
    size_t numbers = (size_t)plan->parts * plan->workers;
    double *decode = memory_allocate(&plan->allocator, numbers, sizeof(*decode));
    if (decode == NULL)
        return TARRY_ERROR_NO_MEMORY;
    tarry_conditioning conditioning;
    if (plan->parts == 1) {
        for (uint32_t worker = 0; worker < plan->workers; worker++)
            decode[worker] = 1;
        conditioning = conditioning_of_ones(plan);
    } else {
        int error = spread(plan, seed, decode, &conditioning);
        if (error != TARRY_OK) {
            memory_release(&plan->allocator, decode);
            return error;
        }
    }
    plan->decode = decode;
    plan->conditioning = conditioning;
    return TARRY_OK;
}

int decode_keep(tarry_plan *plan, const tarry_plan *from)
{
    assert(plan->min_replication >= plan->parts);
    size_t numbers = (size_t)plan->parts * plan->workers;
    double *decode = memory_allocate(&plan->allocator, numbers, sizeof(*decode));
    if (decode == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t k = 0; k < numbers; k++)
        decode[k] = from->decode[k];
    tarry_conditioning conditioning = conditioning_of_ones(plan);
    if (plan->parts > 1) {
        int error = conditioning_measure(plan, decode, plan->seed, &conditioning);
        if (error != TARRY_OK) {
            memory_release(&plan->allocator, decode);
            return error;
        }
    }
    plan->decode = decode;
    plan->conditioning = conditioning;
    return TARRY_OK;
}
