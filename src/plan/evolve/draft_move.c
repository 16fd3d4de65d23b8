/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/evolve/draft.h"

#include <math.h>
#include <string.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "plan/evolve/cover.h"
#include "plan/span/span.h"

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

int draft_time(const draft *made, const double *pace, const tarry_allocator *allocator,
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

int draft_move(draft *made, const double *pace, double time, uint32_t most_moves, double most_data,
               const tarry_allocator *allocator, tarry_plan_changes *changes)
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
