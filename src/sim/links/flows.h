/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A direct sum or one in a grid, of too many messages to follow each: what a member sends in a
 * stage is one flow, and so is what it gets. Flows to one member share its card; who gets begins
 * when the last of its row or column does, and has all when these have sent all and its card has
 * carried all. Where members begin at the same time and have equal links that is the time of
 * direct.h to the nanosecond, and that of grid.h but for the lines by which slices differ.
 */
#ifndef SIM_FLOWS_H
#define SIM_FLOWS_H

#include "route/route.h"
#include "sim/links/group_sum.h"

/* Messages of a sum that are followed one by one. */
#define FLOWS_MOST_MESSAGES (UINT64_C(1) << 25)

/* How many messages a direct sum or one in a grid has, no fewer. */
uint64_t flows_messages(const route *of);
/* As group_sum_run. */
int flows_sum(network *state, const group_sum *sum, const route *of, const uint64_t *ready_ns,
              uint64_t *done_ns, uint64_t *moved);

#endif
