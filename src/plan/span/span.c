/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/span/span.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

static_assert(PLAN_ORIGIN_WEIGHT == SPAN_MOST_UNITS, "the finest span weighs 1");

uint32_t tarry_plan_origins(const tarry_plan *plan)
{
    return plan->origins;
}

bool tarry_plan_is_original(const tarry_plan *plan)
{
    return plan->span == NULL;
}

uint32_t tarry_plan_span_count(const tarry_plan *plan, uint32_t chunk)
{
    return plan->span == NULL ? 1 : plan->span_offset[chunk + 1] - plan->span_offset[chunk];
}

tarry_span tarry_plan_span(const tarry_plan *plan, uint32_t chunk, uint32_t index)
{
    return plan->span == NULL ? (tarry_span){.origin = chunk, .count = 1, .of = 1}
                              : plan->span[plan->span_offset[chunk] + index];
}

void tarry_span_samples(tarry_span span, uint64_t samples, uint64_t *begin, uint64_t *end)
{
    *begin = span.first * samples / span.of;
    *end = ((uint64_t)span.first + span.count) * samples / span.of;
}

const tarry_span *span_list(const tarry_plan *plan, uint32_t chunk, tarry_span *whole,
                            uint32_t *count)
{
    *count = tarry_plan_span_count(plan, chunk);
    if (plan->span != NULL)
        return plan->span + plan->span_offset[chunk];
    *whole = tarry_plan_span(plan, chunk, 0);
    return whole;
}

double span_begin(tarry_span span)
{
    return (double)span.first / span.of;
}

double span_end(tarry_span span)
{
    return ((double)span.first + span.count) / span.of;
}

double span_size(const tarry_span *spans, uint32_t count)
{
    double size = 0;
    for (uint32_t i = 0; i < count; i++)
        size += (double)spans[i].count / spans[i].of;
    return size;
}

int span_weigh(tarry_plan *plan)
{
    plan->weight = memory_allocate(&plan->allocator, plan->chunks, sizeof(*plan->weight));
    if (plan->weight == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
        for (uint32_t i = plan->span_offset[chunk]; i < plan->span_offset[chunk + 1]; i++)
            plan->weight[chunk] += PLAN_ORIGIN_WEIGHT / plan->span[i].of * plan->span[i].count;
    return TARRY_OK;
}

/* ---- putting in order ---- */

static void coarsen(tarry_span *span)
{
    while (span->of > 1 && span->first % 2 == 0 && span->count % 2 == 0) {
        span->first /= 2;
        span->count /= 2;
        span->of /= 2;
    }
}

/* Says the span in units of which `of` make an original chunk; not coarser than its own. */
static void refine(tarry_span *span, uint32_t of)
{
    uint32_t factor = of / span->of;
    span->first *= factor;
    span->count *= factor;
    span->of = of;
}

static int compare(const void *a, const void *b)
{
    const tarry_span *x = a, *y = b;
    if (x->origin != y->origin)
        return x->origin < y->origin ? -1 : 1;
    return (span_begin(*x) > span_begin(*y)) - (span_begin(*x) < span_begin(*y));
}

uint32_t span_put_in_order(tarry_span *spans, uint32_t count)
{
    assert(count >= 1);
    qsort(spans, count, sizeof(*spans), compare);
    uint32_t last = 0;
    for (uint32_t i = 1; i < count; i++) {
        tarry_span *before = &spans[last], next = spans[i];
        if (before->origin == next.origin && span_end(*before) >= span_begin(next)) {
            assert(span_end(*before) <= span_begin(next));
            uint32_t of = before->of > next.of ? before->of : next.of;
            refine(before, of);
            refine(&next, of);
            before->count += next.count;
        } else {
            spans[++last] = next;
        }
    }
    for (uint32_t i = 0; i <= last; i++)
        coarsen(&spans[i]);
    return last + 1;
}

/* ---- cutting ---- */

/* Units in which the list can be cut into `pieces`: how many make an original chunk, and how many
 * the list has. The former can be beyond SPAN_MOST_UNITS. */
static uint64_t units_of_cut(const tarry_span *spans, uint32_t count, uint32_t pieces,
                             uint64_t *length)
{
    uint64_t of = 1, units = 0;
    for (uint32_t i = 0; i < count; i++)
        of = spans[i].of > of ? spans[i].of : of;
    for (uint32_t i = 0; i < count; i++)
        units += spans[i].count * (of / spans[i].of);
    while (units % pieces != 0) {
        units *= 2;
        of *= 2;
    }
    *length = units;
    return of;
}

bool span_can_cut(const tarry_span *spans, uint32_t count, uint32_t pieces)
{
    uint64_t length;
    return units_of_cut(spans, count, pieces, &length) <= SPAN_MOST_UNITS;
}

uint32_t span_cut(const tarry_span *spans, uint32_t count, uint32_t pieces, uint32_t index,
                  tarry_span *part)
{
    uint64_t length;
    uint32_t of = (uint32_t)units_of_cut(spans, count, pieces, &length);
    uint64_t begin = length / pieces * index, end = begin + length / pieces;
    uint64_t place = 0; /* along the list */
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        tarry_span fine = spans[i];
        refine(&fine, of);
        uint64_t here = place;
        place += fine.count;
        if (place <= begin || here >= end)
            continue;
        uint64_t from = begin > here ? begin - here : 0;
        uint64_t to = end < place ? end - here : fine.count;
        part[found] = fine;
        part[found].first += (uint32_t)from;
        part[found].count = (uint32_t)(to - from);
        coarsen(&part[found++]);
    }
    return found;
}
