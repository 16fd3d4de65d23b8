/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/bitset.h"
#include "base/random.h"
#include "coding/coefficients.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

OWNED_BY(coefficients, coefficients_free)

enum { MOST = 16 }; /* workers, replication and parts of the plans here */

/* A small dense matrix of at most MOST x MOST. */
typedef struct matrix {
    size_t rows, columns;
    double at[MOST][MOST];
} matrix;

static matrix multiply(const matrix *a, const matrix *b)
{
    matrix product = {.rows = a->rows, .columns = b->columns};
    for (size_t i = 0; i < a->rows; i++) {
        for (size_t j = 0; j < b->columns; j++) {
            for (size_t k = 0; k < a->columns; k++)
                product.at[i][j] += a->at[i][k] * b->at[k][j];
        }
    }
    return product;
}

static matrix transpose(const matrix *a)
{
    matrix result = {.rows = a->columns, .columns = a->rows};
    for (size_t i = 0; i < a->rows; i++) {
        for (size_t j = 0; j < a->columns; j++)
            result.at[j][i] = a->at[i][j];
    }
    return result;
}

static double largest(const matrix *a)
{
    double most = 0;
    for (size_t i = 0; i < a->rows; i++) {
        for (size_t j = 0; j < a->columns; j++)
            most = fmax(most, fabs(a->at[i][j]));
    }
    return most;
}

static void assert_close(const matrix *a, const matrix *b, double tolerance)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->columns, b->columns);
    for (size_t i = 0; i < a->rows; i++) {
        for (size_t j = 0; j < a->columns; j++)
            assert_true(fabs(a->at[i][j] - b->at[i][j]) <= tolerance);
    }
}

/* The four Moore-Penrose identities, which only pinv(a) satisfies; u comes from floats. */
static void assert_pseudoinverse(const matrix *a, const matrix *u)
{
    double scale = fmax(1, largest(u)), tolerance = 1e-6 * (double)a->columns * scale;
    matrix au = multiply(a, u), ua = multiply(u, a);
    matrix aua = multiply(&au, a), uau = multiply(&ua, u);
    matrix au_t = transpose(&au), ua_t = transpose(&ua);
    assert_close(&aua, a, tolerance);
    assert_close(&uau, u, tolerance * scale);
    assert_close(&au_t, &au, tolerance);
    assert_close(&ua_t, &ua, tolerance);
}

/* All credits, as one bit per worker and chunk. */
typedef struct credits {
    bool of[MOST][MOST];
} credits;

static void cut_psi(const tarry_plan *plan, const credits *finished, uint32_t worker, uint64_t *psi)
{
    size_t bit = 0;
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++) {
        uint32_t chunk = plan->slot_chunk[slot];
        for (uint32_t entry = plan->chunk_offset[chunk]; entry < plan->chunk_offset[chunk + 1];
             entry++)
            bitset_put(psi, bit++, finished->of[plan->holder_worker[entry]][chunk]);
    }
}

/* What each worker computes for each chunk: U of the chunk, row by row, from every worker's own
 * view. rows[chunk][worker][part]. */
static void compute_all(const tarry_plan *plan, double limit, const credits *finished,
                        float rows[MOST][MOST][MOST])
{
    OWNED(coefficients) work;
    assert_ok(coefficients_create(plan, limit, NULL, &work));
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        uint64_t psi[MOST * MOST / 64 + 1] = {0};
        float out[MOST * MOST];
        memset(out, 0xff, sizeof(out));
        cut_psi(plan, finished, worker, psi);
        assert_ok(coefficients_of_worker(work, worker, psi, out));
        uint32_t first = plan->worker_offset[worker];
        for (uint32_t slot = first; slot < plan->worker_offset[worker + 1]; slot++)
            memcpy(rows[plan->slot_chunk[slot]][worker], out + (slot - first) * plan->parts,
                   plan->parts * sizeof(*out));
    }
}

/* Cuts R_S and U of `chunk` out; gives back |S|. */
static size_t cut_chunk(const tarry_plan *plan, const credits *finished, uint32_t chunk,
                        float rows[MOST][MOST][MOST], matrix *a, matrix *u)
{
    *a = (matrix){.rows = plan->parts};
    *u = (matrix){.columns = plan->parts};
    for (uint32_t entry = plan->chunk_offset[chunk]; entry < plan->chunk_offset[chunk + 1];
         entry++) {
        uint32_t worker = plan->holder_worker[entry];
        for (uint32_t part = 0; part < plan->parts; part++) {
            float value = rows[chunk][worker][part];
            if (!finished->of[worker][chunk]) {
                assert_true(value == 0);
                continue;
            }
            a->at[part][a->columns] =
                plan->parts == 1 ? 1 : plan->decode[part * plan->workers + worker];
            u->at[u->rows][part] = (double)value;
        }
        a->columns += finished->of[worker][chunk];
        u->rows += finished->of[worker][chunk];
    }
    return a->columns;
}

static credits draw_credits(const tarry_plan *plan, random_stream *stream)
{
    credits drawn = {0};
    uint32_t odds = random_below(stream, 5);
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
             slot++)
            drawn.of[worker][plan->slot_chunk[slot]] = random_below(stream, 4) < odds;
    }
    return drawn;
}

TEST(each_chunk_gets_the_pseudoinverse)
{
    uint64_t seed = test_seed("pseudoinverse", 21);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    for (uint32_t parts = 1; parts <= 5; parts++) {
        tarry_plan *plans[] = {
            edge_plan_cyclic(8, 8, 6, parts),
            edge_plan_fractional(12, 6, 6, parts),
            edge_plan_random(9, 14, 5, parts, seed),
        };
        for (size_t i = 0; i < sizeof(plans) / sizeof(*plans); i++) {
            edge_plan_random_decode(plans[i], seed + i);
            for (int trial = 0; trial < 50; trial++) {
                static float rows[MOST][MOST][MOST];
                matrix a, u;
                credits drawn = draw_credits(plans[i], &stream);
                compute_all(plans[i], 1e8, &drawn, rows);
                for (uint32_t chunk = 0; chunk < plans[i]->chunks; chunk++) {
                    if (cut_chunk(plans[i], &drawn, chunk, rows, &a, &u) > 0)
                        assert_pseudoinverse(&a, &u);
                }
            }
            tarry_plan_free(plans[i]);
        }
    }
}

/* Two columns at the angle t have the singular values sqrt(1 +- cos t). */
static tarry_plan *plan_of_two_columns(double sigma_min)
{
    tarry_plan *plan = edge_plan_fractional(2, 1, 2, 2);
    edge_plan_random_decode(plan, 1);
    double cosine = 1 - sigma_min * sigma_min;
    plan->decode[0] = 1;
    plan->decode[2] = 0;
    plan->decode[1] = cosine;
    plan->decode[3] = sqrt(1 - cosine * cosine);
    return plan;
}

TEST(the_limit_decides_the_rank)
{
    const double limits[] = {3, 100, 1e4};
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        for (int full = 0; full < 2; full++) {
            /* cos t is rounded to 1e-16, which near 1 moves sigma by 1e-16 / sigma. */
            OWNED(tarry_plan) plan = plan_of_two_columns((full ? 1 + 1e-7 : 1 - 1e-7) / limits[i]);
            OWNED(coefficients) work;
            assert_ok(coefficients_create(plan, limits[i], NULL, &work));
            const uint64_t both = 3 << 5;
            uint32_t rank = 99;
            assert_ok(coefficients_rank(work, 0, &both, 5, &rank));
            assert_int_equal(rank, full ? 2 : 1);
            /* Of rank one, pinv is v u^T / sigma with v = (1, 1) / sqrt(2): equal rows. */
            static float rows[MOST][MOST][MOST];
            credits all = {.of = {{true}, {true}}};
            compute_all(plan, limits[i], &all, rows);
            double cosine = plan->decode[1], sine = plan->decode[3];
            double scale = 1 / (2 * (1 + cosine));
            double expected[2][2] = {{1, -cosine / sine}, {0, 1 / sine}};
            for (int part = 0; part < 2 && !full; part++)
                expected[0][part] = expected[1][part] = scale * (part == 0 ? 1 + cosine : sine);
            for (int k = 0; k < 4; k++) {
                double got = (double)rows[0][k / 2][k % 2], want = expected[k / 2][k % 2];
                assert_true(fabs(got - want) <= 1e-6 * fmax(1, fabs(expected[1][1])));
            }
        }
    }
}

TEST(ranks_grow_with_the_set)
{
    for (uint32_t parts = 1; parts <= 4; parts++) {
        OWNED(tarry_plan) plan = edge_plan_fractional(6, 2, 6, parts);
        edge_plan_random_decode(plan, 3);
        OWNED(coefficients) work;
        assert_ok(coefficients_create(plan, 1e8, NULL, &work));
        for (uint64_t set = 0; set < 64; set++) {
            uint32_t rank, copies = (uint32_t)__builtin_popcountll(set);
            assert_ok(coefficients_rank(work, 1, &set, 0, &rank));
            assert_int_equal(rank, copies < parts ? copies : parts);
        }
    }
}

/* A worker's row of a chunk depends on that chunk's set alone,
 * whether or not another chunk has the same. */
TEST(sharing_changes_nothing)
{
    uint64_t seed = test_seed("sharing", 23);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    OWNED(tarry_plan) plan = edge_plan_fractional(5, 16, 5, 3);
    edge_plan_random_decode(plan, seed);
    static float rows[MOST][MOST][MOST], alone[MOST][MOST][MOST];
    for (int trial = 0; trial < 20; trial++) {
        /* Chunks 0..15 have one of three sets. */
        bool sets[3][MOST];
        for (int k = 0; k < 3 * MOST; k++)
            sets[k / MOST][k % MOST] = random_below(&stream, 3) > 0;
        credits all = {0};
        for (uint32_t chunk = 0; chunk < 16; chunk++) {
            uint32_t pick = random_below(&stream, 3);
            for (uint32_t worker = 0; worker < 5; worker++)
                all.of[worker][chunk] = sets[pick][worker];
        }
        compute_all(plan, 1e8, &all, rows);
        for (uint32_t chunk = 0; chunk < 16; chunk++) {
            credits one = {0};
            for (uint32_t worker = 0; worker < 5; worker++)
                one.of[worker][chunk] = all.of[worker][chunk];
            compute_all(plan, 1e8, &one, alone);
            for (uint32_t worker = 0; worker < 5; worker++)
                assert_memory_equal(rows[chunk][worker], alone[chunk][worker], 3 * sizeof(float));
        }
    }
}

static int attempt_create(void *user, const tarry_allocator *allocator)
{
    const tarry_plan *plan = user;
    coefficients *work;
    int error = coefficients_create(plan, 1e4, allocator, &work);
    if (error != TARRY_OK)
        return error;
    const failing_allocator *counting = allocator->user;
    size_t allocations = counting->allocations;
    const uint64_t psi = UINT64_MAX;
    float out[3 * 3];
    assert_ok(coefficients_of_worker(work, 0, &psi, out));
    assert_int_equal(counting->allocations, allocations);
    coefficients_free(work);
    return error;
}

TEST(every_failed_allocation_is_reported)
{
    for (uint32_t parts = 1; parts <= 3; parts++) {
        OWNED(tarry_plan) plan = edge_plan_cyclic(6, 6, 3, parts);
        edge_plan_random_decode(plan, 1);
        assert_int_equal(fail_each_allocation(attempt_create, plan), parts == 1 ? 1 : 7);
    }
    coefficients_free(NULL);
}
