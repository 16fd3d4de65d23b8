/* SPDX-License-Identifier: Apache-2.0 */
/* Small plans, all made before the first execution, so that how they are made neither counts as
 * coverage nor takes the time. */
#ifndef FUZZ_PLANS_H
#define FUZZ_PLANS_H

#include <tarry/plan.h>

#include "fuzz_input.h"

enum { FUZZ_MOST_WORKERS = 5, FUZZ_MOST_CHUNKS = 6 };

/* The plan that the next five bytes choose; it stays until the process ends. Of some the first
 * chunk is split, so that there are more than FUZZ_MOST_CHUNKS; some have racks. */
const tarry_plan *take_plan(input *in);

#endif
