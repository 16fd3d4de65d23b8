/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct all-reduce, as Tarry's own engine does it (tarry/engine.h): of n members, member i owns
 * slice i of every part's coordinates. Everyone sends its coded part's slice i to i, which decodes
 * the l parts there once it has all of them and is ready (reduce-scatter), and sends the l slices
 * of the sum to everybody (all-gather). Per member and direction these are
 * (d / l + d) (n - 1) / n numbers.
 *
 * Member i sends to i + 1, i + 2, ... in turn, so that nobody gets more at once than its link
 * carries, first its coded part, then its slices of the sum. With equal links and everybody ready
 * at once it takes 2 latency + 4 (1 + 1/l) d (n - 1) / n / bandwidth: the links are busy all the
 * time, so that blocks smaller than slices, in which an engine may do the same, would change no
 * more than the latency.
 */
#ifndef SIM_DIRECT_H
#define SIM_DIRECT_H

#include "sim/links/group_sum.h"

/* As group_sum_run. */
int direct_sum(network *state, const group_sum *sum, const uint64_t *ready_ns, uint64_t *done_ns,
               uint64_t *moved);

#endif
