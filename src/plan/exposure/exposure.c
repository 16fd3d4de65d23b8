/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/exposure/exposure.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

struct exposure {
    tarry_allocator allocator;
    exposure_range *ranges;
    size_t count, room;
};

int exposure_create(const tarry_allocator *allocator, exposure **self)
{
    exposure *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    *self = made;
    return TARRY_OK;
}

void exposure_free(exposure *self)
{
    if (self == NULL)
        return;
    const tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self->ranges);
    memory_release(&allocator, self);
}

static int by_worker(const void *a, const void *b)
{
    const exposure_range *one = a, *other = b;
    if (one->worker != other->worker)
        return one->worker < other->worker ? -1 : 1;
    return (one->begin > other->begin) - (one->begin < other->begin);
}

/* Joins what overlaps or touches of a worker, so that plans that hardly differ take no room. */
static void join(exposure *self)
{
    size_t kept = 0;
    if (self->count > 0)
        qsort(self->ranges, self->count, sizeof(*self->ranges), by_worker);
    for (size_t i = 0; i < self->count; i++) {
        const exposure_range next = self->ranges[i];
        exposure_range *last = kept == 0 ? NULL : &self->ranges[kept - 1];
        if (last != NULL && last->worker == next.worker && next.begin <= last->end)
            last->end = next.end > last->end ? next.end : last->end;
        else
            self->ranges[kept++] = next;
    }
    self->count = kept;
}

int exposure_add(exposure *self, uint32_t worker, uint64_t begin, uint64_t end)
{
    assert(begin <= end);
    if (begin == end)
        return TARRY_OK;
    if (self->count == self->room) {
        join(self);
        /* Half of the room stays free, so that joining is rare. */
        if (2 * self->count >= self->room) {
            const size_t room = memory_room(self->room, 2 * self->count + 1, 64);
            exposure_range *grown = memory_grow(&self->allocator, self->ranges, self->count, room,
                                                sizeof(*self->ranges));
            if (grown == NULL)
                return TARRY_ERROR_NO_MEMORY;
            self->ranges = grown;
            self->room = room;
        }
    }
    self->ranges[self->count++] = (exposure_range){begin, end, worker};
    return TARRY_OK;
}

size_t exposure_ranges(exposure *self, const exposure_range **ranges)
{
    join(self);
    *ranges = self->ranges;
    return self->count;
}

/* The holders of a chunk get its spans. */
static int add_chunk(exposure *self, const tarry_plan *plan, uint32_t chunk,
                     const uint64_t *samples, const uint64_t *start)
{
    for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++) {
        const tarry_span span = tarry_plan_span(plan, chunk, i);
        uint64_t begin, end, base = span.origin * PLAN_ORIGIN_WEIGHT;
        if (samples != NULL)
            base = start[span.origin];
        tarry_span_samples(span, samples == NULL ? PLAN_ORIGIN_WEIGHT : samples[span.origin],
                           &begin, &end);
        for (uint32_t h = plan->chunk_offset[chunk]; h < plan->chunk_offset[chunk + 1]; h++) {
            int error = exposure_add(self, plan->holder_worker[h], base + begin, base + end);
            if (error != TARRY_OK)
                return error;
        }
    }
    return TARRY_OK;
}

int exposure_add_plan(exposure *self, const tarry_plan *plan, const uint64_t *samples)
{
    uint64_t *start = NULL;
    if (samples != NULL) {
        start = memory_allocate(&self->allocator, plan->origins, sizeof(*start));
        if (start == NULL)
            return TARRY_ERROR_NO_MEMORY;
        for (uint32_t i = 1; i < plan->origins; i++)
            start[i] = start[i - 1] + samples[i - 1];
    }
    int error = TARRY_OK;
    for (uint32_t chunk = 0; chunk < plan->chunks && error == TARRY_OK; chunk++)
        error = add_chunk(self, plan, chunk, samples, start);
    memory_release(&self->allocator, start);
    return error;
}

/* ---- the bound ---- */

typedef struct heavy {
    uint64_t load;
    uint32_t worker;
} heavy;

/* The samples cut where any range begins or ends: piece p is cut[p] .. cut[p + 1] - 1. The pieces
 * of worker j are piece[offset[j]] .. piece[offset[j + 1] - 1]. */
typedef struct pieces {
    uint64_t *cut;
    size_t cuts;
    uint32_t workers;
    size_t *offset; /* workers + 1 */
    size_t *piece;
    uint32_t *taken; /* per piece: how many of the chosen workers hold it */
    heavy *order;    /* workers, the largest loads first */
} pieces;

static int compare_cuts(const void *a, const void *b)
{
    const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static size_t find_cut(const pieces *of, uint64_t place)
{
    const uint64_t *found = bsearch(&place, of->cut, of->cuts, sizeof(*of->cut), compare_cuts);
    return (size_t)(found - of->cut);
}

static void pieces_free(const exposure *self, pieces *of)
{
    memory_release(&self->allocator, of->cut);
    memory_release(&self->allocator, of->offset);
    memory_release(&self->allocator, of->piece);
    memory_release(&self->allocator, of->taken);
    memory_release(&self->allocator, of->order);
}

static void set_cuts(const exposure *self, pieces *of)
{
    for (size_t i = 0; i < self->count; i++) {
        of->cut[2 * i] = self->ranges[i].begin;
        of->cut[2 * i + 1] = self->ranges[i].end;
    }
    qsort(of->cut, 2 * self->count, sizeof(*of->cut), compare_cuts);
    for (size_t i = 0; i < 2 * self->count; i++) {
        if (of->cuts == 0 || of->cut[of->cuts - 1] != of->cut[i])
            of->cut[of->cuts++] = of->cut[i];
    }
}

static int by_load(const void *a, const void *b)
{
    const heavy *one = a, *other = b;
    if (one->load != other->load)
        return one->load > other->load ? -1 : 1;
    return (one->worker > other->worker) - (one->worker < other->worker);
}

/* Lists each worker's pieces. */
static int list_pieces(const exposure *self, pieces *of)
{
    const exposure_range *ranges = self->ranges;
    size_t all = 0;
    for (size_t i = 0; i < self->count; i++)
        all += find_cut(of, ranges[i].end) - find_cut(of, ranges[i].begin);
    of->piece = memory_allocate(&self->allocator, all, sizeof(*of->piece));
    of->taken = memory_allocate(&self->allocator, of->cuts, sizeof(*of->taken));
    if (of->piece == NULL || of->taken == NULL)
        return TARRY_ERROR_NO_MEMORY;
    size_t at = 0, next = 0;
    for (uint32_t j = 0; j < of->workers; j++) {
        of->offset[j] = at;
        of->order[j].worker = j;
        for (; next < self->count && ranges[next].worker == j; next++) {
            of->order[j].load += ranges[next].end - ranges[next].begin;
            const size_t end = find_cut(of, ranges[next].end);
            for (size_t p = find_cut(of, ranges[next].begin); p < end; p++)
                of->piece[at++] = p;
        }
    }
    of->offset[of->workers] = at;
    qsort(of->order, of->workers, sizeof(*of->order), by_load);
    return TARRY_OK;
}

static int pieces_make(exposure *self, pieces *of)
{
    join(self);
    *of = (pieces){.workers = self->count > 0 ? self->ranges[self->count - 1].worker + 1 : 0};
    of->cut = memory_allocate(&self->allocator, self->count, 2 * sizeof(*of->cut));
    of->offset = memory_allocate(&self->allocator, (size_t)of->workers + 1, sizeof(*of->offset));
    of->order = memory_allocate(&self->allocator, of->workers, sizeof(*of->order));
    int error = TARRY_ERROR_NO_MEMORY;
    if (of->cut != NULL && of->offset != NULL && of->order != NULL) {
        set_cuts(self, of);
        error = list_pieces(self, of);
    }
    if (error != TARRY_OK)
        pieces_free(self, of);
    return error;
}

/* The samples of the worker that nobody chosen before has. */
static uint64_t take(pieces *of, uint32_t worker)
{
    uint64_t gained = 0;
    for (size_t i = of->offset[worker]; i < of->offset[worker + 1]; i++) {
        const size_t p = of->piece[i];
        gained += of->taken[p]++ == 0 ? of->cut[p + 1] - of->cut[p] : 0;
    }
    return gained;
}

static void put_back(pieces *of, uint32_t worker)
{
    for (size_t i = of->offset[worker]; i < of->offset[worker + 1]; i++)
        of->taken[of->piece[i]]--;
}

typedef struct hunt {
    pieces *of;
    uint64_t best;  /* samples of the worst set yet */
    uint64_t steps; /* left */
    uint32_t *at;   /* per depth: the chosen place of the order */
    uint64_t *sum;  /* per depth: the samples of those chosen before */
} hunt;

/* Whether choosing `left` from place `from` on may be worse than the worst yet. */
static bool is_worth(const hunt *run, uint64_t sum, uint32_t from, uint32_t left)
{
    if (from + left > run->of->workers)
        return false;
    for (uint32_t i = from; i < from + left && sum <= run->best; i++)
        sum += run->of->order[i].load;
    return sum > run->best;
}

/* All sets of `chosen` workers, but for those that are not worse; false: it ran out of steps. */
static bool search_sets(hunt *run, uint32_t chosen)
{
    uint32_t depth = 0;
    run->at[0] = 0;
    run->sum[0] = 0;
    for (;;) {
        if (depth < chosen && is_worth(run, run->sum[depth], run->at[depth], chosen - depth)) {
            const uint32_t place = run->at[depth], worker = run->of->order[place].worker;
            const uint64_t cost = 1 + run->of->offset[worker + 1] - run->of->offset[worker];
            if (run->steps < cost)
                return false;
            run->steps -= cost;
            run->sum[depth + 1] = run->sum[depth] + take(run->of, worker);
            run->at[++depth] = place + 1;
            continue;
        }
        if (depth == chosen && run->sum[depth] > run->best)
            run->best = run->sum[depth];
        if (depth == 0)
            return true;
        put_back(run->of, run->of->order[run->at[--depth]].worker);
        run->at[depth]++;
    }
}

static uint64_t largest_loads(const pieces *of, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += of->order[i].load;
    return sum;
}

/* All that anybody holds. */
static uint64_t count_samples(pieces *of)
{
    uint64_t samples = 0;
    for (uint32_t j = 0; j < of->workers; j++)
        samples += take(of, j);
    for (uint32_t j = 0; j < of->workers; j++)
        put_back(of, j);
    return samples;
}

int exposure_unheld(exposure *self, uint32_t colluders, uint64_t steps, exposure_bound *bound)
{
    pieces of;
    int error = pieces_make(self, &of);
    if (error != TARRY_OK)
        return error;
    const uint32_t chosen = colluders < of.workers ? colluders : of.workers;
    hunt run = {.of = &of, .steps = steps};
    run.at = memory_allocate(&self->allocator, (size_t)chosen + 1, sizeof(*run.at));
    run.sum = memory_allocate(&self->allocator, (size_t)chosen + 1, sizeof(*run.sum));
    error = TARRY_ERROR_NO_MEMORY;
    if (run.at != NULL && run.sum != NULL) {
        const uint64_t samples = count_samples(&of);
        const bool exact = search_sets(&run, chosen);
        const uint64_t held = exact ? run.best : largest_loads(&of, chosen);
        *bound = (exposure_bound){
            .samples = samples, .unheld = held < samples ? samples - held : 0, .exact = exact};
        error = TARRY_OK;
    }
    memory_release(&self->allocator, run.at);
    memory_release(&self->allocator, run.sum);
    pieces_free(self, &of);
    return error;
}
