/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/design/plane.h"

/* The next prime power, 2^10, has more copies than a plan may have. */
#define MOST_ORDER 1021

void plane_line(const field *gf, uint32_t line, uint32_t *points)
{
    uint32_t order = field_order(gf), slope = line / order, shift = line % order;
    for (uint32_t at = 0; at < order; at++) {
        if (slope == order)
            points[at] = shift * order + at;
        else
            points[at] = at * order + field_add(gf, field_multiply(gf, slope, at), shift);
    }
}

void plane_pencil(const field *gf, uint32_t point, uint32_t *lines)
{
    uint32_t order = field_order(gf), x = point / order, y = point % order;
    for (uint32_t slope = 0; slope < order; slope++)
        lines[slope] = slope * order + field_subtract(gf, y, field_multiply(gf, slope, x));
    lines[order] = order * order + x;
}

uint32_t plane_fit(plane_family *family, const tarry_plan *plan, uint32_t replication,
                   uint32_t *planes)
{
    /* Every family's replication is the order or one more. */
    for (uint32_t order = replication - 1; order <= replication && order <= MOST_ORDER; order++) {
        if (!field_exists(order))
            continue;
        plane_size one = family(order);
        uint32_t count = plan->workers / one.workers;
        if (one.replication == replication && (uint64_t)count * one.workers == plan->workers &&
            (uint64_t)count * one.chunks == plan->chunks) {
            *planes = count;
            return order;
        }
    }
    return 0;
}

static uint32_t distance(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

plane_size plane_nearest_single(plane_family *family, uint32_t workers)
{
    plane_size best = family(2);
    for (uint32_t order = 3; order <= MOST_ORDER; order++) {
        plane_size one = family(order);
        if (field_exists(order) && distance(one.workers, workers) < distance(best.workers, workers))
            best = one;
    }
    return best;
}

plane_size plane_nearest(plane_family *family, uint32_t workers, uint32_t replication)
{
    for (uint32_t order = replication - 1; order <= replication && order <= MOST_ORDER; order++) {
        if (!field_exists(order) || family(order).replication != replication)
            continue;
        plane_size size = family(order);
        size.planes = workers / size.workers;
        if (size.planes == 0 || workers % size.workers > size.workers / 2)
            size.planes++;
        size.workers *= size.planes;
        size.chunks *= size.planes;
        return size;
    }
    return plane_nearest_single(family, workers);
}
