/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring all-reduce of d numbers over n members (reduce-scatter and all-gather: Patarasuk and Yuan,
 * JPDC 2009): 2 (n - 1) steps, in each of which every member sends a segment of d / n numbers to
 * the next one: first the sum of the segment so far, then the whole sum. A member sends as soon as
 * it has the segment of the step before and is ready, so that steps begin wherever they can. With
 * equal links and everybody ready at once it takes 2 (n - 1) (latency + 4 d / n / bandwidth).
 *
 * With parts, sums on the way need all of them at every step: no bytes are saved.
 */
#ifndef SIM_RING_H
#define SIM_RING_H

#include "sim/links/group_sum.h"

/* As group_sum_run. */
int ring_group_sum(network *state, const group_sum *sum, const uint64_t *ready_ns,
                   uint64_t *done_ns, uint64_t *moved);

#endif
