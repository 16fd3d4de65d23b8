/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_tree.h"

#include "route/route.h"

/* Where the seat stands in the first tree, whose shape the tree has. */
static uint32_t number_of(uint32_t count, uint32_t tree, uint32_t seat)
{
    if (tree == 0)
        return seat;
    return count % 2 == 0 ? count - 1 - seat : (seat + count - 1) % count;
}

static uint32_t seat_of(uint32_t count, uint32_t tree, uint32_t number)
{
    if (tree == 0)
        return number;
    return count % 2 == 0 ? count - 1 - number : (number + 1) % count;
}

/* Number 0 is the root, with one child, the largest power of two that there is. Any other number
 * is c00..0 in bits after its last 1, and stands above those which differ from it below that 1. */
uint32_t route_tree_parent(uint32_t count, uint32_t tree, uint32_t seat)
{
    uint32_t number = number_of(count, tree, seat);
    if (number == 0)
        return ROUTE_NOBODY;
    uint32_t bit = number & -number, rest = number ^ bit;
    uint64_t above = (uint64_t)rest | (uint64_t)bit << 1;
    return seat_of(count, tree, above < count ? (uint32_t)above : rest);
}

uint32_t route_tree_children(uint32_t count, uint32_t tree, uint32_t seat,
                             uint32_t children[ROUTE_CHILDREN])
{
    uint32_t number = number_of(count, tree, seat), found = 0;
    if (number == 0) {
        uint32_t most = 1;
        while (most <= (count - 1) / 2)
            most *= 2;
        if (count > 1)
            children[found++] = seat_of(count, tree, most);
        return found;
    }
    uint32_t bit = (number & -number) >> 1;
    if (bit > 0)
        children[found++] = seat_of(count, tree, number - bit);
    while (bit > 0 && number + bit >= count)
        bit >>= 1;
    if (bit > 0)
        children[found++] = seat_of(count, tree, number + bit);
    return found;
}

uint32_t route_tree_depth(uint32_t count)
{
    uint32_t depth = 0;
    for (uint32_t below = count - 1; below > 0; below >>= 1)
        depth++;
    return depth;
}
