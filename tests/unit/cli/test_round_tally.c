/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job/gradients.h"
#include "edge_plan.h"
#include "test.h"

OWNED_BY(round_tally, round_tally_free)

enum { CHUNKS = 4 };

/* Chunks in the order of their ids are in the order of their samples. */
static tarry_plan *make_plan(uint32_t pieces)
{
    tarry_plan_settings settings =
        plan_settings(CHUNKS, CHUNKS, 1, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL, 1);
    settings.pieces = pieces;
    return plan_make(&settings);
}

/* What `fill` is asked for, and gives. */
typedef struct missing {
    uint32_t count, chunks[2 * CHUNKS];
} missing;

static void fill(void *user, uint32_t chunk, objective_tally *tally)
{
    missing *asked = user;
    asked->chunks[asked->count++] = chunk;
    tally->loss += 1000;
    tally->right += 100;
}

static void note(round_tally *tallies, const tarry_plan *plan, uint64_t round, uint32_t chunk,
                 double loss)
{
    const objective_tally tally = {loss, 1};
    round_tally_note(tallies, round, tarry_plan_span(plan, chunk, 0), &tally);
}

static objective_tally sum(round_tally *tallies, uint64_t round, missing *asked)
{
    objective_tally tally = {0};
    *asked = (missing){0};
    round_tally_sum(tallies, round, fill, asked, &tally);
    return tally;
}

TEST(chunks_that_nobody_noted_are_worked_out)
{
    OWNED(tarry_plan) plan = make_plan(1);
    OWNED(round_tally) tallies;
    missing asked;
    assert_ok(round_tally_create(plan, &tallies));
    note(tallies, plan, 7, 2, 20);
    note(tallies, plan, 7, 0, 1);
    objective_tally tally = sum(tallies, 7, &asked);
    assert_true(tally.loss == 2021 && tally.right == 202);
    assert_int_equal(asked.count, 2);
    assert_true(asked.chunks[0] == 1 && asked.chunks[1] == 3);
    sum(tallies, 8, &asked);
    assert_int_equal(asked.count, CHUNKS);
}

TEST(what_a_straggler_notes_of_an_old_round_is_dropped)
{
    OWNED(tarry_plan) plan = make_plan(1);
    OWNED(round_tally) tallies;
    missing asked;
    assert_ok(round_tally_create(plan, &tallies));
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        note(tallies, plan, 1, chunk, 1);
    note(tallies, plan, 0, 2, 50);
    assert_true(sum(tallies, 1, &asked).loss == CHUNKS && asked.count == 0);
    note(tallies, plan, 2, 2, 3);
    assert_true(sum(tallies, 2, &asked).loss == 3003 && asked.count == CHUNKS - 1);
}

TEST(another_plan_has_other_chunks)
{
    OWNED(tarry_plan) plan = make_plan(1), pieces = make_plan(2);
    OWNED(round_tally) tallies;
    missing asked;
    assert_ok(round_tally_create(plan, &tallies));
    assert_ok(round_tally_replan(tallies, pieces));
    assert_int_equal(tarry_plan_chunks(pieces), 2 * CHUNKS);
    for (uint32_t piece = 0; piece < 2 * CHUNKS; piece++)
        note(tallies, pieces, 3, piece, piece);
    assert_true(sum(tallies, 3, &asked).loss == 28 && asked.count == 0);
    /* A piece that is no chunk's beginning is nobody's. */
    assert_ok(round_tally_replan(tallies, plan));
    for (uint32_t piece = 0; piece < 2 * CHUNKS; piece++)
        if (tarry_plan_span(pieces, piece, 0).first > 0)
            note(tallies, pieces, 4, piece, 5);
    assert_true(sum(tallies, 4, &asked).loss == CHUNKS * 1000 && asked.count == CHUNKS);
}
