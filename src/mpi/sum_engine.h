/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of sums over MPI: direct reduce-scatter and all-gather by point-to-point messages, a
 * a member's address being its rank. Its work is done by the thread of the post, in
 * `sum_engine_turn`; the worker's thread that waits for it sleeps.
 *
 * Each member sends every other one the numbers of its coded part that the other one decodes, at
 * most a few stripes ahead of what it has itself of the sum. All that is sent is copied first: what
 * is on its way when a sum is abandoned is then still what it was. A block says which group it is
 * of; one of an older group is dropped, and one of a group that is not formed here yet waits.
 *
 * It reads no clock: a member that is silent is the coordinator's to find out. One that MPI says
 * nothing reaches any more is suspected by each sum that it is in.
 */
#ifndef MPI_SUM_ENGINE_H
#define MPI_SUM_ENGINE_H

#include <tarry/engine.h>

#include "mpi/post.h"

/* `to` carries its blocks; its thread starts with the first group. NULL: no memory, or no lock. It
 * is freed by its method. */
tarry_engine *sum_engine_create(post *to, uint32_t rank, uint32_t ranks);

/* For the thread of the post: a block came from a rank; it is held as long as it is wanted. */
void sum_engine_take(tarry_engine *engine, uint32_t from, post_block *block);
/* For the same thread: nothing reaches the rank any more. */
void sum_engine_lose(tarry_engine *engine, uint32_t rank);
/* Does what can be done now. Gives back whether a sum is in progress. */
bool sum_engine_turn(tarry_engine *engine);

#endif
