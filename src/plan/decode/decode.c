/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/decode/decode.h"

#include <assert.h>

#include "base/memory.h"
#include "plan/decode/conditioning.h"
#include "plan/decode/descent.h"

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
static int spread(const tarry_plan *plan, uint32_t parts, uint64_t seed, double *best,
                  tarry_conditioning *conditioning)
{
    size_t numbers = (size_t)parts * plan->workers;
    double *trial = memory_allocate(&plan->allocator, numbers, sizeof(*trial));
    if (trial == NULL)
        return TARRY_ERROR_NO_MEMORY;
    double affordable = restart_limit / descent_operations(plan, parts, descent_limit);
    int error = TARRY_OK;
    for (uint32_t restart = 0; restart == 0 || (restart < affordable && restart < MOST_RESTARTS);
         restart++) {
        tarry_conditioning found;
        error = descent_spread(plan, parts, seed, restart, descent_limit, trial);
        if (error == TARRY_OK)
            error = conditioning_measure(plan, parts, trial, seed, &found);
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

/* The matrix for `parts`: that of `from`, or a new one if that is NULL. */
static int make_matrix(const tarry_plan *plan, uint32_t parts, uint64_t seed,
                       const tarry_plan *from, double *matrix, tarry_conditioning *conditioning)
{
    *conditioning = conditioning_of_ones(plan);
    if (parts > 1 && from == NULL)
        return spread(plan, parts, seed, matrix, conditioning);
    for (size_t k = 0; k < (size_t)parts * plan->workers; k++)
        matrix[k] = parts > 1 ? plan_decode(from, parts)[k] : 1;
    return parts > 1 ? conditioning_measure(plan, parts, matrix, seed, conditioning) : TARRY_OK;
}

static int make_matrices(tarry_plan *plan, uint64_t seed, const tarry_plan *from)
{
    assert(plan->min_replication >= plan->parts);
    uint32_t least = plan_least_parts(plan);
    double *decode = memory_allocate(&plan->allocator, plan_decode_rows(plan, least - 1),
                                     plan->workers * sizeof(*decode));
    if (decode == NULL)
        return TARRY_ERROR_NO_MEMORY;
    tarry_conditioning worst = {0};
    for (uint32_t parts = least; parts <= plan->parts; parts++) {
        tarry_conditioning found;
        double *matrix = decode + plan_decode_rows(plan, parts) * plan->workers;
        int error = make_matrix(plan, parts, seed, from, matrix, &found);
        if (error != TARRY_OK) {
            memory_release(&plan->allocator, decode);
            return error;
        }
        if (parts == least || found.worst > worst.worst)
            worst = found;
    }
    plan->decode = decode;
    plan->conditioning = worst;
    return TARRY_OK;
}

int decode_design(tarry_plan *plan, uint64_t seed)
{
    return make_matrices(plan, seed, NULL);
}

int decode_keep(tarry_plan *plan, const tarry_plan *from)
{
    return make_matrices(plan, plan->seed, from);
}
