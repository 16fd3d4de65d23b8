/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/coverage.h"

#include "base/bitset.h"
#include "base/memory.h"
#include "coding/coefficients.h"

struct coverage {
    tarry_allocator allocator;
    const tarry_plan *plan;
    coefficients *work; /* NULL with one part */
    uint64_t *credits;  /* bit chunk_offset[i] + h: the copy of chunk i at its h-th holder */
    uint32_t *copies;   /* per chunk */
    uint32_t *ranks;    /* per chunk */
    uint32_t recovered; /* chunks of full rank */
    uint64_t rank_sum;
};

int coverage_create(const tarry_plan *plan, double conditioning_limit,
                    const tarry_allocator *allocator, coverage **out)
{
    coverage *state = memory_allocate(allocator, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->allocator = memory_allocator(allocator);
    state->plan = plan;
    size_t words = bitset_words(plan_edges(plan));
    state->credits = memory_allocate(allocator, words, sizeof(*state->credits));
    state->copies = memory_allocate(allocator, plan->chunks, sizeof(*state->copies));
    state->ranks = memory_allocate(allocator, plan->chunks, sizeof(*state->ranks));
    int error = TARRY_OK;
    if (state->credits == NULL || state->copies == NULL || state->ranks == NULL)
        error = TARRY_ERROR_NO_MEMORY;
    else if (plan->parts > 1)
        error = coefficients_create(plan, conditioning_limit, allocator, &state->work);
    if (error != TARRY_OK) {
        coverage_free(state);
        return error;
    }
    *out = state;
    return TARRY_OK;
}

void coverage_free(coverage *state)
{
    if (state == NULL)
        return;
    tarry_allocator allocator = state->allocator;
    coefficients_free(state->work);
    memory_release(&allocator, state->credits);
    memory_release(&allocator, state->copies);
    memory_release(&allocator, state->ranks);
    memory_release(&allocator, state);
}

void coverage_clear(coverage *state)
{
    bitset_clear(state->credits, plan_edges(state->plan));
    for (uint32_t chunk = 0; chunk < state->plan->chunks; chunk++)
        state->copies[chunk] = state->ranks[chunk] = 0;
    state->recovered = 0;
    state->rank_sum = 0;
}

static void set_rank(coverage *state, uint32_t chunk, uint32_t rank)
{
    uint32_t parts = state->plan->parts, before = state->ranks[chunk];
    state->recovered += (rank == parts);
    state->recovered -= (before == parts);
    state->rank_sum += rank;
    state->rank_sum -= before;
    state->ranks[chunk] = rank;
}

/* The rank that `chunk` has by its present credits. */
static int find_rank(coverage *state, uint32_t chunk, uint32_t *rank)
{
    if (state->work == NULL) {
        *rank = state->copies[chunk] > 0;
        return TARRY_OK;
    }
    return coefficients_rank(state->work, chunk, state->credits, state->plan->chunk_offset[chunk],
                             rank);
}

static size_t credit_bit(const tarry_plan *plan, uint32_t slot)
{
    return plan->chunk_offset[plan->slot_chunk[slot]] + plan->slot_holder[slot];
}

/* Gives the copy of `slot` the credit `value`, which it does not have;
 * nothing changes on an error. */
static int flip(coverage *state, uint32_t slot, bool value)
{
    uint32_t chunk = state->plan->slot_chunk[slot], rank = state->ranks[chunk];
    size_t bit = credit_bit(state->plan, slot);
    bitset_put(state->credits, bit, value);
    state->copies[chunk] += value ? 1U : UINT32_MAX;
    /* Another copy never lowers a rank, so a full one stays. */
    if (!value || rank < state->plan->parts) {
        int error = find_rank(state, chunk, &rank);
        if (error != TARRY_OK) {
            bitset_put(state->credits, bit, !value);
            state->copies[chunk] += value ? UINT32_MAX : 1U;
            return error;
        }
    }
    set_rank(state, chunk, rank);
    return TARRY_OK;
}

int coverage_add(coverage *state, uint32_t worker, uint32_t position)
{
    if (coverage_has(state, worker, position))
        return TARRY_OK;
    return flip(state, state->plan->worker_offset[worker] + position, true);
}

int coverage_remove(coverage *state, uint32_t worker, uint32_t position)
{
    if (!coverage_has(state, worker, position))
        return TARRY_OK;
    return flip(state, state->plan->worker_offset[worker] + position, false);
}

bool coverage_has(const coverage *state, uint32_t worker, uint32_t position)
{
    return bitset_test(state->credits,
                       credit_bit(state->plan, state->plan->worker_offset[worker] + position));
}

uint32_t coverage_copies(const coverage *state, uint32_t chunk)
{
    return state->copies[chunk];
}

uint32_t coverage_rank(const coverage *state, uint32_t chunk)
{
    return state->ranks[chunk];
}

uint32_t coverage_recovered(const coverage *state)
{
    return state->recovered;
}

double coverage_expected_error(const coverage *state)
{
    uint64_t full = (uint64_t)state->plan->chunks * state->plan->parts;
    return (double)(full - state->rank_sum) / (double)full;
}

void coverage_view_chunk(const coverage *state, uint32_t chunk, uint64_t *set, size_t at)
{
    uint32_t first = state->plan->chunk_offset[chunk];
    bitset_copy(set, at, state->credits, first, state->plan->chunk_offset[chunk + 1] - first);
}

bool coverage_view(const coverage *state, uint32_t worker, uint64_t *psi)
{
    const tarry_plan *plan = state->plan;
    bitset_clear(psi, coverage_view_bits(plan, worker));
    size_t at = 0;
    bool own = false;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++) {
        uint32_t chunk = plan->slot_chunk[slot];
        coverage_view_chunk(state, chunk, psi, at);
        at += plan->chunk_offset[chunk + 1] - plan->chunk_offset[chunk];
        own = own || bitset_test(state->credits, credit_bit(plan, slot));
    }
    return own;
}

size_t coverage_view_bits(const tarry_plan *plan, uint32_t worker)
{
    size_t bits = 0;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++) {
        uint32_t chunk = plan->slot_chunk[slot];
        bits += plan->chunk_offset[chunk + 1] - plan->chunk_offset[chunk];
    }
    return bits;
}
