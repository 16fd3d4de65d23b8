/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assignment designs: which worker holds which chunks, listed worker by worker.
 *
 * Each design sets plan->worker_offset and plan->slot_chunk from the settings, which have been
 * checked, and from plan->workers, ->chunks and ->parts. Both arrays are owned by the plan from the
 * moment they are set, on failure too. No worker lists a chunk twice; a worker may hold nothing.
 */
#ifndef PLAN_DESIGN_H
#define PLAN_DESIGN_H

#include "plan/plan.h"

/* Dispatches on settings->design. Errors: NO_MEMORY, and those of design_file. */
int design_assign(tarry_plan *plan, const tarry_plan_settings *settings,
                  tarry_diagnostic *diagnostic);

/*
 * Chunk i stands on `replication` neighbouring workers (modulo m), whose last one is
 * floor(i m / N); worker j lists first the chunks whose last holder it is. With N = m it lists
 * j, j+1, .., j+replication-1 modulo N (R. Tandon et al., Gradient coding, ICML 2017). Loads differ
 * by at most 1. Errors: NO_MEMORY.
 */
int design_cyclic(tarry_plan *plan, uint32_t replication);

/*
 * floor(m / replication) groups of neighbouring workers, and as many of neighbouring chunks, the
 * sizes of either differing by at most 1. A group of `replication` workers holds all chunks of its
 * group; in a larger one each chunk stands on `replication` of them, spread cyclically. Chunks are
 * listed in ascending order (the same source). Errors: NO_MEMORY.
 */
int design_fractional(tarry_plan *plan, uint32_t replication);

/*
 * A random simple bipartite graph: every chunk on `replication` workers, loads that differ by at
 * most 1, chunks listed in random sequence. Needs workers * chunks / 8 bytes besides the plan.
 * Errors: NO_MEMORY.
 */
int design_random(tarry_plan *plan, uint32_t replication, uint64_t seed);

/*
 * Reads the assignment from the file `name` (plan.h of the public headers has its format). Errors:
 * FILE, FORMAT, NO_MEMORY.
 */
int design_file(tarry_plan *plan, const char *name, tarry_diagnostic *diagnostic);

/*
 * For designs that know the loads first: worker_offset[j + 1] holds the load of worker j; turns
 * these into offsets and takes slot_chunk. Errors: NO_MEMORY.
 */
int design_take_slots(tarry_plan *plan);

#endif
