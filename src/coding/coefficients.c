/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One singular value decomposition per set of workers gives both the rank and the pseudoinverse.
 * It works on the transpose of R_S where S has at least as many workers as there are parts, so that
 * its columns are the fewer: with R_S^T V = W, whose columns are orthogonal and as long as the
 * singular values sigma_k, pinv(R_S) = sum_k w_k v_k^T / sigma_k^2; with R_S V = W it is
 * sum_k v_k w_k^T / sigma_k^2.
 */
#include "coding/coefficients.h"

#include <math.h>
#include <string.h>

#include "base/bitset.h"
#include "base/dot.h"
#include "base/memory.h"
#include "base/svd.h"
#include "coding/psi.h"

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

void coefficients_set_limit(coefficients *work, double limit)
{
    work->threshold = 1 / limit;
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
static void put_worker(coefficients *work, uint32_t parts, uint32_t count, uint32_t index,
                       uint32_t worker)
{
    const double *decode = plan_decode(work->plan, parts) + worker;
    bool transposed = is_transposed(parts, count);
    double *to = work->matrix + (transposed ? index : (size_t)index * parts);
    size_t stride = transposed ? count : 1;
    for (uint32_t part = 0; part < parts; part++)
        to[part * stride] = decode[(size_t)part * work->plan->workers];
}

/* Decomposes R_S, whose `count` workers were put. The singular values are the same with a basis and
 * without. */
static int decompose(coefficients *work, uint32_t parts, uint32_t count, double *basis)
{
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
static uint32_t count_above(const coefficients *work, uint32_t least, double threshold)
{
    uint32_t above = 0;
    for (uint32_t k = 0; k < least; k++)
        above += work->sigma[k] >= threshold;
    return above;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Decomposes R_S, unless it is of one part or of nobody; *members = |S|. */
static int decompose_set(coefficients *work, uint32_t parts, uint32_t chunk, const uint64_t *set,
                         size_t start, uint32_t *members)
{
    const tarry_plan *plan = work->plan;
    uint32_t first = plan->chunk_offset[chunk], holders = plan->chunk_offset[chunk + 1] - first;
    uint32_t count = 0, index = 0;
    for (uint32_t holder = 0; holder < holders; holder++)
        count += bitset_test(set, start + holder);
    *members = count;
    if (parts == 1 || count == 0)
        return TARRY_OK;
    for (uint32_t holder = 0; holder < holders; holder++)
        if (bitset_test(set, start + holder))
            put_worker(work, parts, count, index++, plan->holder_worker[first + holder]);
    return decompose(work, parts, count, NULL);
}

int coefficients_judge(coefficients *work, uint32_t parts, uint32_t chunk, const uint64_t *set,
                       size_t start, coefficients_worth *worth)
{
    uint32_t members;
    int error = decompose_set(work, parts, chunk, set, start, &members);
    if (error != TARRY_OK)
        return error;
    if (parts == 1) { /* R_S is all ones */
        double inverse = members > 0 ? 1 / sqrt((double)members) : 0;
        *worth = (coefficients_worth){members > 0, members > 0, inverse, members > 0 ? 1 : 0};
        return TARRY_OK;
    }
    uint32_t values = lesser(parts, members);
    double least = fmin(work->threshold, 1 / TARRY_CONDITIONING_MOST), all = 0, inverses = 0;
    *worth = (coefficients_worth){
        .rank = count_above(work, values, work->threshold),
        .raised_rank = count_above(work, values, least),
    };
    for (uint32_t k = 0; k < values; k++) {
        double sigma = work->sigma[k];
        all += sigma * sigma;
        if (sigma >= least) {
            inverses += 1 / (sigma * sigma);
            worth->inverse = fmax(worth->inverse, 1 / sigma);
        }
    }
    worth->amplification = sqrt(all * inverses);
    return TARRY_OK;
}

int coefficients_rank(coefficients *work, uint32_t parts, uint32_t chunk, const uint64_t *set,
                      size_t start, uint32_t *rank)
{
    uint32_t members;
    int error = decompose_set(work, parts, chunk, set, start, &members);
    if (error == TARRY_OK)
        *rank =
            parts == 1 ? members > 0 : count_above(work, lesser(parts, members), work->threshold);
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
static int solve_row(coefficients *work, uint32_t parts, uint32_t worker, uint32_t position,
                     float *row)
{
    size_t begin = work->begin[position];
    uint32_t count = (uint32_t)(work->begin[position + 1] - begin), own = 0;
    for (uint32_t index = 0; index < count; index++) {
        put_worker(work, parts, count, index, work->members[begin + index]);
        if (work->members[begin + index] == worker)
            own = index;
    }
    int error = decompose(work, parts, count, work->basis);
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

int coefficients_of_worker(coefficients *work, uint32_t parts, uint32_t worker, const uint64_t *psi,
                           float *out)
{
    const tarry_plan *plan = work->plan;
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
        int error = solve_row(work, parts, worker, position, row);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}
