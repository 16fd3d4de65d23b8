/* SPDX-License-Identifier: Apache-2.0 */
/* How soon a round could be over by how many chunks each worker can compute. */
#ifndef SIM_BOUND_COUNT_H
#define SIM_BOUND_COUNT_H

#include <tarry/allocator.h>
#include <tarry/event.h>
#include <tarry/plan.h>

/* What chunks take. Slots and their number are those of the plan; TARRY_NEVER: never done. */
typedef struct bound_times {
    const tarry_plan *plan;
    uint32_t copies;        /* that are wanted of each chunk, >= 1 */
    const uint64_t *time;   /* per slot: what its chunk takes its worker, in ns */
    const uint64_t *prefix; /* per slot: the sum of its worker's shortest times, as many as its
                               position + 1 */
    const uint64_t *moment; /* `moments`, ascending: all finite times and prefixes */
    uint32_t moments;
} bound_times;

/*
 * The first moment T at which each chunk can have its copies, if a worker computes at most as many
 * chunks as the k shortest of its times fit into T, and none that takes longer than T; TARRY_NEVER
 * if there is none. Needs 8 bytes per worker and chunk, 8 more per node of both, and 2 bits per
 * slot. Errors: NO_MEMORY.
 */
int bound_by_count(const bound_times *of, const tarry_allocator *allocator, uint64_t *bound_ns);

#endif
