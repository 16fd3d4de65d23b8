/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "failing_allocator.h"
#include "plan_check.h"
#include "seed.h"
#include "test_file.h"

/* Sizes of each design, with equal loads and with such as differ. */
static const struct {
    tarry_design design;
    uint32_t workers, chunks, replication;
} cases[] = {
    {TARRY_DESIGN_CYCLIC, 12, 12, 3},     {TARRY_DESIGN_CYCLIC, 9, 4, 2},
    {TARRY_DESIGN_CYCLIC, 5, 13, 3},      {TARRY_DESIGN_CYCLIC, 10, 1, 3},
    {TARRY_DESIGN_CYCLIC, 16, 8, 3},      {TARRY_DESIGN_CYCLIC, 6, 18, 2},
    {TARRY_DESIGN_FRACTIONAL, 12, 12, 4}, {TARRY_DESIGN_FRACTIONAL, 11, 7, 3},
    {TARRY_DESIGN_FRACTIONAL, 7, 30, 2},  {TARRY_DESIGN_RANDOM, 12, 12, 3},
    {TARRY_DESIGN_RANDOM, 9, 4, 7},       {TARRY_DESIGN_RANDOM, 7, 10, 3},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static tarry_plan *make(size_t index, uint32_t pieces, tarry_order order, uint64_t seed)
{
    tarry_plan_settings settings =
        plan_settings(cases[index].workers, cases[index].chunks, cases[index].replication,
                      cases[index].design, order, seed);
    settings.pieces = pieces;
    return plan_make(&settings);
}

/* chunks x workers bytes, 1 where the worker holds the chunk; the caller frees it. */
static uint8_t *holder_matrix(const tarry_plan *plan)
{
    size_t workers = tarry_plan_workers(plan);
    uint8_t *held = checked_calloc(tarry_plan_chunks(plan) * workers, 1);
    for (uint32_t worker = 0; worker < workers; worker++)
        for (uint32_t position = 0; position < tarry_plan_load(plan, worker); position++)
            held[tarry_plan_chunk(plan, worker, position) * workers + worker] = 1;
    return held;
}

static uint32_t workers_shared(const tarry_plan *plan, const uint8_t *held, uint32_t chunk,
                               uint32_t other)
{
    size_t workers = tarry_plan_workers(plan);
    uint32_t shared = 0;
    for (size_t worker = 0; worker < workers; worker++)
        shared += held[chunk * workers + worker] & held[other * workers + worker];
    return shared;
}

TEST(every_piece_has_its_copies_and_loads_stay_even)
{
    uint64_t seed = test_seed("pieces", 1);
    for (size_t i = 0; i < CASES; i++) {
        for (uint32_t pieces = 1; pieces <= 7; pieces++) {
            OWNED(tarry_plan) whole = make(i, 1, TARRY_ORDER_AS_IS, seed);
            OWNED(tarry_plan) plan = make(i, pieces, TARRY_ORDER_OPTIMAL, seed);
            plan_check_views(plan);
            assert_int_equal(tarry_plan_pieces(plan), pieces);
            assert_int_equal(tarry_plan_chunks(plan), cases[i].chunks * pieces);
            assert_int_equal(plan->min_replication, cases[i].replication);
            assert_int_equal(plan->max_replication, cases[i].replication);
            uint32_t most = cases[i].design == TARRY_DESIGN_RANDOM ? 1 : load_spread(whole);
            assert_true(load_spread(plan) <= most);
            assert_true(tarry_plan_q(plan, 1) >= tarry_plan_q_bound(plan, 1));
        }
    }
}

/* Relabelling leaves what two chunks share, and changes no holder of the first pieces. */
TEST(each_piece_follows_the_design)
{
    const uint32_t pieces = 3;
    uint64_t seed = test_seed("relabelled pieces", 2);
    for (size_t i = 0; i < CASES; i++) {
        if (cases[i].design == TARRY_DESIGN_RANDOM)
            continue;
        OWNED(tarry_plan) whole = make(i, 1, TARRY_ORDER_AS_IS, seed);
        OWNED(tarry_plan) plan = make(i, pieces, TARRY_ORDER_AS_IS, seed);
        OWNED(uint8_t) held = holder_matrix(plan), held_whole = holder_matrix(whole);
        for (uint32_t chunk = 0; chunk < cases[i].chunks; chunk++) {
            for (uint32_t h = 0; h < cases[i].replication; h++)
                assert_int_equal(tarry_plan_holder(plan, chunk * pieces, h),
                                 tarry_plan_holder(whole, chunk, h));
            for (uint32_t other = 0; other < cases[i].chunks; other++)
                for (uint32_t piece = 0; piece < pieces; piece++)
                    assert_int_equal(
                        workers_shared(plan, held, chunk * pieces + piece, other * pieces + piece),
                        workers_shared(whole, held_whole, chunk, other));
        }
    }
}

/* As the workers suffice for that, the odds that any two of these sets are the same are small; that
 * all of a chunk are is out of the question. */
TEST(the_pieces_of_a_chunk_lie_apart)
{
    const uint32_t pieces = 8;
    for (size_t i = 0; i < CASES; i++) {
        OWNED(tarry_plan) plan = make(i, pieces, TARRY_ORDER_AS_IS, 3);
        for (uint32_t chunk = 0; chunk < cases[i].chunks; chunk++) {
            uint32_t different = 0, replication = cases[i].replication;
            for (uint32_t piece = 1; piece < pieces; piece++) {
                uint32_t shared = 0;
                for (uint32_t a = 0; a < replication; a++)
                    for (uint32_t b = 0; b < replication; b++)
                        shared += tarry_plan_holder(plan, chunk * pieces, a) ==
                                  tarry_plan_holder(plan, chunk * pieces + piece, b);
                different += shared < replication;
            }
            assert_true(different >= pieces / 2);
        }
    }
}

/* Every pair of a worker and a second piece is equally likely. */
TEST(relabelling_prefers_no_worker)
{
    enum { WORKERS = 6, TRIALS = 600 };
    uint64_t seed = test_seed("relabelling", 5);
    uint32_t hits[WORKERS][WORKERS] = {{0}};
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        tarry_plan_settings settings = plan_settings(WORKERS, WORKERS, 2, TARRY_DESIGN_CYCLIC,
                                                     TARRY_ORDER_AS_IS, seed + trial);
        settings.pieces = 2;
        OWNED(tarry_plan) plan = plan_make(&settings);
        for (uint32_t chunk = 0; chunk < WORKERS; chunk++)
            for (uint32_t index = 0; index < 2; index++)
                hits[tarry_plan_holder(plan, 2 * chunk + 1, index)][chunk]++;
    }
    for (int worker = 0; worker < WORKERS; worker++)
        for (int chunk = 0; chunk < WORKERS; chunk++)
            assert_in_range(hits[worker][chunk], TRIALS / 3 - 65, TRIALS / 3 + 65);
}

TEST(pieces_of_a_random_design_are_its_chunks)
{
    tarry_plan_settings settings =
        plan_settings(10, 30, 3, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL, 6);
    OWNED(tarry_plan) chunks = plan_make(&settings);
    settings.chunks = 6;
    settings.pieces = 5;
    OWNED(tarry_plan) pieces = plan_make(&settings);
    assert_memory_equal(chunks->digest, pieces->digest, TARRY_DIGEST_SIZE);
}

TEST(as_is_lists_the_first_pieces_first)
{
    tarry_plan_settings settings =
        plan_settings(5, 5, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 1);
    settings.pieces = 4;
    OWNED(tarry_plan) plan = plan_make(&settings);
    for (uint32_t worker = 0; worker < 5; worker++) {
        assert_int_equal(tarry_plan_load(plan, worker), 8);
        for (uint32_t position = 0; position < 8; position++)
            assert_int_equal(tarry_plan_chunk(plan, worker, position) % 4, position / 2);
        for (uint32_t position = 0; position < 2; position++)
            assert_int_equal(tarry_plan_chunk(plan, worker, position), (worker + position) % 5 * 4);
    }
}

TEST(pieces_lie_where_a_file_has_their_chunk)
{
    const char text[] = "2 0\n-\n1 2\n";
    assert_int_equal(test_file_make(NULL), 0);
    write_text(test_file, text);
    tarry_plan_settings settings = plan_settings(3, 3, 0, TARRY_DESIGN_FILE, TARRY_ORDER_AS_IS, 1);
    settings.file = test_file;
    settings.pieces = 3;
    OWNED(tarry_plan) plan = plan_make(&settings), none = NULL;
    plan_check_views(plan);
    const uint32_t expected[] = {6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    const uint32_t offsets[] = {0, 6, 6, 12};
    assert_int_equal(tarry_plan_chunks(plan), 9);
    for (int worker = 0; worker <= 3; worker++)
        assert_int_equal(plan->worker_offset[worker], offsets[worker]);
    for (int slot = 0; slot < 12; slot++)
        assert_int_equal(plan->slot_chunk[slot], expected[slot]);
    tarry_diagnostic diagnostic;
    settings.pieces = PLAN_MAX_EDGES / 3;
    assert_int_equal(tarry_plan_create(&settings, NULL, &none, &diagnostic), TARRY_ERROR_FORMAT);
    assert_says(diagnostic.text, ":3: the file lists more than 3 copies");
    assert_int_equal(test_file_remove(NULL), 0);
}

/* Parts are conditioned over the pieces' sets of holders. */
TEST(pieces_go_with_parts)
{
    for (uint32_t parts = 1; parts <= 4; parts++) {
        tarry_plan_settings settings =
            plan_settings(12, 12, 4, TARRY_DESIGN_CYCLIC, TARRY_ORDER_OPTIMAL, 1);
        settings.pieces = 3;
        settings.parts = parts;
        OWNED(tarry_plan) plan = plan_make(&settings);
        const uint32_t subsets[] = {4, 6, 4, 1};
        tarry_conditioning conditioning = tarry_plan_conditioning(plan);
        assert_int_equal(conditioning.subsets, 36 * subsets[parts - 1]);
        assert_true(conditioning.complete && conditioning.worst < 1e3);
    }
}

TEST(each_allocation_may_fail)
{
    for (size_t i = 0; i < CASES; i++) {
        tarry_plan_settings settings =
            plan_settings(cases[i].workers, cases[i].chunks, cases[i].replication, cases[i].design,
                          TARRY_ORDER_AS_IS, 1);
        settings.pieces = 2;
        assert_true(fail_each_allocation(plan_attempt, &settings) > 8);
    }
}

TEST(large_plans_are_made)
{
    tarry_plan_settings settings =
        plan_settings(2000, 2000, 3, TARRY_DESIGN_CYCLIC, TARRY_ORDER_OPTIMAL, 1);
    settings.pieces = 16;
    OWNED(tarry_plan) plan = plan_make(&settings);
    assert_int_equal(plan->max_load, 48);
    assert_int_equal(load_spread(plan), 0);
    assert_int_equal(tarry_plan_q(plan, 1), tarry_plan_q_bound(plan, 1));
}
