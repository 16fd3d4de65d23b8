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

/* ---- carry ---- */

/* A span of a chunk, and the cost of an original chunk at its density. */
typedef struct stretch {
    tarry_span span;
    double density;
} stretch;

static int compare_stretches(const void *a, const void *b)
{
    const stretch *x = a, *y = b;
    if (x->span.origin != y->span.origin)
        return x->span.origin < y->span.origin ? -1 : 1;
    double begin = span_begin(x->span), other = span_begin(y->span);
    return (begin > other) - (begin < other);
}

static uint32_t count_spans(const tarry_plan *plan)
{
    return plan->span == NULL ? plan->chunks : plan->span_offset[plan->chunks];
}

/* All spans of the plan, in the sequence of the data. */
static void list_stretches(const tarry_plan *plan, const double *cost, stretch *list)
{
    uint32_t listed = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t count;
        tarry_span whole;
        const tarry_span *spans = span_list(plan, chunk, &whole, &count);
        double density = cost[chunk] / span_size(spans, count);
        for (uint32_t i = 0; i < count; i++)
            list[listed++] = (stretch){spans[i], density};
    }
    qsort(list, listed, sizeof(*list), compare_stretches);
}

/* The stretch in which a span begins: the last that doesn't begin behind it. */
static uint32_t find_stretch(const stretch *list, uint32_t count, tarry_span span)
{
    const stretch wanted = {.span = span};
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_stretches(&list[middle], &wanted) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static double cost_of_span(const stretch *list, uint32_t count, tarry_span span)
{
    double cost = 0, place = span_begin(span), end = span_end(span);
    for (uint32_t i = find_stretch(list, count, span); place < end; i++) {
        assert(i < count && list[i].span.origin == span.origin);
        double stop = span_end(list[i].span) < end ? span_end(list[i].span) : end;
        cost += list[i].density * (stop - place);
        place = stop;
    }
    return cost;
}

int tarry_plan_carry_cost(const tarry_plan *from, const double *cost, const tarry_plan *to,
                          const tarry_allocator *allocator, double *carried)
{
    assert(from->origins == to->origins);
    uint32_t count = count_spans(from);
    stretch *list = memory_allocate(allocator, count, sizeof(*list));
    if (list == NULL)
        return TARRY_ERROR_NO_MEMORY;
    list_stretches(from, cost, list);
    for (uint32_t chunk = 0; chunk < to->chunks; chunk++) {
        uint32_t spans;
        tarry_span whole;
        const tarry_span *first = span_list(to, chunk, &whole, &spans);
        carried[chunk] = 0;
        for (uint32_t i = 0; i < spans; i++)
            carried[chunk] += cost_of_span(list, count, first[i]);
    }
    memory_release(allocator, list);
    return TARRY_OK;
}
