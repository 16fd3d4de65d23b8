/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "plan/span/span.h"

/* A span of a chunk, and the cost of an original chunk at its density. */
typedef struct stretch {
    tarry_span span;
    double density;
} stretch;

static int compare(const void *a, const void *b)
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
    qsort(list, listed, sizeof(*list), compare);
}

/* The stretch in which a span begins: the last that doesn't begin behind it. */
static uint32_t find_stretch(const stretch *list, uint32_t count, tarry_span span)
{
    const stretch wanted = {.span = span};
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (compare(&list[middle], &wanted) <= 0)
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
