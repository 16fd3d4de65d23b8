/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk's pieces follow the design of the whole chunks, each in a relabelling of the workers of
 * its own. That gives the workers that have got most so far the least loads of the design, so that
 * no load of all pieces exceeds another by more than one of the design does: let the totals differ
 * by up to D, as the design's loads do. Of two workers, the one ahead, by at most D, gets no more
 * than the other, and at most D less.
 */
#include "plan/design/design.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/random.h"

enum { STREAM_PIECES = 3 };

/* A worker among all, by its load, or by chance where loads are equal. */
typedef struct place {
    uint32_t load, draw, worker;
} place;

/* What becomes of the assignment of whole chunks. */
typedef struct cutting {
    tarry_plan *plan;
    const uint32_t *whole_offset; /* workers + 1: of the whole chunks' slots */
    const uint32_t *whole_chunk;
    uint32_t *role; /* pieces x workers: whose chunks a worker has that piece of */
    uint32_t *load; /* workers: pieces so far */
    place *workers; /* workers, by these */
    place *roles;   /* workers, by whole chunks */
} cutting;

static uint32_t whole_load(const cutting *task, uint32_t worker)
{
    return task->whole_offset[worker + 1] - task->whole_offset[worker];
}

static int compare_numbers(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_places(const void *left, const void *right)
{
    const place *a = left, *b = right;
    if (a->load != b->load)
        return compare_numbers(a->load, b->load);
    if (a->draw != b->draw)
        return compare_numbers(a->draw, b->draw);
    return compare_numbers(a->worker, b->worker);
}

/* Sets the roles of all pieces, and the loads. */
static void draw_roles(cutting *task, uint64_t seed)
{
    uint32_t workers = task->plan->workers;
    for (uint32_t worker = 0; worker < workers; worker++) {
        task->role[worker] = worker;
        task->load[worker] = whole_load(task, worker);
    }
    for (uint32_t piece = 1; piece < task->plan->pieces; piece++) {
        random_stream stream = random_stream_make(seed, RANDOM_DESIGN, STREAM_PIECES, piece);
        for (uint32_t worker = 0; worker < workers; worker++) {
            task->workers[worker] = (place){task->load[worker], random_u32(&stream), worker};
            task->roles[worker] = (place){whole_load(task, worker), random_u32(&stream), worker};
        }
        qsort(task->workers, workers, sizeof(*task->workers), compare_places);
        qsort(task->roles, workers, sizeof(*task->roles), compare_places);
        for (uint32_t rank = 0; rank < workers; rank++) {
            uint32_t worker = task->workers[workers - 1 - rank].worker;
            task->role[(size_t)piece * workers + worker] = task->roles[rank].worker;
            task->load[worker] += task->roles[rank].load;
        }
    }
}

/* Lists a worker's pieces 0 of all chunks first, in the design's sequence, then its pieces 1, .. */
static void list_by_piece(const cutting *task, uint32_t worker, uint32_t *list)
{
    const tarry_plan *plan = task->plan;
    for (uint32_t piece = 0; piece < plan->pieces; piece++) {
        uint32_t role = task->role[(size_t)piece * plan->workers + worker];
        for (uint32_t slot = task->whole_offset[role]; slot < task->whole_offset[role + 1]; slot++)
            *list++ = task->whole_chunk[slot] * plan->pieces + piece;
    }
}

static int spread(cutting *task, uint64_t seed)
{
    tarry_plan *plan = task->plan;
    const tarry_allocator *allocator = &plan->allocator;
    uint32_t workers = plan->workers;
    task->role = memory_allocate(allocator, (size_t)workers * plan->pieces, sizeof(*task->role));
    task->load = memory_allocate(allocator, workers, sizeof(*task->load));
    task->workers = memory_allocate(allocator, workers, sizeof(*task->workers));
    task->roles = memory_allocate(allocator, workers, sizeof(*task->roles));
    int error = TARRY_ERROR_NO_MEMORY;
    if (task->role != NULL && task->load != NULL && task->workers != NULL && task->roles != NULL) {
        draw_roles(task, seed);
        for (uint32_t worker = 0; worker < workers; worker++)
            plan->worker_offset[worker + 1] = task->load[worker];
        error = design_take_slots(plan);
    }
    for (uint32_t worker = 0; error == TARRY_OK && worker < workers; worker++)
        list_by_piece(task, worker, plan->slot_chunk + plan->worker_offset[worker]);
    memory_release(allocator, task->roles);
    memory_release(allocator, task->workers);
    memory_release(allocator, task->load);
    memory_release(allocator, task->role);
    return error;
}

/* Each chunk of a list becomes its pieces, in their sequence. */
static int cut_in_place(const cutting *task)
{
    tarry_plan *plan = task->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        plan->worker_offset[worker + 1] = whole_load(task, worker) * plan->pieces;
    int error = design_take_slots(plan);
    for (uint32_t slot = 0; error == TARRY_OK && slot < plan_edges(plan); slot++)
        plan->slot_chunk[slot] =
            task->whole_chunk[slot / plan->pieces] * plan->pieces + slot % plan->pieces;
    return error;
}

int design_cut(tarry_plan *plan, bool apart, uint64_t seed)
{
    const tarry_allocator *allocator = &plan->allocator;
    uint32_t *whole_offset = plan->worker_offset, *whole_chunk = plan->slot_chunk;
    plan->slot_chunk = NULL;
    plan->worker_offset =
        memory_allocate(allocator, (size_t)plan->workers + 1, sizeof(*plan->worker_offset));
    int error = TARRY_ERROR_NO_MEMORY;
    if (plan->worker_offset != NULL) {
        cutting task = {.plan = plan, .whole_offset = whole_offset, .whole_chunk = whole_chunk};
        error = apart ? spread(&task, seed) : cut_in_place(&task);
    }
    plan->chunks *= plan->pieces;
    memory_release(allocator, whole_chunk);
    memory_release(allocator, whole_offset);
    return error;
}
