/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/evolve/cover.h"

#include <assert.h>
#include <math.h>

#include <tarry/error.h>

#include "base/memory.h"

/* How fine the flow divides all work: what a double counts exactly, with bits to spare for sums. */
static const double units = 0x1p44;

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
    state->unit = units / (work * state->copies);
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
    for (int step = 0; step < MAX_STEPS && isfinite(time); step++) {
        if (cover_fill(state, time) == 0)
            break;
        double longer = time_of_cut(state);
        if (!(longer > time))
            break;
        time = longer;
    }
    return time;
}

uint64_t cover_spare(const cover *state, uint32_t worker)
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

void cover_return(cover *state, uint32_t holding)
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
