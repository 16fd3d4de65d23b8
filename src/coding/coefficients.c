/* SPDX-License-Identifier: Apache-2.0 */
#include "coding/coefficients.h"

#include <math.h>
#include <string.h>

#include "base/bitset.h"
#include "base/dot.h"
#include "base/memory.h"
#include "base/svd.h"
#include "coding/psi.h"

/*
 * One singular value decomposition per set of workers gives both the rank and the pseudoinverse.
 * It works on the transpose of R_S where S has at least as many workers as there are parts, so that
 * its columns are the fewer: with R_S^T V = W, whose columns are orthogonal and as long as the
 * singular values sigma_k, pinv(R_S) = sum_k w_k v_k^T / sigma_k^2; with R_S V = W it is
 * sum_k v_k w_k^T / sigma_k^2.
 */

struct coefficients {
    tarry_allocator allocator;
    const tarry_plan *plan;
    double threshold; /* least singular value that counts */
    /* The sets of workers of one worker's chunks, one behind the other: the set at position p is
     * members[begin[p]] .. members[begin[p + 1] - 1], in ascending order. */
    uint32_t *members;
    size_t *begin; /* max_load + 1 */
    /* Open hash table over these sets: a position, plus one, of each set that is solved. */
    uint32_t *table;
    size_t table_size; /* a power of two, at least twice max_load */
    /* Of the decomposition; the larger dimension of R_S is at most `widest`. */
    double *matrix; /* R_S or its transpose, then W; column by column */
    double *basis;  /* V: min(l, |S|) squared */
    double *sigma;  /* min(l, |S|), in no particular order */
};

static int allocate_decomposition(coefficients *work)
{
    const tarry_allocator *allocator = &work->allocator;
    size_t parts = work->plan->parts, widest = work->plan->max_replication;
    work->matrix = memory_allocate(allocator, parts * widest, sizeof(double));
    work->basis = memory_allocate(allocator, parts * parts, sizeof(double));
    work->sigma = memory_allocate(allocator, parts, sizeof(double));
    if (work->matrix == NULL || work->basis == NULL || work->sigma == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return TARRY_OK;
}

static int allocate_sets(coefficients *work)
{
    const tarry_allocator *allocator = &work->allocator;
    const tarry_plan *plan = work->plan;
    work->table_size = 2;
    while (work->table_size < 2 * (size_t)plan->max_load)
        work->table_size *= 2;
    work->members = memory_allocate(allocator, plan->max_psi_bits, sizeof(*work->members));
    work->begin = memory_allocate(allocator, (size_t)plan->max_load + 1, sizeof(*work->begin));
    work->table = memory_allocate(allocator, work->table_size, sizeof(*work->table));
    if (work->members == NULL || work->begin == NULL || work->table == NULL)
        return TARRY_ERROR_NO_MEMORY;
    return TARRY_OK;
}

int coefficients_create(const tarry_plan *plan, double conditioning_limit,
                        const tarry_allocator *allocator, coefficients **out)
{
    coefficients *work = memory_allocate(allocator, 1, sizeof(*work));
    if (work == NULL)
        return TARRY_ERROR_NO_MEMORY;
    work->allocator = memory_allocator(allocator);
    work->plan = plan;
    work->threshold = 1 / conditioning_limit;
    int error = TARRY_OK;
    if (plan->parts > 1) {
        error = allocate_decomposition(work);
        if (error == TARRY_OK)
            error = allocate_sets(work);
    }
    if (error != TARRY_OK) {
        coefficients_free(work);
        return error;
    }
    *out = work;
    return TARRY_OK;
}

void coefficients_free(coefficients *work)
{
    if (work == NULL)
        return;
    tarry_allocator allocator = work->allocator;
    memory_release(&allocator, work->matrix);
    memory_release(&allocator, work->basis);
    memory_release(&allocator, work->sigma);
    memory_release(&allocator, work->members);
    memory_release(&allocator, work->begin);
    memory_release(&allocator, work->table);
    memory_release(&allocator, work);
}

/* Whether the decomposition is that of the transpose. */
static bool is_transposed(uint32_t parts, uint32_t count)
{
    return count >= parts;
}

/* Writes the column of R_S that is `worker`'s, the index-th of `count`. */
static void put_worker(coefficients *work, uint32_t count, uint32_t index, uint32_t worker)
{
    const uint32_t parts = work->plan->parts;
    const double *decode = work->plan->decode + worker;
    bool transposed = is_transposed(parts, count);
    double *to = work->matrix + (transposed ? index : (size_t)index * parts);
    size_t stride = transposed ? count : 1;
    for (uint32_t part = 0; part < parts; part++)
        to[part * stride] = decode[(size_t)part * work->plan->workers];
}

/* Decomposes R_S, whose `count` workers were put. The singular values are the same with a basis and
 * without. */
static int decompose(coefficients *work, uint32_t count, double *basis)
{
    const uint32_t parts = work->plan->parts;
    bool transposed = is_transposed(parts, count);
    uint32_t rows = transposed ? count : parts, columns = transposed ? parts : count;
    if (!svd_rotate(work->matrix, rows, columns, basis))
        return TARRY_ERROR_NUMERICAL;
    for (uint32_t k = 0; k < columns; k++) {
        const double *column = work->matrix + (size_t)k * rows;
        work->sigma[k] = sqrt(dot(column, column, rows));
    }
    return TARRY_OK;
}

/* The one place where ranks are decided: so many of the `least` singular values reach the
 * threshold. */
static uint32_t count_above(const coefficients *work, uint32_t least)
{
    uint32_t above = 0;
    for (uint32_t k = 0; k < least; k++)
        above += work->sigma[k] >= work->threshold;
    return above;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

int coefficients_rank(coefficients *work, uint32_t chunk, const uint64_t *set, size_t start,
                      uint32_t *rank)
{
    const tarry_plan *plan = work->plan;
    uint32_t first = plan->chunk_offset[chunk], holders = plan->chunk_offset[chunk + 1] - first;
    uint32_t count = 0, index = 0;
    for (uint32_t holder = 0; holder < holders; holder++)
        count += bitset_test(set, start + holder);
    if (plan->parts == 1 || count == 0) {
        *rank = count > 0;
        return TARRY_OK;
    }
    for (uint32_t holder = 0; holder < holders; holder++)
        if (bitset_test(set, start + holder))
            put_worker(work, count, index++, plan->holder_worker[first + holder]);
    int error = decompose(work, count, NULL);
    if (error == TARRY_OK)
        *rank = count_above(work, lesser(plan->parts, count));
    return error;
}

/* With one part R is all ones, and pinv(R_S) = 1 / |S|. */
static void one_part(const tarry_plan *plan, uint32_t worker, const uint64_t *psi, float *out)
{
    for (psi_walk at = psi_begin(plan, worker); psi_here(&at); psi_next(&at)) {
        uint32_t copies = 0;
        for (uint32_t holder = 0; holder < at.holders; holder++)
            copies += bitset_test(psi, at.bit + holder);
        out[at.position] = bitset_test(psi, psi_own(&at)) ? (float)(1 / (double)copies) : 0;
    }
}

/* Reads which workers have the chunk at each position; none where the worker itself has not. */
static void gather_sets(coefficients *work, uint32_t worker, const uint64_t *psi)
{
    const tarry_plan *plan = work->plan;
    size_t end = 0;
    work->begin[0] = 0;
    for (psi_walk at = psi_begin(plan, worker); psi_here(&at); psi_next(&at)) {
        bool own = bitset_test(psi, psi_own(&at));
        for (uint32_t holder = 0; own && holder < at.holders; holder++) {
            if (bitset_test(psi, at.bit + holder))
                work->members[end++] = plan->holder_worker[at.first + holder];
        }
        work->begin[at.position + 1] = end;
    }
}

/* FNV-1a over the members. */
static uint64_t hash_set(const uint32_t *members, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ members[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

/* The first position with the same set as `position`: itself if there is none before. */
static uint32_t find_or_insert(coefficients *work, uint32_t position)
{
    const uint32_t *members = work->members + work->begin[position];
    size_t count = work->begin[position + 1] - work->begin[position];
    size_t mask = work->table_size - 1;
    for (size_t entry = hash_set(members, count) & mask;; entry = (entry + 1) & mask) {
        if (work->table[entry] == 0) {
            work->table[entry] = position + 1;
            return position;
        }
        uint32_t other = work->table[entry] - 1;
        size_t begin = work->begin[other];
        if (work->begin[other + 1] - begin == count &&
            memcmp(work->members + begin, members, count * sizeof(*members)) == 0)
            return other;
    }
}

/* The worker's row of pinv(R_S) for the set at `position`. */
static int solve_row(coefficients *work, uint32_t worker, uint32_t position, float *row)
{
    const uint32_t parts = work->plan->parts;
    size_t begin = work->begin[position];
    uint32_t count = (uint32_t)(work->begin[position + 1] - begin), own = 0;
    for (uint32_t index = 0; index < count; index++) {
        put_worker(work, count, index, work->members[begin + index]);
        if (work->members[begin + index] == worker)
            own = index;
    }
    int error = decompose(work, count, work->basis);
    if (error != TARRY_OK)
        return error;
    bool transposed = is_transposed(parts, count);
    const double *of_workers = transposed ? work->matrix : work->basis;
    const double *of_parts = transposed ? work->basis : work->matrix;
    for (uint32_t part = 0; part < parts; part++) {
        double sum = 0;
        for (size_t k = 0; k < lesser(parts, count); k++) {
            double sigma = work->sigma[k];
            if (sigma >= work->threshold)
                sum += of_workers[k * count + own] / (sigma * sigma) * of_parts[k * parts + part];
        }
        row[part] = (float)sum;
    }
    return TARRY_OK;
}

int coefficients_of_worker(coefficients *work, uint32_t worker, const uint64_t *psi, float *out)
{
    const tarry_plan *plan = work->plan;
    const uint32_t parts = plan->parts;
    if (parts == 1) {
        one_part(plan, worker, psi, out);
        return TARRY_OK;
    }
    gather_sets(work, worker, psi);
    memset(work->table, 0, work->table_size * sizeof(*work->table));
    uint32_t load = plan->worker_offset[worker + 1] - plan->worker_offset[worker];
    for (uint32_t position = 0; position < load; position++) {
        float *row = out + (size_t)position * parts;
        memset(row, 0, parts * sizeof(*row));
        if (work->begin[position + 1] == work->begin[position])
            continue;
        uint32_t same = find_or_insert(work, position);
        if (same != position) {
            memcpy(row, out + (size_t)same * parts, parts * sizeof(*row));
            continue;
        }
        int error = solve_row(work, worker, position, row);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/* ---- coverage ---- */

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
    uint32_t chunks = state->plan->chunks;
    memset(state->copies, 0, chunks * sizeof(*state->copies));
    memset(state->ranks, 0, chunks * sizeof(*state->ranks));
    state->recovered = 0;
    state->rank_sum = state->excused = 0;
}

static void set_rank(coverage *state, uint32_t chunk, uint32_t rank)
{
    uint64_t weight = plan_weight(state->plan, chunk);
    uint32_t before = state->ranks[chunk], parts = state->plan->parts;
    state->recovered += (rank == parts);
    state->recovered -= (before == parts);
    state->rank_sum += weight * rank;
    state->rank_sum -= weight * before;
    state->ranks[chunk] = rank;
}

void coverage_excuse(coverage *state, uint32_t chunk)
{
    set_rank(state, chunk, state->plan->parts);
    state->excused += plan_weight(state->plan, chunk);
}

void coverage_copy(coverage *to, const coverage *from)
{
    size_t chunks = from->plan->chunks;
    memcpy(to->credits, from->credits, bitset_words(plan_edges(from->plan)) * sizeof(*to->credits));
    memcpy(to->copies, from->copies, chunks * sizeof(*to->copies));
    memcpy(to->ranks, from->ranks, chunks * sizeof(*to->ranks));
    to->recovered = from->recovered;
    to->rank_sum = from->rank_sum;
    to->excused = from->excused;
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
    uint32_t rank = state->ranks[chunk];
    int error = TARRY_OK;
    /* Another copy never lowers a rank, so a full one stays. */
    if (!value || rank < state->plan->parts)
        error = coefficients_rank(state->work, chunk, state->credits,
                                  state->plan->chunk_offset[chunk], &rank);
    if (error != TARRY_OK) {
        bitset_put(state->credits, bit, !value);
        state->copies[chunk] += value ? UINT32_MAX : 1U;
        return error;
    }
    set_rank(state, chunk, rank);
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
        set_rank(state, chunk, 1);
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
        set_rank(state, chunk, 0);
    return TARRY_OK;
}

bool coverage_has(const coverage *state, uint32_t worker, uint32_t position)
{
    return bitset_test(state->credits,
                       credit_bit(state->plan, state->plan->worker_offset[worker] + position));
}

double coverage_expected_error(const coverage *state)
{
    uint64_t parts = state->plan->parts, full = plan_total_weight(state->plan) * parts;
    uint64_t wanted = coverage_wanted(state) * parts;
    return wanted > 0 ? (double)(full - state->rank_sum) / (double)wanted : 0;
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
