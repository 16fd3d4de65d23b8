/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of spans. All numbers of units are powers of two, so that the coarser of two units is a
 * whole number of the finer, and cuts of cuts stay exact.
 *
 * A list is in order if its spans ascend by origin and place, no two touch or overlap, and each is
 * in its coarsest units.
 */
#ifndef PLAN_SPAN_H
#define PLAN_SPAN_H

#include "plan/plan.h"

/* The finest that a span can say. */
#define SPAN_MOST_UNITS (UINT32_C(1) << 31)

/* The spans of a chunk; *whole is set, and pointed at, where the plan stores none. */
const tarry_span *span_list(const tarry_plan *plan, uint32_t chunk, tarry_span *whole,
                            uint32_t *count);

/* Where the span begins and ends, and what it holds, in original chunks; exact. */
double span_begin(tarry_span span);
double span_end(tarry_span span);
double span_size(const tarry_span *spans, uint32_t count);

/* Sets the weights of the plan's chunks from their spans, of which it has some. Errors: NO_MEMORY.
 */
int span_weigh(tarry_plan *plan);

#endif
