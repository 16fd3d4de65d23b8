/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sum in rows and columns, as src/route says who sends what to whom: coded parts to the owners of
 * slices in their row, partial sums to the owners of pieces in their column, the sums of pieces
 * back in the column, slices of the sum to all of the row. A member begins a stage once it has sent
 * and got all of the one before, and sends all messages of it at the same time: they have equal
 * shares of its card, and those that meet at a receiver's card of that (sharing.h). First come,
 * first served, the pieces of a column would wait at a thin card for slices of members who are done
 * early, and everyone for them. Blocks smaller than slices would change the latency alone, as in
 * direct.h.
 *
 * With h rows of w members, equal links, everybody ready at once and d a multiple of 16 n, it takes
 * 4 latencies and what 4 d ((1 + 1/l) (w-1)/w + 2/w (h-1)/h) bytes take.
 */
#ifndef SIM_GRID_H
#define SIM_GRID_H

#include "route/route.h"
#include "sim/links/group_sum.h"

/* As group_sum_run. `of` is a legal grid of the group's members, who sit in their order. */
int grid_sum(network *state, const group_sum *sum, const route *of, const uint64_t *ready_ns,
             uint64_t *done_ns, uint64_t *moved);

#endif
