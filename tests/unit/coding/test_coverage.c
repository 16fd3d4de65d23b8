/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <lapacke.h>

#include "base/bitset.h"
#include "base/random.h"
#include "coding/coefficients.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "seed.h"
#include "test.h"

OWNED_BY(coverage, coverage_free)

#define LIMIT 1e4

/* The oracle's state: credit[worker * chunks + chunk]. */
typedef struct model {
    const tarry_plan *plan;
    bool *credit;
} model;

static model model_make(const tarry_plan *plan)
{
    model made = {.plan = plan, .credit = calloc((size_t)plan->workers * plan->chunks, 1)};
    assert_non_null(made.credit);
    return made;
}

static bool *model_credit(const model *oracle, uint32_t worker, uint32_t chunk)
{
    return &oracle->credit[(size_t)worker * oracle->plan->chunks + chunk];
}

static uint32_t model_copies(const model *oracle, uint32_t chunk)
{
    uint32_t copies = 0;
    for (uint32_t worker = 0; worker < oracle->plan->workers; worker++)
        copies += *model_credit(oracle, worker, chunk);
    return copies;
}

/* By the eigenvalues of R_S R_S^T. */
static uint32_t model_rank(const model *oracle, uint32_t chunk)
{
    const tarry_plan *plan = oracle->plan;
    uint32_t parts = plan->parts, rank = 0;
    if (parts == 1)
        return model_copies(oracle, chunk) > 0;
    double product[16 * 16] = {0}, eigenvalues[16];
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        for (uint32_t k = 0; *model_credit(oracle, worker, chunk) && k < parts * parts; k++) {
            product[k] += plan->decode[k / parts * plan->workers + worker] *
                          plan->decode[k % parts * plan->workers + worker];
        }
    }
    assert_int_equal(LAPACKE_dsyev(LAPACK_COL_MAJOR, 'N', 'U', (lapack_int)parts, product,
                                   (lapack_int)parts, eigenvalues),
                     0);
    for (uint32_t k = 0; k < parts; k++)
        rank += eigenvalues[k] > 1 / (LIMIT * LIMIT);
    return rank;
}

static void check_view(const coverage *tracker, const model *oracle, uint32_t worker)
{
    const tarry_plan *plan = oracle->plan;
    uint64_t psi[64];
    size_t bits = coverage_view_bits(plan, worker), bit = 0;
    assert_true(bitset_words(bits) < 64);
    memset(psi, 0xff, sizeof(psi));
    bool own = false;
    bool told = coverage_view(tracker, worker, psi);
    for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
         slot++) {
        uint32_t chunk = plan->slot_chunk[slot];
        for (uint32_t entry = plan->chunk_offset[chunk]; entry < plan->chunk_offset[chunk + 1];
             entry++) {
            bool credit = *model_credit(oracle, plan->holder_worker[entry], chunk);
            assert_int_equal(bitset_test(psi, bit++), credit);
        }
        own = own || *model_credit(oracle, worker, chunk);
    }
    assert_int_equal(bit, bits);
    assert_int_equal(told, own);
    for (; bit < 64 * 64; bit++)
        assert_int_equal(bitset_test(psi, bit), bit >= 64 * bitset_words(bits));
}

/* How much of the data the chunk is, in original chunks. */
static double size_of(const tarry_plan *plan, uint32_t chunk)
{
    double size = 0;
    for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++) {
        tarry_span span = tarry_plan_span(plan, chunk, i);
        size += (double)span.count / span.of;
    }
    return size;
}

static void check(const coverage *tracker, const model *oracle)
{
    const tarry_plan *plan = oracle->plan;
    uint32_t recovered = 0;
    double missing = 0, all = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t rank = model_rank(oracle, chunk);
        assert_int_equal(coverage_copies(tracker, chunk), model_copies(oracle, chunk));
        assert_int_equal(coverage_rank(tracker, chunk), rank);
        recovered += rank == plan->parts;
        missing += size_of(plan, chunk) * (plan->parts - rank);
        all += size_of(plan, chunk);
    }
    assert_int_equal(coverage_recovered(tracker), recovered);
    /* Sizes are multiples of 2^-31, few enough for doubles to say their sums exactly. */
    assert_true(coverage_expected_error(tracker) == missing / (all * plan->parts));
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        check_view(tracker, oracle, worker);
}

static void walk(tarry_plan *plan, random_stream *stream)
{
    OWNED(coverage) tracker = NULL;
    assert_ok(coverage_create(plan, LIMIT, NULL, &tracker));
    model oracle = model_make(plan);
    check(tracker, &oracle);
    for (int step = 0; step < 300; step++) {
        uint32_t worker = random_below(stream, plan->workers);
        uint32_t load = plan->worker_offset[worker + 1] - plan->worker_offset[worker];
        if (load == 0)
            continue;
        uint32_t position = random_below(stream, load);
        uint32_t chunk = plan->slot_chunk[plan->worker_offset[worker] + position];
        bool *credit = model_credit(&oracle, worker, chunk);
        assert_int_equal(coverage_has(tracker, worker, position), *credit);
        /* Mostly adds at first, mostly removals later. */
        *credit = random_below(stream, 300) >= (uint32_t)step;
        int error = *credit ? coverage_add(tracker, worker, position)
                            : coverage_remove(tracker, worker, position);
        assert_ok(error);
        if (step % 10 == 0)
            check(tracker, &oracle);
    }
    check(tracker, &oracle);
    coverage_clear(tracker);
    memset(oracle.credit, 0, (size_t)plan->workers * plan->chunks);
    check(tracker, &oracle);
    free(oracle.credit);
}

TEST(agrees_with_a_recount_after_random_steps)
{
    uint64_t seed = test_seed("recount", 11);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    for (uint32_t parts = 1; parts <= 4; parts++) {
        tarry_plan *plans[] = {
            edge_plan_cyclic(8, 8, 4, parts),
            edge_plan_fractional(8, 6, 4, parts),
            edge_plan_random(13, 29, 5, parts, seed),
            edge_plan_random(5, 3, 4, parts, seed + 1),
        };
        for (size_t i = 0; i < sizeof(plans) / sizeof(*plans); i++) {
            edge_plan_random_decode(plans[i], seed + i);
            walk(plans[i], &stream);
            tarry_plan_free(plans[i]);
        }
    }
}

/* A plan after ten rounds of random costs, which split and merge its chunks. */
static tarry_plan *cut_plan(tarry_design design, uint32_t parts, random_stream *stream)
{
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.design = design;
    settings.chunks = 12;
    settings.replication = 4;
    settings.parts = parts;
    tarry_plan *plan = plan_make(&settings);
    for (int change = 0; change < 10; change++) {
        double cost[64];
        assert_true(plan->chunks <= 64);
        for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
            cost[chunk] = 1e-3 + pow(random_uniform(stream), 6);
        const tarry_plan_evolution wanted = {
            .cost = cost, .heaviest = 2, .lightest = 0.5, .most_chunks = 24};
        tarry_plan *next = plan_evolve(plan, &wanted, NULL);
        tarry_plan_free(plan);
        plan = next;
    }
    return plan;
}

TEST(pieces_count_for_what_they_are)
{
    random_stream stream = random_stream_make(test_seed("pieces", 13), RANDOM_TEST, 0, 0);
    const tarry_design designs[] = {TARRY_DESIGN_RANDOM, TARRY_DESIGN_FRACTIONAL};
    for (uint32_t run = 0; run < 8; run++) {
        OWNED(tarry_plan) plan = cut_plan(designs[run % 2], 1 + run / 2 % 3, &stream);
        assert_false(tarry_plan_is_original(plan));
        walk(plan, &stream);
    }
}

TEST(what_is_excused_counts_for_nothing)
{
    OWNED(tarry_plan) plan = edge_plan_cyclic(3, 3, 2, 1);
    OWNED(coverage) tracker = NULL, copy = NULL;
    assert_ok(coverage_create(plan, LIMIT, NULL, &tracker));
    assert_ok(coverage_create(plan, LIMIT, NULL, &copy));
    coverage_clear(tracker);
    coverage_excuse(tracker, 0);
    assert_int_equal(coverage_recovered(tracker), 1);
    assert_true(coverage_wanted(tracker) == 2 * PLAN_ORIGIN_WEIGHT &&
                coverage_expected_error(tracker) == 1);
    for (uint32_t position = 0; position < tarry_plan_load(plan, 2); position++)
        if (tarry_plan_chunk(plan, 2, position) == 1)
            assert_ok(coverage_add(tracker, 2, position));
    assert_int_equal(coverage_recovered(tracker), 2);
    assert_true(coverage_expected_error(tracker) == 0.5);
    coverage_copy(copy, tracker);
    assert_true(coverage_expected_error(copy) == 0.5);
    coverage_clear(tracker);
    assert_true(coverage_wanted(tracker) == 3 * PLAN_ORIGIN_WEIGHT &&
                coverage_expected_error(tracker) == 1);
    for (uint32_t chunk = 0; chunk < 3; chunk++)
        coverage_excuse(tracker, chunk);
    assert_int_equal(coverage_recovered(tracker), 3);
    assert_true(coverage_expected_error(tracker) == 0);
}

TEST(equal_columns_never_recover)
{
    OWNED(tarry_plan) plan = edge_plan_fractional(3, 1, 3, 2);
    edge_plan_random_decode(plan, 1);
    for (uint32_t worker = 1; worker < 3; worker++) {
        plan->decode[worker] = -plan->decode[0];
        plan->decode[3 + worker] = -plan->decode[3];
    }
    OWNED(coverage) tracker = NULL;
    assert_ok(coverage_create(plan, LIMIT, NULL, &tracker));
    for (uint32_t worker = 0; worker < 3; worker++)
        assert_ok(coverage_add(tracker, worker, 0));
    assert_int_equal(coverage_copies(tracker, 0), 3);
    assert_int_equal(coverage_rank(tracker, 0), 1);
    assert_int_equal(coverage_recovered(tracker), 0);
    assert_true(coverage_expected_error(tracker) == 0.5);
}

/* Two of three columns are all but parallel: complete, but over the limit. */
TEST(copies_beyond_the_limit_count_for_less)
{
    OWNED(tarry_plan) plan = edge_plan_fractional(3, 2, 3, 2);
    edge_plan_random_decode(plan, 1);
    const double angles[] = {0, 1e-5, 1};
    for (uint32_t worker = 0; worker < 3; worker++) {
        plan->decode[worker] = cos(angles[worker]);
        plan->decode[3 + worker] = sin(angles[worker]);
    }
    OWNED(coverage) tracker = NULL;
    assert_ok(coverage_create(plan, LIMIT, NULL, &tracker));
    assert_ok(coverage_add(tracker, 0, 0));
    assert_ok(coverage_add(tracker, 1, 0));
    assert_int_equal(coverage_rank(tracker, 0), 1);
    assert_int_equal(coverage_recovered(tracker), 0);
    assert_true(coverage_expected_error(tracker) == 0.75);
    /* The third makes it good; without it all is as before. */
    assert_ok(coverage_add(tracker, 2, 0));
    assert_int_equal(coverage_rank(tracker, 0), 2);
    assert_int_equal(coverage_recovered(tracker), 1);
    assert_ok(coverage_remove(tracker, 2, 0));
    assert_int_equal(coverage_rank(tracker, 0), 1);
    assert_int_equal(coverage_recovered(tracker), 0);
    coverage_clear(tracker);
    assert_true(coverage_expected_error(tracker) == 1);
}

static int attempt_create(void *user, const tarry_allocator *allocator)
{
    OWNED(coverage) tracker = NULL;
    int error = coverage_create(user, LIMIT, allocator, &tracker);
    if (error != TARRY_OK)
        return error;
    /* The allocator counts: nothing may be taken after creation. */
    const failing_allocator *counting = allocator->user;
    size_t allocations = counting->allocations;
    assert_ok(coverage_add(tracker, 1, 0));
    assert_ok(coverage_add(tracker, 2, 1));
    assert_ok(coverage_remove(tracker, 1, 0));
    coverage_clear(tracker);
    assert_int_equal(counting->allocations, allocations);
    return error;
}

TEST(every_failed_allocation_is_reported)
{
    for (uint32_t parts = 1; parts <= 3; parts++) {
        OWNED(tarry_plan) plan = edge_plan_cyclic(6, 6, 3, parts);
        edge_plan_random_decode(plan, 1);
        assert_true(fail_each_allocation(attempt_create, plan) >= 4);
    }
    coverage_free(NULL);
}
