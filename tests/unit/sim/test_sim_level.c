/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of many workers are level: a round takes no longer than the least that whole pieces allow,
 * though nothing but ways through many workers leads from those that have too much to those that
 * have too little.
 */
#include "test.h"
#include "world.h"

enum { WORKERS = 1000, PIECES = 8, ROUNDS = 3 };

/* Of workers of which none is slow each makes its own 8 pieces. With 6 % of them dead or ten times
 * slower the others make 9 at most, as 8.5 are to be made; a slow one had better make none, which
 * does not end in a round what it begins. */
static void expect_pieces(const char *spec, uint32_t pieces)
{
    OWNED(world) all;
    world_init(&all);
    all.plan_settings.workers = all.plan_settings.chunks = WORKERS;
    all.plan_settings.pieces = PIECES;
    all.plan_settings.replication = 4;
    all.plan_settings.design = TARRY_DESIGN_RANDOM;
    all.spec = spec;
    all.settings.seed = all.straggler_seed = 1;
    all.settings.chunk_ns = SECOND;
    all.settings.server.pick = TARRY_PICK_SHARE;
    world_begin(&all);
    for (int round = 0; round < ROUNDS; round++) {
        tarry_round_result result = world_round(&all);
        assert_ok(result.error);
        assert_true(result.exact);
        assert_int_equal(result.end_ns - result.start_ns, pieces * (SECOND / PIECES));
    }
}

TEST(equal_workers_make_as_many_pieces_each)
{
    expect_pieces(NULL, PIECES);
}

TEST(others_share_what_dead_and_slow_ones_do_not_make)
{
    expect_pieces("slow:50,10+dead:10", PIECES + 1);
}
