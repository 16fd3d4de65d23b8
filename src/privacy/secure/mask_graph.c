/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/secure/mask_graph.h"

/* How far apart on the circle neighbours may be; 0: all are neighbours. */
static uint32_t reach_of(uint32_t members, uint32_t colluders)
{
    const uint64_t wanted =
        colluders < MASK_GRAPH_DEGREE ? MASK_GRAPH_DEGREE : (uint64_t)colluders + 1;
    const uint64_t reach = (wanted + 1) / 2;
    if (members <= MASK_GRAPH_COMPLETE || 2 * reach >= members - 1)
        return 0;
    return (uint32_t)reach;
}

uint32_t mask_graph_degree(uint32_t members, uint32_t colluders)
{
    const uint32_t reach = reach_of(members, colluders);
    return reach == 0 ? members - 1 : 2 * reach;
}

void mask_graph_neighbours(uint32_t members, uint32_t colluders, uint32_t position,
                           uint32_t *neighbours)
{
    const uint32_t reach = reach_of(members, colluders);
    for (uint32_t other = 0; other < members; other++) {
        const uint32_t ahead = other >= position ? other - position : members - (position - other);
        const uint32_t apart = ahead < members - ahead ? ahead : members - ahead;
        if (other != position && (reach == 0 || apart <= reach))
            *neighbours++ = other;
    }
}
