/* SPDX-License-Identifier: Apache-2.0 */
/* Local improvement of an order. */
#ifndef PLAN_IMPROVE_H
#define PLAN_IMPROVE_H

#include "plan/plan.h"

/*
 * Raises the least slack (q.h) for `copies` = plan->parts, and so lowers Q_l, by exchanging two
 * positions of a worker at a time, until the bound is reached, no exchange helps, or a fixed amount
 * of work is done. Chance is drawn from `seed`. Both views of the assignment are set and
 * stay consistent. Errors: NO_MEMORY; the plan is then unchanged.
 */
int improve_order(tarry_plan *plan, uint64_t seed);

#endif
