/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/steering/pick.h"

size_t pick_fewest(const pick_candidate *candidates, size_t count)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++)
        if (best == count || candidates[i].copies < candidates[best].copies)
            best = i;
    return best;
}

static bool is_worth_it(const pick_candidate *candidate)
{
    return candidate->copies < candidate->wanted || candidate->own_ns < candidate->others_ns;
}

size_t pick_capacity(const pick_candidate *candidates, size_t count)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++) {
        const pick_candidate *it = &candidates[i];
        if (!is_worth_it(it))
            continue;
        if (best == count || it->copies < candidates[best].copies ||
            (it->copies == candidates[best].copies && it->capacity < candidates[best].capacity))
            best = i;
    }
    return best;
}

pick_rule *pick_rule_of(tarry_pick pick)
{
    switch (pick) {
    case TARRY_PICK_PLAN:
    case TARRY_PICK_SHARE:
        break;
    case TARRY_PICK_FEWEST:
        return pick_fewest;
    case TARRY_PICK_CAPACITY:
        return pick_capacity;
    }
    return NULL;
}
