/* SPDX-License-Identifier: Apache-2.0 */
/* How many workers may die: a chunk is lost with the death that leaves it fewer holders than the
 * least number of parts. */
#include "base/memory.h"
#include "base/random.h"
#include "plan/plan.h"

uint32_t tarry_plan_endures(const tarry_plan *plan)
{
    return plan->min_replication - plan_least_parts(plan);
}

/* Takes the worker's copies off `alive`, per chunk; whether every chunk has enough left. */
static bool lose(const tarry_plan *plan, uint32_t worker, uint32_t *alive)
{
    bool enough = true;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        enough &= --alive[plan->slot_chunk[slot]] >= plan_least_parts(plan);
    return enough;
}

static void restore(const tarry_plan *plan, uint32_t worker, uint32_t *alive)
{
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++)
        alive[plan->slot_chunk[slot]]++;
}

/* Workers die as they are drawn, each of those alive as likely as the other. */
static uint32_t endure_one(const tarry_plan *plan, random_stream *stream, uint32_t *workers,
                           uint32_t *alive)
{
    uint32_t died = 0;
    bool enough = true;
    while (enough) {
        uint32_t drawn = died + random_below(stream, plan->workers - died);
        uint32_t worker = workers[drawn];
        workers[drawn] = workers[died];
        workers[died++] = worker;
        enough = lose(plan, worker, alive);
    }
    for (uint32_t i = 0; i < died; i++)
        restore(plan, workers[i], alive);
    return died - 1;
}

int tarry_plan_endures_random(const tarry_plan *plan, uint64_t seed, uint32_t samples,
                              const tarry_allocator *allocator, uint32_t *endured)
{
    uint32_t *workers = memory_allocate(allocator, plan->workers, sizeof(*workers));
    uint32_t *alive = memory_allocate(allocator, plan->chunks, sizeof(*alive));
    int error = workers == NULL || alive == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    for (uint32_t worker = 0; error == TARRY_OK && worker < plan->workers; worker++)
        workers[worker] = worker;
    for (uint32_t chunk = 0; error == TARRY_OK && chunk < plan->chunks; chunk++)
        alive[chunk] = tarry_plan_replication(plan, chunk);
    for (uint32_t sample = 0; error == TARRY_OK && sample < samples; sample++) {
        random_stream stream = random_stream_make(seed, RANDOM_ENDURANCE, sample, 0);
        endured[sample] = endure_one(plan, &stream, workers, alive);
    }
    memory_release(allocator, alive);
    memory_release(allocator, workers);
    return error;
}
