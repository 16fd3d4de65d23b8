/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of plans that change share. */
#ifndef TEST_EVOLVE_CHECK_H
#define TEST_EVOLVE_CHECK_H

#include <math.h>

#include "plan_check.h"

static inline bool holds(const tarry_plan *plan, uint32_t chunk, uint32_t worker)
{
    for (uint32_t index = 0; index < tarry_plan_replication(plan, chunk); index++)
        if (tarry_plan_holder(plan, chunk, index) == worker)
            return true;
    return false;
}

/* Equal but for the rounding of a flow in whole units; infinite ones, too. */
static inline bool near(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-6 * fabs(b);
}

#endif
