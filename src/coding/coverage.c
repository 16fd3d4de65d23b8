/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/coverage.h"

#include <string.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "coding/coefficients.h"
#include "coding/psi.h"

/* How many numbers of parts there are. */
static uint32_t choices(const tarry_plan *plan)
{
    return plan->parts - plan_least_parts(plan) + 1;
}

/* With several parts there is one more for each number of them, with the raised limit. */
static uint32_t recovery_count(const coverage *state)
{
    return state->plan->parts > 1 ? 2 * state->count : state->count;
}

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
    state->least = plan_least_parts(plan);
    state->count = choices(plan);
    size_t recoveries = recovery_count(state);
    state->ranks = memory_allocate(allocator, plan->chunks, recoveries * sizeof(*state->ranks));
    state->found = memory_allocate(allocator, recoveries, sizeof(*state->found));
    state->with = memory_allocate(allocator, recoveries, sizeof(*state->with));
    int error = TARRY_OK;
    if (state->credits == NULL || state->copies == NULL || state->ranks == NULL ||
        state->found == NULL || state->with == NULL)
        error = TARRY_ERROR_NO_MEMORY;
    else if (plan->parts > 1)
        error = coefficients_create(plan, conditioning_limit, allocator, &state->work);
    if (error != TARRY_OK) {
        coverage_free(state);
        return error;
    }
    for (size_t i = 0; i < recoveries; i++)
        state->with[i].ranks = state->ranks + i * plan->chunks;
    state->raised = state->with + (recoveries - state->count);
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
    memory_release(&allocator, state->found);
    memory_release(&allocator, state->with);
    memory_release(&allocator, state);
}

void coverage_clear(coverage *state)
{
    bitset_clear(state->credits, plan_edges(state->plan));
    uint32_t chunks = state->plan->chunks;
    memset(state->copies, 0, chunks * sizeof(*state->copies));
    for (uint32_t i = 0; i < recovery_count(state); i++) {
        coverage_recovery *with = &state->with[i];
        memset(with->ranks, 0, chunks * sizeof(*with->ranks));
        with->recovered = 0;
        with->rank_sum = 0;
    }
    state->excused = 0;
}

static void set_rank(const coverage *state, coverage_recovery *with, uint32_t parts, uint32_t chunk,
                     uint32_t rank)
{
    uint64_t weight = plan_weight(state->plan, chunk);
    uint32_t before = with->ranks[chunk];
    with->recovered += (rank == parts);
    with->recovered -= (before == parts);
    with->rank_sum += weight * rank;
    with->rank_sum -= weight * before;
    with->ranks[chunk] = rank;
}

void coverage_excuse(coverage *state, uint32_t chunk)
{
    for (uint32_t i = 0; i < recovery_count(state); i++) {
        uint32_t parts = state->least + i % state->count;
        set_rank(state, &state->with[i], parts, chunk, parts);
    }
    state->excused += plan_weight(state->plan, chunk);
}

void coverage_copy(coverage *to, const coverage *from)
{
    size_t chunks = from->plan->chunks, recoveries = recovery_count(from);
    memcpy(to->credits, from->credits, bitset_words(plan_edges(from->plan)) * sizeof(*to->credits));
    memcpy(to->copies, from->copies, chunks * sizeof(*to->copies));
    memcpy(to->ranks, from->ranks, chunks * recoveries * sizeof(*to->ranks));
    for (size_t i = 0; i < recoveries; i++) {
        to->with[i].recovered = from->with[i].recovered;
        to->with[i].rank_sum = from->with[i].rank_sum;
    }
    to->excused = from->excused;
}

int coverage_judge(const coverage *state, uint32_t parts, uint32_t chunk, coefficients_worth *worth)
{
    return coefficients_judge(state->work, parts, chunk, state->credits,
                              state->plan->chunk_offset[chunk], worth);
}

/* With several parts: the ranks that `chunk` has by its present credits, after a copy came (`more`)
 * or went. */
static int find_ranks(coverage *state, uint32_t chunk, bool more)
{
    for (uint32_t i = 0; i < state->count; i++) {
        uint32_t parts = state->least + i;
        uint32_t *found = &state->found[i], *raised = &state->found[state->count + i];
        *found = state->with[i].ranks[chunk];
        *raised = state->raised[i].ranks[chunk];
        /* Another copy never lowers a rank, so a full one stays. */
        if (more && *found == parts)
            continue;
        coefficients_worth worth;
        int error = coverage_judge(state, parts, chunk, &worth);
        if (error != TARRY_OK)
            return error;
        *found = worth.rank;
        *raised = worth.raised_rank;
    }
    return TARRY_OK;
}

static size_t credit_bit(const tarry_plan *plan, uint32_t slot)
{
    return plan->chunk_offset[plan->slot_chunk[slot]] + plan->slot_holder[slot];
}

/* With several parts: gives the copy the credit `value`; nothing changes on an error. */
static int credit_parts(coverage *state, size_t bit, uint32_t chunk, bool value)
{
    bitset_put(state->credits, bit, value);
    state->copies[chunk] += value ? 1U : UINT32_MAX;
    int error = find_ranks(state, chunk, value);
    if (error != TARRY_OK) {
        bitset_put(state->credits, bit, !value);
        state->copies[chunk] += value ? UINT32_MAX : 1U;
        return error;
    }
    for (uint32_t i = 0; i < recovery_count(state); i++)
        if (state->found[i] != state->with[i].ranks[chunk])
            set_rank(state, &state->with[i], state->least + i % state->count, chunk,
                     state->found[i]);
    return TARRY_OK;
}

/* With one part a chunk is recovered as long as there is any copy. */
int coverage_add(coverage *state, uint32_t worker, uint32_t position)
{
    uint32_t slot = state->plan->worker_offset[worker] + position;
    uint32_t chunk = state->plan->slot_chunk[slot];
    size_t bit = credit_bit(state->plan, slot);
    if (bitset_test(state->credits, bit))
        return TARRY_OK;
    if (state->work != NULL)
        return credit_parts(state, bit, chunk, true);
    bitset_set(state->credits, bit);
    if (++state->copies[chunk] == 1)
        set_rank(state, state->with, 1, chunk, 1);
    return TARRY_OK;
}

int coverage_remove(coverage *state, uint32_t worker, uint32_t position)
{
    uint32_t slot = state->plan->worker_offset[worker] + position;
    uint32_t chunk = state->plan->slot_chunk[slot];
    size_t bit = credit_bit(state->plan, slot);
    if (!bitset_test(state->credits, bit))
        return TARRY_OK;
    if (state->work != NULL)
        return credit_parts(state, bit, chunk, false);
    bitset_reset(state->credits, bit);
    if (--state->copies[chunk] == 0)
        set_rank(state, state->with, 1, chunk, 0);
    return TARRY_OK;
}

bool coverage_has(const coverage *state, uint32_t worker, uint32_t position)
{
    return bitset_test(state->credits,
                       credit_bit(state->plan, state->plan->worker_offset[worker] + position));
}

static double error_of(const coverage *state, const coverage_recovery *with, uint32_t parts)
{
    uint64_t full = plan_total_weight(state->plan) * parts, wanted = coverage_wanted(state) * parts;
    return wanted > 0 ? (double)(full - with->rank_sum) / (double)wanted : 0;
}

double coverage_expected_error(const coverage *state, uint32_t parts)
{
    return error_of(state, coverage_with(state, parts), parts);
}

double coverage_raised_error(const coverage *state, uint32_t parts)
{
    return error_of(state, coverage_if_raised(state, parts), parts);
}

void coverage_view_chunk(const coverage *state, uint32_t chunk, uint64_t *set, size_t at)
{
    uint32_t first = state->plan->chunk_offset[chunk];
    bitset_copy(set, at, state->credits, first, state->plan->chunk_offset[chunk + 1] - first);
}

bool coverage_view(const coverage *state, uint32_t worker, uint64_t *psi)
{
    bitset_clear(psi, coverage_view_bits(state->plan, worker));
    bool own = false;
    for (psi_walk at = psi_begin(state->plan, worker); psi_here(&at); psi_next(&at)) {
        if (at.holders <= 64)
            bitset_add(psi, at.bit, bitset_get(state->credits, at.first, at.holders), at.holders);
        else
            bitset_copy(psi, at.bit, state->credits, at.first, at.holders);
        own = own || bitset_test(psi, psi_own(&at));
    }
    return own;
}

size_t coverage_view_bits(const tarry_plan *plan, uint32_t worker)
{
    psi_walk at = psi_begin(plan, worker);
    while (psi_here(&at))
        psi_next(&at);
    return at.bit;
}
