/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/evolve/draft.h"
#include "plan/rack/rack.h"
#include "plan/span/span.h"

/* How near to balanced the moves bring the plan: the last percents would cost the most moves, and
 * whole chunks are not as divisible as matched takes them to be. */
static const double near_balanced = 1.02;

/* Limits in times of a mean are not missed by the rounding of the mean. */
static const double rounding = 1 + 1e-9;

void tarry_plan_evolution_init(tarry_plan_evolution *wanted)
{
    *wanted = (tarry_plan_evolution){0};
}

/* ---- what is wanted ---- */

/* The wishes with nothing left open. */
typedef struct wishes {
    double *pace, *cost;
    uint32_t racks;
    uint32_t *rack;     /* NULL: those of the plan */
    double mean;        /* cost */
    double most, least; /* cost of a chunk */
    double most_data;   /* of a worker, in original chunks */
    double balanced;
} wishes;

static int check_numbers(const tarry_plan_evolution *wanted, tarry_diagnostic *diagnostic)
{
    double heaviest = wanted->heaviest, lightest = wanted->lightest;
    if (heaviest != 0 && !(heaviest >= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the heaviest chunk must be at least 1 times the mean, not %g", heaviest);
    if (!(lightest >= 0 && lightest <= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the lightest chunk must be 0 to 1 times the mean, not %g", lightest);
    if (heaviest != 0 && lightest > heaviest / 2)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the lightest chunk must be at most half the heaviest: %g, %g", lightest,
                        heaviest);
    if (wanted->most_load != 0 && !(wanted->most_load >= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the most load must be at least 1 times the mean, not %g",
                        wanted->most_load);
    return TARRY_OK;
}

static int set_paces(wishes *set, const tarry_plan *plan, const double *pace,
                     tarry_diagnostic *diagnostic)
{
    bool any = false;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        set->pace[worker] = pace == NULL ? 1 : pace[worker];
        if (!(set->pace[worker] > 0))
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "worker %u: a pace of %g", worker,
                            set->pace[worker]);
        any |= isfinite(set->pace[worker]);
    }
    return any ? TARRY_OK : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "every worker is gone");
}

static int set_costs(wishes *set, const tarry_plan *plan, const double *cost,
                     tarry_diagnostic *diagnostic)
{
    double sum = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        set->cost[chunk] = cost == NULL ? 1 : cost[chunk];
        if (!(set->cost[chunk] >= 0 && isfinite(set->cost[chunk])))
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "chunk %u: a cost of %g", chunk,
                            set->cost[chunk]);
        sum += set->cost[chunk];
    }
    if (!(sum > 0 && isfinite(sum)))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "the costs add up to %g", sum);
    set->mean = sum / plan->chunks;
    return TARRY_OK;
}

static int set_racks(wishes *set, const tarry_plan *plan, const uint32_t *rack,
                     const tarry_allocator *allocator, tarry_diagnostic *diagnostic)
{
    if (rack == NULL)
        return TARRY_OK;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        if (rack[worker] >= plan->workers && rack[worker] != TARRY_NO_RACK)
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "worker %u: rack %u of %u workers",
                            worker, rack[worker], plan->workers);
    set->rack = memory_allocate(allocator, plan->workers, sizeof(*set->rack));
    if (set->rack == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return rack_number(rack, plan->workers, allocator, set->rack, &set->racks);
}

/*
 * The least time in which the workers do `parts` copies of all chunks, were each able to compute
 * each, but none more than one copy: those that would be through with all the data before wait.
 */
static double balanced_time(const wishes *set, const tarry_plan *plan)
{
    const double work = set->mean * plan->chunks;
    double time = 0, longer = 0;
    do { /* at most `parts` times: each time one worker more is through */
        time = longer;
        double copies = plan->parts, speed = 0;
        for (uint32_t worker = 0; worker < plan->workers; worker++) {
            bool through = time >= work * set->pace[worker];
            copies -= through;
            speed += through ? 0 : 1 / set->pace[worker];
        }
        longer = copies > 0 ? work * copies / speed : time;
    } while (longer > time);
    return time;
}

static void set_limits(wishes *set, const tarry_plan *plan, const tarry_plan_evolution *wanted)
{
    double data = 0;
    uint32_t there = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t count;
        tarry_span whole;
        const tarry_span *spans = span_list(plan, chunk, &whole, &count);
        data += span_size(spans, count) * tarry_plan_replication(plan, chunk);
    }
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        there += isfinite(set->pace[worker]) ? 1 : 0;
    set->balanced = balanced_time(set, plan);
    bool splits =
        wanted->heaviest != 0 && (wanted->most_chunks == 0 || plan->chunks < wanted->most_chunks);
    set->most = splits ? wanted->heaviest * set->mean * rounding : INFINITY;
    set->least = wanted->lightest * set->mean;
    set->most_data =
        wanted->most_load != 0 ? wanted->most_load * data / there * rounding : INFINITY;
}

/* ---- from one to the other ---- */

static int evolve(const tarry_plan *plan, const wishes *set, uint32_t most_moves,
                  const tarry_allocator *allocator, tarry_plan **next, tarry_plan_changes *changes,
                  tarry_diagnostic *diagnostic)
{
    draft made;
    int error = draft_cut(&made, plan, set->cost, set->most, set->least, set->mean, allocator,
                          changes, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (set->rack != NULL) {
        made.racks = set->racks;
        made.rack = set->rack;
    }
    double most = near_balanced * set->balanced;
    changes->balanced = set->balanced;
    error = draft_time(&made, set->pace, allocator, &changes->matched_before);
    changes->matched_after = changes->matched_before;
    bool uneven = changes->matched_before > most || made.rack != NULL;
    if (error == TARRY_OK && uneven && most_moves > 0) {
        error = draft_move(&made, set->pace, most, most_moves, set->most_data, allocator, changes);
        if (error == TARRY_OK)
            error = draft_time(&made, set->pace, allocator, &changes->matched_after);
    }
    if (error == TARRY_OK) {
        bool changed = changes->split > 0 || changes->merged > 0 || changes->moved > 0;
        error = draft_finish(&made, changed, allocator, next);
    }
    draft_destroy(&made, allocator);
    return error;
}

int tarry_plan_evolve(const tarry_plan *plan, const tarry_plan_evolution *wanted,
                      const tarry_allocator *allocator, tarry_plan **next,
                      tarry_plan_changes *changes, tarry_diagnostic *diagnostic)
{
    int error = check_numbers(wanted, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_plan_changes made = {0};
    wishes set = {0};
    set.pace = memory_allocate(allocator, plan->workers, sizeof(*set.pace));
    set.cost = memory_allocate(allocator, plan->chunks, sizeof(*set.cost));
    error = TARRY_ERROR_NO_MEMORY;
    if (set.pace == NULL || set.cost == NULL)
        goto release;
    error = set_paces(&set, plan, wanted->pace, diagnostic);
    if (error == TARRY_OK)
        error = set_costs(&set, plan, wanted->cost, diagnostic);
    if (error == TARRY_OK)
        error = set_racks(&set, plan, wanted->rack, allocator, diagnostic);
    if (error != TARRY_OK)
        goto release;
    set_limits(&set, plan, wanted);
    error = evolve(plan, &set, wanted->most_moves, allocator, next, &made, diagnostic);
    if (error == TARRY_OK && changes != NULL)
        *changes = made;

release:
    if (error == TARRY_ERROR_NO_MEMORY)
        diagnose_no_memory(diagnostic, "plan");
    memory_release(allocator, set.rack);
    memory_release(allocator, set.cost);
    memory_release(allocator, set.pace);
    return error;
}
