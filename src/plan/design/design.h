/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assignment designs: which worker holds which chunks, listed worker by worker.
 *
 * Each design sets plan->worker_offset and plan->slot_chunk from the settings, which have been
 * checked, and from plan->workers, ->chunks, ->parts and the racks; the chunks are whole ones, but
 * for design_random, to which pieces are chunks. Both arrays are owned by the plan from the moment
 * they are set, on failure too. No worker lists a chunk twice; a worker may hold nothing.
 */
#ifndef PLAN_DESIGN_H
#define PLAN_DESIGN_H

#include "plan/plan.h"

/* Dispatches on settings->design, and cuts the chunks into plan->pieces; plan->chunks counts whole
 * ones before and pieces afterwards. Errors: those of the design. */
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
 * most 1, chunks listed in random sequence. Needs 8 bytes per copy besides the plan, and where a
 * worker holds more than about 1 of 32 chunks, workers * chunks / 8 more.
 * Errors: NO_MEMORY.
 */
int design_random(tarry_plan *plan, uint32_t replication, uint64_t seed);

/*
 * The same with racks, which plan->racks >= 1 and ->rack name: the copies of a chunk are spread as
 * evenly over racks, and the loads over workers, as tarry_plan_settings says. Among all such
 * designs it is nearly uniformly random. Needs 4 bytes per copy, 13 per chunk, 12 per worker and 44
 * per rack besides the plan. Errors: NO_MEMORY.
 */
int design_racks(tarry_plan *plan, uint32_t replication, uint64_t seed);

/*
 * Reads the assignment from the file `name` (plan.h of the public headers has its format). Errors:
 * FILE, FORMAT, NO_MEMORY.
 */
int design_file(tarry_plan *plan, const char *name, tarry_diagnostic *diagnostic);

/*
 * Cuts the whole chunks of an assignment into plan->pieces pieces each, and sets plan->chunks to
 * the number of these. If `apart`, each piece but the first lies as its chunk would in a random
 * relabelling of the workers; loads then differ by no more than those of the whole chunks do. Else
 * each worker has all pieces of its chunks. Needs the whole chunks' lists and 4 bytes per worker
 * and piece besides the plan. Errors: NO_MEMORY.
 */
int design_cut(tarry_plan *plan, bool apart, uint64_t seed);

/*
 * For designs that know the loads first: worker_offset[j + 1] holds the load of worker j; turns
 * these into offsets and takes slot_chunk. Errors: NO_MEMORY.
 */
int design_take_slots(tarry_plan *plan);

#endif
