/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PG(2, q) as the affine plane and the line at infinity: chunk q^2 + s is the point at infinity
 * that the lines of slope s have in common, and the last worker is the line of these.
 */
#include "plan/design/design.h"

#include <stdio.h>

#include "base/diagnostic.h"
#include "plan/design/plane.h"

static plane_size projective(uint32_t order)
{
    uint32_t points = order * order + order + 1;
    return (plane_size){points, points, order + 1, 1};
}

static int refuse(const tarry_plan *plan, uint32_t replication, tarry_diagnostic *diagnostic)
{
    plane_size near = plane_nearest(projective, plan->workers, replication);
    plane_size single = plane_nearest_single(projective, plan->workers);
    char other[64] = "";
    if (near.workers != single.workers)
        snprintf(other, sizeof(other), ", or %u with replication %u (1 of order %u)",
                 single.workers, single.replication, single.replication - 1);
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                    "projective planes have q^2+q+1 workers, as many chunks and replication q+1 "
                    "for a prime power q, not %u workers, %u chunks and replication %u; nearest "
                    "are %u workers and chunks with replication %u (%u of order %u)%s",
                    plan->workers, plan->chunks, replication, near.workers, near.replication,
                    near.planes, near.replication - 1, other);
}

/* Lists the plane's points, counted from `first`, line by line. */
static void list_points(const field *gf, uint32_t first, uint32_t *list)
{
    uint32_t order = field_order(gf), lines = order * order + order;
    for (uint32_t line = 0; line < lines; line++, list += order + 1) {
        plane_line(gf, line, list);
        list[order] = order * order + line / order;
        for (uint32_t index = 0; index <= order; index++)
            list[index] += first;
    }
    for (uint32_t slope = 0; slope <= order; slope++)
        list[slope] = first + order * order + slope;
}

int design_projective(tarry_plan *plan, uint32_t replication, tarry_diagnostic *diagnostic)
{
    uint32_t planes = 0;
    uint32_t order = plane_fit(projective, plan, replication, &planes);
    if (order == 0)
        return refuse(plan, replication, diagnostic);
    field *gf = NULL;
    int error = field_create(order, &plan->allocator, &gf);
    if (error != TARRY_OK)
        return error;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        plan->worker_offset[worker + 1] = order + 1;
    error = design_take_slots(plan);
    if (error == TARRY_OK) {
        uint32_t points = projective(order).chunks;
        for (uint32_t plane = 0; plane < planes; plane++) {
            uint32_t first = plane * points;
            list_points(gf, first, plan->slot_chunk + plan->worker_offset[first]);
        }
    }
    field_free(gf);
    return error;
}
