/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/design/design.h"

#include "base/diagnostic.h"
#include "plan/design/plane.h"

/* Workers are lines, chunks are points. */
static plane_size lines_of_points(uint32_t order)
{
    return (plane_size){order * order + order, order * order, order + 1, 1};
}

/* The dual: workers are points, chunks are lines. */
static plane_size points_of_lines(uint32_t order)
{
    return (plane_size){order * order, order * order + order, order, 1};
}

static int refuse(const tarry_plan *plan, uint32_t replication, tarry_diagnostic *diagnostic)
{
    plane_size near = plane_nearest(lines_of_points, plan->workers, replication);
    plane_size dual = plane_nearest(points_of_lines, plan->workers, replication);
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                    "affine planes have q^2+q workers, q^2 chunks and replication q+1, or q^2 "
                    "workers, q^2+q chunks and replication q, for a prime power q, not %u workers, "
                    "%u chunks and replication %u; nearest are %u workers, %u chunks, replication "
                    "%u (%u of order %u) and %u workers, %u chunks, replication %u (%u of order "
                    "%u)",
                    plan->workers, plan->chunks, replication, near.workers, near.chunks,
                    near.replication, near.planes, near.replication - 1, dual.workers, dual.chunks,
                    dual.replication, dual.planes, dual.replication);
}

int design_affine(tarry_plan *plan, uint32_t replication, tarry_diagnostic *diagnostic)
{
    bool dual = plan->chunks > plan->workers;
    plane_family *family = dual ? points_of_lines : lines_of_points;
    uint32_t planes = 0;
    uint32_t order = plane_fit(family, plan, replication, &planes);
    if (order == 0)
        return refuse(plan, replication, diagnostic);
    field *gf = NULL;
    int error = field_create(order, &plan->allocator, &gf);
    if (error != TARRY_OK)
        return error;
    plane_size one = family(order);
    uint32_t load = dual ? order + 1 : order;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        plan->worker_offset[worker + 1] = load;
    error = design_take_slots(plan);
    for (uint32_t worker = 0; error == TARRY_OK && worker < plan->workers; worker++) {
        uint32_t *list = plan->slot_chunk + plan->worker_offset[worker];
        if (dual)
            plane_pencil(gf, worker % one.workers, list);
        else
            plane_line(gf, worker % one.workers, list);
        for (uint32_t index = 0; index < load; index++)
            list[index] += worker / one.workers * one.chunks;
    }
    field_free(gf);
    return error;
}
