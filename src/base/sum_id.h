/* SPDX-License-Identifier: Apache-2.0 */
/* Names of sums (tarry/event.h). */
#ifndef BASE_SUM_ID_H
#define BASE_SUM_ID_H

#include <stdbool.h>

#include <tarry/event.h>

/* Whether both name the same sum, whatever its bits; no sum (step 0) is the same as no sum. */
static inline bool sum_id_named(const tarry_sum_id *one, const tarry_sum_id *other)
{
    return one->step == other->step &&
           (one->step == 0 || (one->term == other->term && one->attempt == other->attempt));
}

/* Whether they are the same sum, to the bit. */
static inline bool sum_id_same(const tarry_sum_id *one, const tarry_sum_id *other)
{
    return sum_id_named(one, other) && (one->step == 0 || one->digest == other->digest);
}

/* Whether a state after the sum `after` does for one who wants that after `wanted`. */
static inline bool sum_id_suffices(const tarry_sum_id *after, const tarry_sum_id *wanted)
{
    return after->step > wanted->step || sum_id_same(after, wanted);
}

#endif
