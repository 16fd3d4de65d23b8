/* SPDX-License-Identifier: Apache-2.0 */
/* In which sequence each worker computes the chunks that the design gave it. */
#ifndef PLAN_ORDER_H
#define PLAN_ORDER_H

#include "plan/plan.h"

/*
 * Rearranges each worker's slots of plan->slot_chunk; worker_offset and slot_chunk are set, the
 * other view is not. Errors: NO_MEMORY.
 *
 * RANDOM shuffles, AS_IS leaves the slots alone. OPTIMAL colours the edges such that no worker has
 * a colour twice and each chunk's colours are spread evenly, and sorts by colour. With N = m and
 * all loads and replications equal, a colour is a perfect matching, so that every chunk stands once
 * at every position.
 */
int order_arrange(tarry_plan *plan, tarry_order order, uint64_t seed);

#endif
