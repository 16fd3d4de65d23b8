/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/evolve/evolve.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/decode/decode.h"
#include "plan/plan.h"
#include "plan/rack/rack.h"

/* The next plan while it is being made: chunks, what they stand for, and their holders. */
typedef struct draft {
    const tarry_plan *from;
    uint32_t chunks;
    double *cost;     /* per chunk */
    uint32_t *parent; /* per chunk: a chunk of `from`: what it is, is a part of, or took in first */
    uint32_t *offset; /* chunks + 1: chunk i's copies are offset[i] .. offset[i + 1] - 1 */
    uint32_t *holder; /* per copy: a worker; at first in the sequence of the parent's holders */
    uint32_t *span_offset; /* chunks + 1 */
    tarry_span *span;      /* of each chunk, in order (span.h) */
    uint32_t racks;        /* 0: none are known */
    const uint32_t *rack;  /* per worker, as in the plan; borrowed; NULL without racks */
} draft;

/* Adds `amount` to the flow on an arc; negative: takes it off. The caller keeps each inner node's
 * flow in balance, and within the capacities. */
static inline void flow_push(flow *network, uint32_t arc, int64_t amount)
{
    network->arc[arc].room -= (uint64_t)amount;
    network->arc[arc ^ 1].room += (uint64_t)amount;
}

/* How near to balanced the moves bring the plan: the last percents would cost the most moves, and
 * whole chunks are not as divisible as matched takes them to be. */
static const double near_balanced = 1.02;

/* Limits in times of a mean are not missed by the rounding of the mean. */
static const double rounding = 1 + 1e-9;

void tarry_plan_evolution_init(tarry_plan_evolution *wanted)
{
    *wanted = (tarry_plan_evolution){0};
}

/* ---- what is wanted ---- */

/* The wishes with nothing left open. */
typedef struct wishes {
    double *pace, *cost;
    uint32_t racks;
    uint32_t *rack;     /* NULL: those of the plan */
    double mean;        /* cost */
    double most, least; /* cost of a chunk */
    double most_data;   /* of a worker, in original chunks */
    double balanced;
} wishes;

static int check_numbers(const tarry_plan_evolution *wanted, tarry_diagnostic *diagnostic)
{
    double heaviest = wanted->heaviest, lightest = wanted->lightest;
    if (heaviest != 0 && !(heaviest >= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the heaviest chunk must be at least 1 times the mean, not %g", heaviest);
    if (!(lightest >= 0 && lightest <= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the lightest chunk must be 0 to 1 times the mean, not %g", lightest);
    if (heaviest != 0 && lightest > heaviest / 2)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the lightest chunk must be at most half the heaviest: %g, %g", lightest,
                        heaviest);
    if (wanted->most_load != 0 && !(wanted->most_load >= 1))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the most load must be at least 1 times the mean, not %g",
                        wanted->most_load);
    return TARRY_OK;
}

static int set_paces(wishes *set, const tarry_plan *plan, const double *pace,
                     tarry_diagnostic *diagnostic)
{
    bool any = false;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        set->pace[worker] = pace == NULL ? 1 : pace[worker];
        if (!(set->pace[worker] > 0))
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "worker %u: a pace of %g", worker,
                            set->pace[worker]);
        any |= isfinite(set->pace[worker]);
    }
    return any ? TARRY_OK : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "every worker is gone");
}

static int set_costs(wishes *set, const tarry_plan *plan, const double *cost,
                     tarry_diagnostic *diagnostic)
{
    double sum = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        set->cost[chunk] = cost == NULL ? 1 : cost[chunk];
        if (!(set->cost[chunk] >= 0 && isfinite(set->cost[chunk])))
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "chunk %u: a cost of %g", chunk,
                            set->cost[chunk]);
        sum += set->cost[chunk];
    }
    if (!(sum > 0 && isfinite(sum)))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "the costs add up to %g", sum);
    set->mean = sum / plan->chunks;
    return TARRY_OK;
}

static int set_racks(wishes *set, const tarry_plan *plan, const uint32_t *rack,
                     const tarry_allocator *allocator, tarry_diagnostic *diagnostic)
{
    if (rack == NULL)
        return TARRY_OK;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        if (rack[worker] >= plan->workers && rack[worker] != TARRY_NO_RACK)
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "worker %u: rack %u of %u workers",
                            worker, rack[worker], plan->workers);
    set->rack = memory_allocate(allocator, plan->workers, sizeof(*set->rack));
    if (set->rack == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return rack_number(rack, plan->workers, allocator, set->rack, &set->racks);
}

/*
 * The least time in which the workers do `parts` copies of all chunks, were each able to compute
 * each, but none more than one copy: those that would be through with all the data before wait.
 */
static double balanced_time(const wishes *set, const tarry_plan *plan)
{
    const double work = set->mean * plan->chunks;
    double time = 0, longer = 0;
    do { /* at most `parts` times: each time one worker more is through */
        time = longer;
        double copies = plan->parts, speed = 0;
        for (uint32_t worker = 0; worker < plan->workers; worker++) {
            bool through = time >= work * set->pace[worker];
            copies -= through;
            speed += through ? 0 : 1 / set->pace[worker];
        }
        longer = copies > 0 ? work * copies / speed : time;
    } while (longer > time);
    return time;
}

static void set_limits(wishes *set, const tarry_plan *plan, const tarry_plan_evolution *wanted)
{
    double data = 0;
    uint32_t there = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t count;
        tarry_span whole;
        const tarry_span *spans = span_list(plan, chunk, &whole, &count);
        data += span_size(spans, count) * tarry_plan_replication(plan, chunk);
    }
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        there += isfinite(set->pace[worker]) ? 1 : 0;
    set->balanced = balanced_time(set, plan);
    bool splits =
        wanted->heaviest != 0 && (wanted->most_chunks == 0 || plan->chunks < wanted->most_chunks);
    set->most = splits ? wanted->heaviest * set->mean * rounding : INFINITY;
    set->least = wanted->lightest * set->mean;
    set->most_data =
        wanted->most_load != 0 ? wanted->most_load * data / there * rounding : INFINITY;
}

/* ---- cover ---- */

/* How fine the flow divides all work: what a double counts exactly, with bits to spare for sums. */
static const double flow_units = 0x1p44;

/* ---- lists of spans, in order ---- */

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

static int compare_spans(const void *a, const void *b)
{
    const tarry_span *x = a, *y = b;
    if (x->origin != y->origin)
        return x->origin < y->origin ? -1 : 1;
    return (span_begin(*x) > span_begin(*y)) - (span_begin(*x) < span_begin(*y));
}

uint32_t span_put_in_order(tarry_span *spans, uint32_t count)
{
    assert(count >= 1);
    qsort(spans, count, sizeof(*spans), compare_spans);
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

/* ---- draft cut ---- */

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

/* a zeroed one is allowed */
static void draft_destroy(draft *made, const tarry_allocator *allocator)
{
    memory_release(allocator, made->span);
    memory_release(allocator, made->span_offset);
    memory_release(allocator, made->holder);
    memory_release(allocator, made->offset);
    memory_release(allocator, made->parent);
    memory_release(allocator, made->cost);
}

/*
 * Splits chunks of `from` that cost more than `most` into equal ones that don't, as far as units
 * go, and merges those of the same holders that cost less than `least`, up to `mean`; the others
 * stay, and so does the sequence of all. cost: per chunk of `from`; most > 2 * least; INFINITY and
 * 0: none. The draft has the holders and racks of `from`. Counts of splits and merges go into
 * *changes; no other of its numbers is touched. Errors: ARGUMENT (more copies than a plan may
 * have), NO_MEMORY; nothing is left to free then.
 */
static int draft_cut(draft *out, const tarry_plan *from, const double *cost, double most,
                     double least, double mean, const tarry_allocator *allocator,
                     tarry_plan_changes *changes, tarry_diagnostic *diagnostic)
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

/* ---- draft finish ---- */

typedef struct place {
    uint32_t position; /* in the worker's order so far; behind all for a copy that is new to it */
    uint32_t chunk;
} place;

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

/* Sets worker_offset and slot_chunk, in the sequence in which each worker has had its chunks. */
static int list_slots(tarry_plan *plan, const draft *made)
{
    const tarry_plan *from = made->from;
    uint32_t copies = made->offset[made->chunks];
    plan->worker_offset =
        memory_allocate(&plan->allocator, (size_t)plan->workers + 1, sizeof(*plan->worker_offset));
    plan->slot_chunk = memory_allocate(&plan->allocator, copies, sizeof(*plan->slot_chunk));
    place *places = memory_allocate(&plan->allocator, copies, sizeof(*places));
    uint32_t *listed = memory_allocate(&plan->allocator, plan->workers, sizeof(*listed));
    int error = TARRY_ERROR_NO_MEMORY;
    if (plan->worker_offset == NULL || plan->slot_chunk == NULL || places == NULL || listed == NULL)
        goto release;

    for (uint32_t copy = 0; copy < copies; copy++)
        plan->worker_offset[made->holder[copy] + 1]++;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        plan->worker_offset[worker + 1] += plan->worker_offset[worker];
    for (uint32_t chunk = 0; chunk < made->chunks; chunk++) {
        uint32_t before = from->chunk_offset[made->parent[chunk]];
        for (uint32_t copy = made->offset[chunk]; copy < made->offset[chunk + 1]; copy++) {
            uint32_t worker = made->holder[copy], entry = before + copy - made->offset[chunk];
            bool kept = from->holder_worker[entry] == worker;
            places[plan->worker_offset[worker] + listed[worker]++] =
                (place){kept ? from->holder_position[entry] : UINT32_MAX, chunk};
        }
    }
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        qsort(places + plan->worker_offset[worker], listed[worker], sizeof(*places),
              compare_places);
    for (uint32_t slot = 0; slot < copies; slot++)
        plan->slot_chunk[slot] = places[slot].chunk;
    error = TARRY_OK;

release:
    memory_release(&plan->allocator, listed);
    memory_release(&plan->allocator, places);
    return error;
}

/* Chunk i is again original chunk i, for each. */
static bool is_original(const draft *made)
{
    if (made->chunks != made->from->origins || made->span_offset[made->chunks] != made->chunks)
        return false;
    for (uint32_t chunk = 0; chunk < made->chunks; chunk++)
        if (made->span[chunk].origin != chunk || made->span[chunk].count != made->span[chunk].of)
            return false;
    return true;
}

static int copy_spans(tarry_plan *plan, const draft *made)
{
    if (is_original(made))
        return TARRY_OK;
    uint32_t spans = made->span_offset[made->chunks];
    plan->span_offset =
        memory_allocate(&plan->allocator, (size_t)made->chunks + 1, sizeof(*plan->span_offset));
    plan->span = memory_allocate(&plan->allocator, spans, sizeof(*plan->span));
    if (plan->span_offset == NULL || plan->span == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk <= made->chunks; chunk++)
        plan->span_offset[chunk] = made->span_offset[chunk];
    for (uint32_t i = 0; i < spans; i++)
        plan->span[i] = made->span[i];
    return span_weigh(plan);
}

/* Gives the plan racks that are numbered as rack_number does; NULL: none. Errors: NO_MEMORY. */
static int rack_take(tarry_plan *plan, const uint32_t *rack, uint32_t racks)
{
    if (rack == NULL)
        return TARRY_OK;
    plan->rack = memory_allocate(&plan->allocator, plan->workers, sizeof(*plan->rack));
    if (plan->rack == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memcpy(plan->rack, rack, plan->workers * sizeof(*rack));
    plan->racks = racks;
    return TARRY_OK;
}

/*
 * Makes the plan; the caller owns *out. Each worker's chunks have the sequence that they had in
 * `from`, and those that are new to it follow; if the draft was changed, they are then arranged by
 * the plan's order. Errors: NO_MEMORY.
 */
static int draft_finish(const draft *made, bool changed, const tarry_allocator *allocator,
                        tarry_plan **out)
{
    const tarry_plan *from = made->from;
    tarry_plan *plan = memory_allocate(allocator, 1, sizeof(*plan));
    if (plan == NULL)
        return TARRY_ERROR_NO_MEMORY;
    plan->allocator = memory_allocator(allocator);
    plan->workers = from->workers;
    plan->chunks = made->chunks;
    plan->parts = from->parts;
    plan->pieces = from->pieces;
    plan->order = from->order;
    plan->seed = from->seed;
    plan->origins = from->origins;
    int error = rack_take(plan, made->rack, made->racks);
    if (error == TARRY_OK)
        error = copy_spans(plan, made);
    if (error == TARRY_OK)
        error = list_slots(plan, made);
    if (error == TARRY_OK)
        error = plan_arrange(plan, changed ? plan->order : TARRY_ORDER_AS_IS);
    if (error == TARRY_OK)
        error = decode_make(plan, plan->seed, from);
    if (error == TARRY_OK)
        error = plan_take_digest(plan);
    if (error != TARRY_OK) {
        tarry_plan_free(plan);
        return error;
    }
    *out = plan;
    return TARRY_OK;
}

/* ---- draft move ---- */

#define NONE UINT32_MAX

/* Says who holds what, and with `number` each copy's holding. */
static int cover_draft(cover *made, const draft *of, const double *pace, uint32_t more,
                       uint32_t *number, const tarry_allocator *allocator)
{
    uint32_t copies = of->offset[of->chunks];
    int error = cover_init(made, of->from->workers, of->chunks, of->from->parts, copies + more,
                           pace, of->cost, allocator);
    if (error != TARRY_OK)
        return error;
    for (uint32_t chunk = 0; chunk < of->chunks; chunk++)
        for (uint32_t copy = of->offset[chunk]; copy < of->offset[chunk + 1]; copy++) {
            uint32_t holding = cover_hold(made, of->holder[copy], chunk);
            if (number != NULL)
                number[copy] = holding;
        }
    return TARRY_OK;
}

/* The least time in which workers of these paces can cover the draft's chunks (evolve.h), once for
 * each part. Errors: NO_MEMORY. */
static int draft_time(const draft *made, const double *pace, const tarry_allocator *allocator,
                      double *time)
{
    cover of;
    int error = cover_draft(&of, made, pace, 0, NULL, allocator);
    if (error != TARRY_OK)
        return error;
    *time = cover_time(&of);
    cover_destroy(&of, allocator);
    return TARRY_OK;
}

/* A move that was tried, and how it was before. */
typedef struct step {
    uint32_t chunk, copy, worker, holding;
} step;

typedef struct mover {
    draft *of;
    const double *pace;
    double most_data;
    cover work;
    uint32_t *number; /* per copy: its holding */
    double *data;     /* per worker: what it holds, in original chunks */
    uint32_t *held;   /* per rack: copies of the chunk that was looked at last; NULL: no racks */
    uint64_t *stuck;  /* a bit per chunk: no move of it helps at present */
    step *step;       /* of the moves that are being tried */
    uint32_t steps;
    uint32_t moves, most_moves, most_holdings;
} mover;

static double size_of(const draft *of, uint32_t chunk)
{
    uint32_t first = of->span_offset[chunk];
    return span_size(of->span + first, of->span_offset[chunk + 1] - first);
}

static bool holds(const draft *of, uint32_t chunk, uint32_t worker)
{
    for (uint32_t copy = of->offset[chunk]; copy < of->offset[chunk + 1]; copy++)
        if (of->holder[copy] == worker)
            return true;
    return false;
}

/* The chunk that misses most: a new holder can do all of that by itself. */
static uint32_t find_chunk(const mover *state)
{
    uint32_t found = NONE;
    uint64_t most = 0;
    for (uint32_t chunk = 0; chunk < state->of->chunks; chunk++) {
        uint64_t missing = cover_missing(&state->work, chunk);
        if (missing > most && !bitset_test(state->stuck, chunk)) {
            found = chunk;
            most = missing;
        }
    }
    return found;
}

/* Arcs, in the sequence in which they are made. */

static uint32_t worker_arc(uint32_t worker)
{
    return 2 * worker;
}

static uint32_t chunk_arc(const cover *state, uint32_t chunk)
{
    return 2 * (state->workers + chunk);
}

static uint32_t holding_arc(const cover *state, uint32_t holding)
{
    return 2 * (state->workers + state->chunks + holding);
}

static uint32_t chunk_of(const cover *state, uint32_t holding)
{
    return state->network.arc[holding_arc(state, holding)].to - state->workers;
}

static uint32_t worker_of(const cover *state, uint32_t holding)
{
    return state->network.arc[holding_arc(state, holding) + 1].to;
}

static uint32_t source_of(const cover *state)
{
    return state->workers + state->chunks;
}

static void set_amounts(cover *state, const double *cost)
{
    double work = 0;
    for (uint32_t chunk = 0; chunk < state->chunks; chunk++)
        work += cost[chunk];
    state->unit = flow_units / (work * state->copies);
    for (uint32_t chunk = 0; chunk < state->chunks; chunk++) {
        state->amount[chunk] = (uint64_t)(cost[chunk] * state->unit);
        state->demand += state->amount[chunk] * state->copies;
    }
}

int cover_init(cover *state, uint32_t workers, uint32_t chunks, uint32_t copies, uint32_t most,
               const double *pace, const double *cost, const tarry_allocator *allocator)
{
    cover made = {.workers = workers, .chunks = chunks, .copies = copies};
    made.pace = memory_allocate(allocator, workers, sizeof(*made.pace));
    made.amount = memory_allocate(allocator, chunks, sizeof(*made.amount));
    int error =
        made.pace == NULL || made.amount == NULL
            ? TARRY_ERROR_NO_MEMORY
            : flow_init(&made.network, workers + chunks + 2, workers + chunks + most, allocator);
    if (error != TARRY_OK) {
        cover_destroy(&made, allocator);
        return error;
    }
    for (uint32_t worker = 0; worker < workers; worker++) {
        made.pace[worker] = pace[worker];
        flow_add(&made.network, source_of(&made), worker);
    }
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        flow_add(&made.network, workers + chunk, source_of(&made) + 1);
    set_amounts(&made, cost);
    *state = made;
    return TARRY_OK;
}

void cover_destroy(cover *state, const tarry_allocator *allocator)
{
    flow_destroy(&state->network, allocator);
    memory_release(allocator, state->amount);
    memory_release(allocator, state->pace);
}

uint32_t cover_hold(cover *state, uint32_t worker, uint32_t chunk)
{
    flow_add(&state->network, worker, state->workers + chunk);
    return state->holdings++;
}

uint64_t cover_refill(cover *state)
{
    flow_run(&state->network, source_of(state), source_of(state) + 1);
    uint64_t missing = 0;
    for (uint32_t chunk = 0; chunk < state->chunks; chunk++)
        missing += cover_missing(state, chunk);
    return missing;
}

uint64_t cover_fill(cover *state, double time)
{
    for (uint32_t worker = 0; worker < state->workers; worker++) {
        double most = time > 0 ? ceil(time * state->unit / state->pace[worker]) : 0;
        flow_set(&state->network, worker_arc(worker),
                 most < (double)state->demand ? (uint64_t)most : state->demand);
    }
    for (uint32_t chunk = 0; chunk < state->chunks; chunk++)
        flow_set(&state->network, chunk_arc(state, chunk), state->amount[chunk] * state->copies);
    for (uint32_t holding = 0; holding < state->holdings; holding++)
        flow_set(&state->network, holding_arc(state, holding),
                 state->amount[chunk_of(state, holding)]);
    return cover_refill(state);
}

/* The time at which the least cut of the last run has room for all. */
static double time_of_cut(const cover *state)
{
    const flow *network = &state->network;
    double fixed = 0, growing = 0;
    for (uint32_t worker = 0; worker < state->workers; worker++)
        if (!flow_reached(network, worker))
            growing += state->unit / state->pace[worker];
    for (uint32_t chunk = 0; chunk < state->chunks; chunk++)
        if (flow_reached(network, state->workers + chunk))
            fixed += (double)(state->amount[chunk] * state->copies);
    for (uint32_t holding = 0; holding < state->holdings; holding++) {
        uint32_t chunk = chunk_of(state, holding);
        if (flow_reached(network, worker_of(state, holding)) &&
            !flow_reached(network, state->workers + chunk))
            fixed += (double)state->amount[chunk];
    }
    return ((double)state->demand - fixed) / growing;
}

/*
 * From a time that is too short to the one at which the cut that shows it has room for all: the cut
 * that a longer time has is another one, so this comes from below and ends (Newton's method for a
 * parametric flow). Every step of it is a bound.
 */
double cover_time(cover *state)
{
    enum { MAX_STEPS = 64 };
    double time = 0;
    for (int steps = 0; steps < MAX_STEPS && isfinite(time); steps++) {
        if (cover_fill(state, time) == 0)
            break;
        double longer = time_of_cut(state);
        if (!(longer > time))
            break;
        time = longer;
    }
    return time;
}

/* work it has time for */
static uint64_t cover_spare(const cover *state, uint32_t worker)
{
    return state->network.arc[worker_arc(worker)].room;
}

uint64_t cover_missing(const cover *state, uint32_t chunk)
{
    return state->network.arc[chunk_arc(state, chunk)].room;
}

uint64_t cover_done(const cover *state, uint32_t holding)
{
    return flow_on(&state->network, holding_arc(state, holding));
}

/* Moves `amount` of flow along the way source, worker, chunk, sink; negative: back. */
static void push(cover *state, uint32_t holding, int64_t amount)
{
    const uint32_t way[] = {worker_arc(worker_of(state, holding)), holding_arc(state, holding),
                            chunk_arc(state, chunk_of(state, holding))};
    for (int i = 0; i < 3; i++)
        flow_push(&state->network, way[i], amount);
}

void cover_take(cover *state, uint32_t holding)
{
    push(state, holding, -(int64_t)cover_done(state, holding));
    flow_set(&state->network, holding_arc(state, holding), 0);
}

/* one that was taken */
static void cover_return(cover *state, uint32_t holding)
{
    uint32_t chunk = chunk_of(state, holding);
    uint64_t most = state->amount[chunk], spare = cover_spare(state, worker_of(state, holding));
    flow_set(&state->network, holding_arc(state, holding), most);
    most = most < spare ? most : spare;
    most = most < cover_missing(state, chunk) ? most : cover_missing(state, chunk);
    push(state, holding, (int64_t)most);
}

uint32_t cover_give(cover *state, uint32_t worker, uint32_t chunk)
{
    uint32_t holding = cover_hold(state, worker, chunk);
    cover_return(state, holding);
    return holding;
}

/* ---- racks ---- */

/* Counts the chunk's copies in each rack. */
static void count_in_racks(const mover *state, uint32_t chunk)
{
    const draft *of = state->of;
    if (state->held == NULL)
        return;
    memset(state->held, 0, of->racks * sizeof(*state->held));
    for (uint32_t copy = of->offset[chunk]; copy < of->offset[chunk + 1]; copy++)
        state->held[of->rack[of->holder[copy]]]++;
}

/* How many of the counted copies share the worker's rack, but for that of `giver`. */
static uint32_t company(const mover *state, uint32_t worker, uint32_t giver)
{
    if (state->held == NULL)
        return 0;
    const uint32_t *rack = state->of->rack;
    return state->held[rack[worker]] - (rack[worker] == rack[giver] ? 1 : 0);
}

/* ---- who gives and who takes ---- */

/* The slowest holder, and of equal ones the one with the most data. */
static uint32_t find_giver(const mover *state, uint32_t chunk)
{
    const draft *of = state->of;
    uint32_t found = of->offset[chunk];
    for (uint32_t copy = found + 1; copy < of->offset[chunk + 1]; copy++) {
        uint32_t worker = of->holder[copy], slowest = of->holder[found];
        double slower = state->pace[worker], than = state->pace[slowest];
        if (slower > than || (slower == than && state->data[worker] > state->data[slowest]))
            found = copy;
    }
    return found;
}

/* Whether the worker could take the chunk, by what it holds. */
static bool has_room(const mover *state, uint32_t worker, uint32_t chunk)
{
    return state->data[worker] + size_of(state->of, chunk) <= state->most_data &&
           !holds(state->of, chunk, worker);
}

/* The worker with the most to spare, of those in whose racks the copy has no more company. */
static uint32_t find_taker(const mover *state, uint32_t chunk, uint32_t copy)
{
    uint32_t giver = state->of->holder[copy], found = NONE;
    double slowest = state->pace[giver];
    uint64_t most = 0;
    count_in_racks(state, chunk);
    uint32_t now = company(state, giver, giver);
    for (uint32_t worker = 0; worker < state->of->from->workers; worker++) {
        uint64_t spare = cover_spare(&state->work, worker);
        if (spare > most && state->pace[worker] < slowest && company(state, worker, giver) <= now &&
            has_room(state, worker, chunk)) {
            found = worker;
            most = spare;
        }
    }
    return found;
}

static void hand_over(mover *state, uint32_t chunk, uint32_t copy, uint32_t taker)
{
    double size = size_of(state->of, chunk);
    state->data[state->of->holder[copy]] -= size;
    state->data[taker] += size;
    state->of->holder[copy] = taker;
}

static void move(mover *state, uint32_t chunk, uint32_t copy, uint32_t taker)
{
    state->step[state->steps++] = (step){chunk, copy, state->of->holder[copy], state->number[copy]};
    cover_take(&state->work, state->number[copy]);
    state->number[copy] = cover_give(&state->work, taker, chunk);
    hand_over(state, chunk, copy, taker);
}

static void undo(mover *state)
{
    while (state->steps > 0) {
        step last = state->step[--state->steps];
        cover_take(&state->work, state->number[last.copy]);
        cover_return(&state->work, last.holding);
        state->number[last.copy] = last.holding;
        hand_over(state, last.chunk, last.copy, last.worker);
    }
    cover_refill(&state->work);
}

/* Tries moves that by themselves do at least `goal` of what is missing, one at least. */
static void try_some(mover *state, uint64_t goal, uint32_t most)
{
    uint64_t gained = 0;
    while (state->steps == 0 || (gained < goal && state->steps < most)) {
        uint32_t chunk = find_chunk(state);
        if (chunk == NONE)
            break;
        uint32_t copy = find_giver(state, chunk), taker = find_taker(state, chunk, copy);
        if (taker == NONE) {
            bitset_set(state->stuck, chunk);
            continue;
        }
        uint64_t missed = cover_missing(&state->work, chunk);
        move(state, chunk, copy, taker);
        gained += missed > cover_missing(&state->work, chunk)
                      ? missed - cover_missing(&state->work, chunk)
                      : 0;
    }
}

/*
 * Most of what a move gains comes from others that take over work from each other, so that the
 * flow is filled up again whenever moves have done a quarter of what was missing by themselves.
 * What a giver did of the chunk can then be missing elsewhere: moves without a gain are undone, and
 * from then on tried one by one.
 */
static void move_until(mover *state, double time)
{
    enum { MOST_FAILURES = 16 };
    uint64_t missing = cover_fill(&state->work, time);
    bool singly = false;
    int failures = 0;
    while (missing > 0 && failures < MOST_FAILURES && state->work.holdings < state->most_holdings) {
        uint32_t most = state->most_moves - state->moves;
        uint32_t left = state->most_holdings - state->work.holdings;
        if (most == 0)
            break;
        try_some(state, singly ? 0 : missing / 4, most < left ? most : left);
        if (state->steps == 0)
            break;
        uint64_t still = cover_refill(&state->work);
        if (still < missing) {
            state->moves += state->steps;
            state->steps = 0;
            missing = still;
            failures = 0;
            bitset_clear(state->stuck, state->of->chunks);
        } else {
            if (state->steps == 1)
                bitset_set(state->stuck, state->step[0].chunk);
            failures += state->steps == 1;
            singly = true;
            undo(state);
        }
    }
}

/* ---- chunks that too few workers hold which are not gone ---- */

/* Of the workers that could take the giver's copy, in whose racks it has the least company, the one
 * that would be through with its data first. */
static uint32_t find_rescuer(const mover *state, uint32_t chunk, uint32_t giver)
{
    uint32_t found = NONE, fewest = UINT32_MAX;
    double least = INFINITY;
    count_in_racks(state, chunk);
    for (uint32_t worker = 0; worker < state->of->from->workers; worker++) {
        double time = state->pace[worker] * (state->data[worker] + size_of(state->of, chunk));
        uint32_t others = company(state, worker, giver);
        bool better = others < fewest || (others == fewest && time < least);
        if (better && isfinite(time) && has_room(state, worker, chunk)) {
            found = worker;
            fewest = others;
            least = time;
        }
    }
    return found;
}

/* Copies of the gone move whatever it costs, until `parts` are with others. */
static void rescue(mover *state)
{
    const draft *of = state->of;
    for (uint32_t chunk = 0; chunk < of->chunks; chunk++) {
        uint32_t there = 0;
        for (uint32_t copy = of->offset[chunk]; copy < of->offset[chunk + 1]; copy++)
            there += isfinite(state->pace[of->holder[copy]]) ? 1 : 0;
        for (; there < of->from->parts && state->moves < state->most_moves; there++) {
            uint32_t copy = find_giver(state, chunk);
            uint32_t taker = find_rescuer(state, chunk, of->holder[copy]);
            if (taker == NONE)
                break;
            hand_over(state, chunk, copy, taker);
            state->moves++;
        }
    }
}

/* ---- chunks whose copies share racks ---- */

/* The copy with the most company in its rack; of these that of the slowest holder, and of equal
 * ones that of the one with the most data. */
static uint32_t find_crowded(const mover *state, uint32_t chunk)
{
    const draft *of = state->of;
    uint32_t found = of->offset[chunk];
    for (uint32_t copy = found + 1; copy < of->offset[chunk + 1]; copy++) {
        uint32_t worker = of->holder[copy], other = of->holder[found];
        uint32_t here = company(state, worker, worker), there = company(state, other, other);
        double slower = state->pace[worker], than = state->pace[other];
        if (here != there    ? here > there
            : slower != than ? slower > than
                             : state->data[worker] > state->data[other])
            found = copy;
    }
    return found;
}

/* Copies move to racks where they have less company: each time the sum of the squares of the copies
 * per rack falls, so that it ends. */
static void spread(mover *state)
{
    const draft *of = state->of;
    for (uint32_t chunk = 0; state->held != NULL && chunk < of->chunks; chunk++) {
        while (state->moves < state->most_moves) {
            count_in_racks(state, chunk);
            uint32_t copy = find_crowded(state, chunk), giver = of->holder[copy];
            if (company(state, giver, giver) == 0)
                break;
            uint32_t taker = find_rescuer(state, chunk, giver);
            if (taker == NONE || company(state, taker, giver) >= company(state, giver, giver))
                break;
            hand_over(state, chunk, copy, taker);
            state->moves++;
        }
    }
}

/* Whether the worker held the chunk, or the one that it comes from, in the plan before. */
static bool held_before(const draft *of, uint32_t chunk, uint32_t worker)
{
    const tarry_plan *from = of->from;
    uint32_t low = from->chunk_offset[of->parent[chunk]];
    uint32_t high = from->chunk_offset[of->parent[chunk] + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (from->holder_worker[middle] == worker)
            return true;
        if (from->holder_worker[middle] < worker)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* What moved on was moved once, and what came back not at all. */
static void count_moved(const draft *of, tarry_plan_changes *changes)
{
    for (uint32_t chunk = 0; chunk < of->chunks; chunk++)
        for (uint32_t copy = of->offset[chunk]; copy < of->offset[chunk + 1]; copy++)
            if (!held_before(of, chunk, of->holder[copy])) {
                changes->moved++;
                changes->moved_data += size_of(of, chunk);
            }
}

/*
 * Moves copies: first those of the gone, until `parts` holders of every chunk are not gone; then
 * those that share a rack, each to one that has two copies of its chunk fewer or less still; then
 * until the draft can be covered within `time`, or no move helps, or `most_moves` are made. Such a
 * move takes a copy from the slowest holder of a chunk that misses work and gives it to the worker
 * with the most time to spare of those that are faster, and whose racks have no more of the chunk's
 * other copies than the holder's. No taker comes to hold more than
 * `most_data` original chunks. Moves are counted in *changes. Errors: NO_MEMORY.
 */
static int draft_move(draft *made, const double *pace, double time, uint32_t most_moves,
                      double most_data, const tarry_allocator *allocator,
                      tarry_plan_changes *changes)
{
    uint32_t copies = made->offset[made->chunks];
    most_moves = most_moves < copies ? most_moves : copies;
    const uint32_t tries = most_moves + most_moves / 2 + 16;
    mover state = {.of = made,
                   .pace = pace,
                   .most_data = most_data,
                   .most_moves = most_moves,
                   .most_holdings = copies + tries};
    state.number = memory_allocate(allocator, copies, sizeof(*state.number));
    state.data = memory_allocate(allocator, made->from->workers, sizeof(*state.data));
    state.stuck = memory_allocate(allocator, bitset_words(made->chunks), sizeof(*state.stuck));
    state.step = memory_allocate(allocator, most_moves, sizeof(*state.step));
    if (made->racks > 0)
        state.held = memory_allocate(allocator, made->racks, sizeof(*state.held));
    int error = TARRY_ERROR_NO_MEMORY;
    if ((made->racks > 0 && state.held == NULL) || state.number == NULL || state.data == NULL ||
        state.stuck == NULL || state.step == NULL)
        goto release;
    for (uint32_t chunk = 0; chunk < made->chunks; chunk++)
        for (uint32_t copy = made->offset[chunk]; copy < made->offset[chunk + 1]; copy++)
            state.data[made->holder[copy]] += size_of(made, chunk);
    rescue(&state);
    spread(&state);
    error = cover_draft(&state.work, made, pace, tries, state.number, allocator);
    if (error != TARRY_OK)
        goto release;
    move_until(&state, time);
    count_moved(made, changes);

release:
    cover_destroy(&state.work, allocator);
    memory_release(allocator, state.held);
    memory_release(allocator, state.step);
    memory_release(allocator, state.stuck);
    memory_release(allocator, state.data);
    memory_release(allocator, state.number);
    return error;
}

/* ---- from one to the other ---- */

static int evolve(const tarry_plan *plan, const wishes *set, uint32_t most_moves,
                  const tarry_allocator *allocator, tarry_plan **next, tarry_plan_changes *changes,
                  tarry_diagnostic *diagnostic)
{
    draft made;
    int error = draft_cut(&made, plan, set->cost, set->most, set->least, set->mean, allocator,
                          changes, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (set->rack != NULL) {
        made.racks = set->racks;
        made.rack = set->rack;
    }
    double most = near_balanced * set->balanced;
    changes->balanced = set->balanced;
    error = draft_time(&made, set->pace, allocator, &changes->matched_before);
    changes->matched_after = changes->matched_before;
    bool uneven = changes->matched_before > most || made.rack != NULL;
    if (error == TARRY_OK && uneven && most_moves > 0) {
        error = draft_move(&made, set->pace, most, most_moves, set->most_data, allocator, changes);
        if (error == TARRY_OK)
            error = draft_time(&made, set->pace, allocator, &changes->matched_after);
    }
    if (error == TARRY_OK) {
        bool changed = changes->split > 0 || changes->merged > 0 || changes->moved > 0;
        error = draft_finish(&made, changed, allocator, next);
    }
    draft_destroy(&made, allocator);
    return error;
}

int tarry_plan_evolve(const tarry_plan *plan, const tarry_plan_evolution *wanted,
                      const tarry_allocator *allocator, tarry_plan **next,
                      tarry_plan_changes *changes, tarry_diagnostic *diagnostic)
{
    int error = check_numbers(wanted, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_plan_changes made = {0};
    wishes set = {0};
    set.pace = memory_allocate(allocator, plan->workers, sizeof(*set.pace));
    set.cost = memory_allocate(allocator, plan->chunks, sizeof(*set.cost));
    error = TARRY_ERROR_NO_MEMORY;
    if (set.pace == NULL || set.cost == NULL)
        goto release;
    error = set_paces(&set, plan, wanted->pace, diagnostic);
    if (error == TARRY_OK)
        error = set_costs(&set, plan, wanted->cost, diagnostic);
    if (error == TARRY_OK)
        error = set_racks(&set, plan, wanted->rack, allocator, diagnostic);
    if (error != TARRY_OK)
        goto release;
    set_limits(&set, plan, wanted);
    error = evolve(plan, &set, wanted->most_moves, allocator, next, &made, diagnostic);
    if (error == TARRY_OK && changes != NULL)
        *changes = made;

release:
    if (error == TARRY_ERROR_NO_MEMORY)
        diagnose_no_memory(diagnostic, "plan");
    memory_release(allocator, set.rack);
    memory_release(allocator, set.cost);
    memory_release(allocator, set.pace);
    return error;
}
