/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/decode/conditioning.h"

#include <math.h>

#include "base/dot.h"
#include "base/memory.h"
#include "base/svd.h"
#include "plan/decode/subsets.h"

/* Bounds on what is measured: so many sets (8 bytes each
 * for the median), and so many operations. */
static const uint64_t most_sets = UINT64_C(4) << 20;
static const uint64_t most_operations = UINT64_C(1) << 30;

double conditioning_of_columns(double *columns, uint32_t size)
{
    svd_rotate(columns, size, size, NULL);
    double least = INFINITY;
    for (uint32_t k = 0; k < size; k++) {
        double square = dot(columns + k * size, columns + k * size, size);
        least = square < least ? square : least;
    }
    return 1 / sqrt(least);
}

/* What one measurement works in. */
typedef struct gauge {
    const tarry_plan *plan;
    uint32_t parts;
    const double *decode;
    double *columns;   /* parts x parts */
    uint32_t *members; /* parts */
    double *values;    /* one per set */
    size_t count;
} gauge;

static void measure_set(gauge *state, uint32_t chunk)
{
    const tarry_plan *plan = state->plan;
    uint32_t parts = state->parts;
    for (uint32_t k = 0; k < parts; k++) {
        uint32_t worker = plan->holder_worker[plan->chunk_offset[chunk] + state->members[k]];
        for (uint32_t part = 0; part < parts; part++)
            state->columns[k * parts + part] = state->decode[(size_t)part * plan->workers + worker];
    }
    state->values[state->count++] = conditioning_of_columns(state->columns, parts);
}

static uint32_t holders_of(const tarry_plan *plan, uint32_t chunk)
{
    return plan->chunk_offset[chunk + 1] - plan->chunk_offset[chunk];
}

static void measure_all(gauge *state)
{
    const tarry_plan *plan = state->plan;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        subsets_first(state->members, state->parts);
        do
            measure_set(state, chunk);
        while (subsets_next(state->members, state->parts, holders_of(plan, chunk)));
    }
}

static void measure_sample(gauge *state, uint64_t seed, uint64_t sets)
{
    const tarry_plan *plan = state->plan;
    random_stream stream = random_stream_make(seed, RANDOM_CONDITIONING, 0, 0);
    while (state->count < sets) {
        uint32_t chunk = random_below(&stream, plan->chunks);
        subsets_draw(&stream, state->members, state->parts, holders_of(plan, chunk));
        measure_set(state, chunk);
    }
}

/* The value that stands at `rank` once values[0..count-1] are sorted: C. A. R. Hoare's FIND. */
static double select_value(double *values, size_t count, size_t rank)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i >= j)
                break;
            double value = values[i];
            values[i++] = values[j];
            values[j--] = value;
        }
        /* Now low..j are at most the pivot, j + 1..high at least, and j < high. */
        if (rank <= j)
            high = j;
        else
            low = j + 1;
    }
    return values[rank];
}

/* How many sets can occur; saturates. */
static uint64_t count_sets(const tarry_plan *plan, uint32_t parts)
{
    uint64_t sets = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        if (__builtin_add_overflow(sets, subsets_count(holders_of(plan, chunk), parts), &sets))
            return UINT64_MAX;
    }
    return sets;
}

/* Jacobi's sweeps take some twenty times the cube of the size. */
static uint64_t affordable_sets(uint32_t parts)
{
    uint64_t sets = most_operations / (20 * (uint64_t)parts * parts * parts);
    if (sets > most_sets)
        return most_sets;
    return sets > 1000 ? sets : 1000;
}

int conditioning_measure(const tarry_plan *plan, uint32_t parts, const double *decode,
                         uint64_t seed, tarry_conditioning *out)
{
    uint64_t sets = count_sets(plan, parts), affordable = affordable_sets(parts);
    bool complete = sets <= affordable;
    if (!complete)
        sets = affordable;
    const tarry_allocator *allocator = &plan->allocator;
    gauge state = {.plan = plan, .parts = parts, .decode = decode};
    int error = TARRY_ERROR_NO_MEMORY;
    state.columns = memory_allocate(allocator, (size_t)parts * parts, sizeof(double));
    state.members = memory_allocate(allocator, parts, sizeof(uint32_t));
    state.values = memory_allocate(allocator, (size_t)sets, sizeof(double));
    if (state.columns == NULL || state.members == NULL || state.values == NULL)
        goto release;
    if (complete)
        measure_all(&state);
    else
        measure_sample(&state, seed, sets);
    double worst = 0;
    for (size_t k = 0; k < state.count; k++)
        worst = state.values[k] > worst ? state.values[k] : worst;
    *out = (tarry_conditioning){
        .worst = worst,
        .median = select_value(state.values, state.count, (state.count - 1) / 2),
        .subsets = sets,
        .complete = complete,
    };
    error = TARRY_OK;
release:
    memory_release(allocator, state.columns);
    memory_release(allocator, state.members);
    memory_release(allocator, state.values);
    return error;
}
