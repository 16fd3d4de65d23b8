/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sum over two binary trees, each for half of the numbers (src/route/route_tree.h), in blocks: a
 * member sends a block to its parent once it has it from its children, and the sum of a block to
 * its children once it has that. Those without children send their coded part, d / l numbers in
 * all; inner members partial sums. The edges over which a block is ready take turns at a card.
 */
#ifndef SIM_TREE_H
#define SIM_TREE_H

#include "route/route.h"
#include "sim/links/group_sum.h"

/* Into how many blocks the numbers of a tree are cut: by size, at most 64, and so few that a sum
 * has at most 2^25 messages, which makes it longer. */
uint32_t tree_blocks(uint32_t members, uint64_t numbers);
/* As group_sum_run. */
int tree_sum(network *state, const group_sum *sum, const uint64_t *ready_ns, uint64_t *done_ns,
             uint64_t *moved);

#endif
