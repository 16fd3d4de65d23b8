/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The affine plane AG(2, q): the points (x, y) over GF(q), q^2 of them, and the lines
 * y = slope x + shift and x = shift, q^2 + q of them. Point x q + y is (x, y). Line slope q + shift
 * is the former, line q q + shift the latter; the q lines of a slope (q stands for the vertical
 * one) are a parallel class: each point lies on one of them.
 *
 * And the sizes of the designs that are made from planes, one or several side by side.
 */
#ifndef PLAN_PLANE_H
#define PLAN_PLANE_H

#include "plan/design/field.h"
#include "plan/plan.h"

/* The q points of `line` (0..q^2+q-1), by ascending x (by ascending y where it is vertical). */
void plane_line(const field *gf, uint32_t line, uint32_t *points);
/* The q + 1 lines through `point` (0..q^2-1), in ascending order. */
void plane_pencil(const field *gf, uint32_t point, uint32_t *lines);

typedef struct plane_size {
    uint32_t workers, chunks, replication;
    uint32_t planes; /* how many stand side by side */
} plane_size;

/* The size of a family's design on one plane of order q, a prime power. */
typedef plane_size plane_family(uint32_t order);

/*
 * The order q of the planes that make the family's design for these workers, chunks and
 * replication, and how many of them it takes; 0 if there are none such.
 */
uint32_t plane_fit(plane_family *family, const tarry_plan *plan, uint32_t replication,
                   uint32_t *planes);

/* The family's size with the workers nearest to `workers`: with the replication asked for if a
 * plane has it, or else that of one plane. */
plane_size plane_nearest(plane_family *family, uint32_t workers, uint32_t replication);
/* The same among single planes, of any replication. */
plane_size plane_nearest_single(plane_family *family, uint32_t workers);

#endif
