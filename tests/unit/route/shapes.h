/* SPDX-License-Identifier: Apache-2.0 */
/* All shapes that a group of so many can have. */
#ifndef TESTS_SHAPES_H
#define TESTS_SHAPES_H

#include "route/route.h"

/* The shape number `index` of a group; false: there are no more. */
static inline bool shape_at(uint32_t count, uint32_t index, route *of)
{
    const tarry_shape_kind kind = index == 0   ? TARRY_SHAPE_DIRECT
                                  : index == 1 ? TARRY_SHAPE_TREE
                                               : TARRY_SHAPE_GRID;
    *of = (route){{kind, kind == TARRY_SHAPE_GRID ? index : 0}, count};
    return route_is_legal(of->shape, count);
}

#endif
