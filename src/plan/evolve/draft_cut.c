/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/evolve/draft.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/span/span.h"

/* What becomes of each chunk. */
typedef struct cuts {
    const tarry_plan *from;
    const double *cost;
    uint32_t *pieces; /* a power of two; 1: not split */
    uint32_t *head;   /* the first chunk of those merged with it: itself if none is before it */
    uint32_t *next;   /* merged with it, ascending; CHUNK_NONE ends the list */
} cuts;

#define CHUNK_NONE UINT32_MAX

/* ---- which are split ---- */

static uint32_t pieces_of(const tarry_plan *plan, uint32_t chunk, double cost, double most)
{
    uint32_t count, pieces = 1;
    tarry_span whole;
    const tarry_span *spans = span_list(plan, chunk, &whole, &count);
    while (cost / pieces > most && pieces < SPAN_MOST_UNITS &&
           span_can_cut(spans, count, 2 * pieces))
        pieces *= 2;
    return pieces;
}

static void choose_splits(cuts *made, double most, tarry_plan_changes *changes)
{
    for (uint32_t chunk = 0; chunk < made->from->chunks; chunk++) {
        made->pieces[chunk] = pieces_of(made->from, chunk, made->cost[chunk], most);
        changes->split += made->pieces[chunk] > 1;
    }
}

/* ---- which are merged ---- */

typedef struct candidate {
    const tarry_plan *plan;
    uint32_t chunk;
} candidate;

static int compare_holders(const tarry_plan *plan, uint32_t a, uint32_t b)
{
    uint32_t replication = tarry_plan_replication(plan, a), other = tarry_plan_replication(plan, b);
    if (replication != other)
        return replication < other ? -1 : 1;
    const uint32_t *x = plan->holder_worker + plan->chunk_offset[a];
    const uint32_t *y = plan->holder_worker + plan->chunk_offset[b];
    for (uint32_t i = 0; i < replication; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* By holders, then by what they stand for, so that parts of a chunk meet again. */
static int compare_candidates(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    int order = compare_holders(x->plan, x->chunk, y->chunk);
    if (order != 0)
        return order;
    tarry_span first = tarry_plan_span(x->plan, x->chunk, 0);
    tarry_span second = tarry_plan_span(y->plan, y->chunk, 0);
    if (first.origin != second.origin)
        return first.origin < second.origin ? -1 : 1;
    return (span_begin(first) > span_begin(second)) - (span_begin(first) < span_begin(second));
}

/* One bin per set of holders is open at a time: of two that don't fit together, the lighter. */
static void fill_bins(cuts *made, const candidate *sorted, uint32_t count, double least,
                      double mean)
{
    uint32_t open = CHUNK_NONE;
    double filled = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t chunk = sorted[i].chunk;
        double cost = made->cost[chunk];
        bool same = open != CHUNK_NONE && compare_holders(made->from, open, chunk) == 0;
        if (same && (filled < least || cost < least) && filled + cost <= mean) {
            made->head[chunk] = open;
            filled += cost;
        } else if (!same || cost < filled) {
            open = chunk;
            filled = cost;
        }
    }
}

/* Makes the first chunk of each bin its head, and links the bin's chunks. */
static void link_bins(cuts *made, tarry_plan_changes *changes)
{
    uint32_t chunks = made->from->chunks;
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        made->next[chunk] = CHUNK_NONE;
    /* for now, next[] of a bin's opener says which chunk is the bin's first */
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        uint32_t opener = made->head[chunk];
        if (made->next[opener] == CHUNK_NONE)
            made->next[opener] = chunk;
        made->head[chunk] = made->next[opener];
        changes->merged += made->head[chunk] != chunk;
    }
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        made->next[chunk] = CHUNK_NONE;
    for (uint32_t chunk = chunks; chunk-- > 0;)
        if (made->head[chunk] != chunk) {
            made->next[chunk] = made->next[made->head[chunk]];
            made->next[made->head[chunk]] = chunk;
        }
}

static int choose_merges(cuts *made, double least, double mean, const tarry_allocator *allocator,
                         tarry_plan_changes *changes)
{
    const tarry_plan *plan = made->from;
    uint32_t count = 0, light = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        made->head[chunk] = chunk;
        light += made->cost[chunk] < least;
    }
    if (light > 0) {
        candidate *sorted = memory_allocate(allocator, plan->chunks, sizeof(*sorted));
        if (sorted == NULL)
            return TARRY_ERROR_NO_MEMORY;
        for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
            if (made->pieces[chunk] == 1)
                sorted[count++] = (candidate){plan, chunk};
        qsort(sorted, count, sizeof(*sorted), compare_candidates);
        fill_bins(made, sorted, count, least, mean);
        memory_release(allocator, sorted);
    }
    link_bins(made, changes);
    return TARRY_OK;
}

/* ---- the draft ---- */

typedef struct sizes {
    uint64_t chunks, copies, spans; /* spans: at most */
} sizes;

static sizes sizes_of(const cuts *made)
{
    sizes sum = {0};
    for (uint32_t chunk = 0; chunk < made->from->chunks; chunk++) {
        uint64_t pieces = made->pieces[chunk];
        sum.spans += pieces * tarry_plan_span_count(made->from, chunk);
        if (made->head[chunk] != chunk)
            continue;
        sum.chunks += pieces;
        sum.copies += pieces * tarry_plan_replication(made->from, chunk);
    }
    return sum;
}

static int take_draft(draft *made, const sizes *size, const tarry_allocator *allocator)
{
    size_t chunks = (size_t)size->chunks;
    made->cost = memory_allocate(allocator, chunks, sizeof(*made->cost));
    made->parent = memory_allocate(allocator, chunks, sizeof(*made->parent));
    made->offset = memory_allocate(allocator, chunks + 1, sizeof(*made->offset));
    made->holder = memory_allocate(allocator, (size_t)size->copies, sizeof(*made->holder));
    made->span_offset = memory_allocate(allocator, chunks + 1, sizeof(*made->span_offset));
    made->span = memory_allocate(allocator, (size_t)size->spans, sizeof(*made->span));
    bool taken = made->cost != NULL && made->parent != NULL && made->offset != NULL &&
                 made->holder != NULL && made->span_offset != NULL && made->span != NULL;
    return taken ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

/* Adds a chunk of `spans` spans, which stand behind those of the chunks before it, held as
 * `parent` is. */
static void add_chunk(draft *made, uint32_t parent, double cost, uint32_t spans)
{
    const tarry_plan *plan = made->from;
    uint32_t chunk = made->chunks++, replication = tarry_plan_replication(plan, parent);
    made->cost[chunk] = cost;
    made->parent[chunk] = parent;
    made->offset[chunk + 1] = made->offset[chunk] + replication;
    memcpy(made->holder + made->offset[chunk], plan->holder_worker + plan->chunk_offset[parent],
           replication * sizeof(*made->holder));
    made->span_offset[chunk + 1] = made->span_offset[chunk] + spans;
}

static void add_pieces(draft *made, const cuts *of, uint32_t chunk)
{
    uint32_t count, pieces = of->pieces[chunk];
    tarry_span whole;
    const tarry_span *spans = span_list(of->from, chunk, &whole, &count);
    for (uint32_t piece = 0; piece < pieces; piece++) {
        tarry_span *part = made->span + made->span_offset[made->chunks];
        uint32_t found = span_cut(spans, count, pieces, piece, part);
        add_chunk(made, chunk, of->cost[chunk] / pieces, found);
    }
}

static void add_bin(draft *made, const cuts *of, uint32_t head)
{
    tarry_span *list = made->span + made->span_offset[made->chunks];
    uint32_t found = 0;
    double cost = 0;
    for (uint32_t chunk = head; chunk != CHUNK_NONE; chunk = of->next[chunk]) {
        uint32_t count;
        tarry_span whole;
        const tarry_span *spans = span_list(of->from, chunk, &whole, &count);
        memcpy(list + found, spans, count * sizeof(*spans));
        found += count;
        cost += of->cost[chunk];
    }
    add_chunk(made, head, cost, span_put_in_order(list, found));
}

static int assemble(draft *made, const cuts *of, const tarry_allocator *allocator,
                    tarry_diagnostic *diagnostic)
{
    sizes size = sizes_of(of);
    if (size.copies > PLAN_MAX_EDGES || size.spans > PLAN_MAX_EDGES)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the chunks that are split make more than %u copies", PLAN_MAX_EDGES);
    int error = take_draft(made, &size, allocator);
    if (error != TARRY_OK)
        return error;
    for (uint32_t chunk = 0; chunk < of->from->chunks; chunk++) {
        if (of->pieces[chunk] > 1)
            add_pieces(made, of, chunk);
        else if (of->head[chunk] == chunk)
            add_bin(made, of, chunk);
    }
    assert(made->chunks == size.chunks && made->offset[made->chunks] == size.copies);
    return TARRY_OK;
}

int draft_cut(draft *out, const tarry_plan *from, const double *cost, double most, double least,
              double mean, const tarry_allocator *allocator, tarry_plan_changes *changes,
              tarry_diagnostic *diagnostic)
{
    draft made = {.from = from, .racks = from->racks, .rack = from->rack};
    cuts chosen = {.from = from, .cost = cost};
    chosen.pieces = memory_allocate(allocator, from->chunks, sizeof(*chosen.pieces));
    chosen.head = memory_allocate(allocator, from->chunks, sizeof(*chosen.head));
    chosen.next = memory_allocate(allocator, from->chunks, sizeof(*chosen.next));
    int error = TARRY_ERROR_NO_MEMORY;
    if (chosen.pieces == NULL || chosen.head == NULL || chosen.next == NULL)
        goto release;
    tarry_plan_changes counts = {0};
    choose_splits(&chosen, most, &counts);
    error = choose_merges(&chosen, least, mean, allocator, &counts);
    if (error == TARRY_OK)
        error = assemble(&made, &chosen, allocator, diagnostic);
    if (error != TARRY_OK) {
        draft_destroy(&made, allocator);
        goto release;
    }
    changes->split = counts.split;
    changes->merged = counts.merged;
    *out = made;

release:
    memory_release(allocator, chosen.next);
    memory_release(allocator, chosen.head);
    memory_release(allocator, chosen.pieces);
    return error;
}

void draft_destroy(draft *made, const tarry_allocator *allocator)
{
    memory_release(allocator, made->span);
    memory_release(allocator, made->span_offset);
    memory_release(allocator, made->holder);
    memory_release(allocator, made->offset);
    memory_release(allocator, made->parent);
    memory_release(allocator, made->cost);
}
