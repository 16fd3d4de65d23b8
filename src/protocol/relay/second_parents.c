/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/relay/second_parents.h"

#include <stdbool.h>

enum {
    ALIKE = 16, /* children more are no reason to prefer another one, nor is half as many more */
    CLASSES = 4,
};

/* Nor is so much more time, nor half as much more. */
#define ALIKE_NS UINT64_C(1000000)

typedef struct least_of {
    uint32_t lanes;
    uint64_t round_trip_ns;
} least_of;

static least_of find_least(const second_parent *of, uint32_t count, uint32_t own)
{
    least_of least = {UINT32_MAX, UINT64_MAX};
    for (uint32_t i = 0; i < count; i++) {
        if (i == own)
            continue;
        if (of[i].lanes < least.lanes)
            least.lanes = of[i].lanes;
        if (of[i].round_trip_ns > 0 && of[i].round_trip_ns < least.round_trip_ns)
            least.round_trip_ns = of[i].round_trip_ns;
    }
    return least;
}

/* Which of the classes it is in, the best of which is 0. */
static int class_of(const second_parent *of, const least_of *least)
{
    bool many = of->lanes > (uint64_t)least->lanes + least->lanes / 2 + ALIKE;
    bool slow = of->round_trip_ns > 0 &&
                of->round_trip_ns - least->round_trip_ns > least->round_trip_ns / 2 + ALIKE_NS;
    return 2 * slow + many;
}

uint32_t second_parents_choose(const second_parent *of, uint32_t count, uint32_t own,
                               uint32_t worker, uint32_t chosen[WIRE_PARENTS_MOST])
{
    const least_of least = find_least(of, count, own);
    uint32_t found = 0;
    for (int class = 0; class < CLASSES; class ++)
        for (uint32_t i = 0; i < count && found < WIRE_PARENTS_MOST; i++) {
            uint32_t at = (worker % count + i) % count;
            if (at != own && class_of(&of[at], &least) == class)
                chosen[found++] = at;
        }
    return found;
}
