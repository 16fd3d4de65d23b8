/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that never answer, die in a round, and come back. */
#include "test.h"
#include "world.h"

/* One worker with `chunks` chunks of 1 s; the server gives the silent up after 2 s. */
static void lone_worker(world *all, uint32_t chunks, const char *spec)
{
    world_init(all);
    all->plan_settings.workers = 1;
    all->plan_settings.chunks = chunks;
    all->plan_settings.replication = 1;
    all->spec = spec;
    all->settings.server.silence_ns = 2 * SECOND;
}

static uint32_t fate(const world *all, uint64_t round, uint32_t load)
{
    uint32_t position = UINT32_MAX;
    assert_true(tarry_straggler_fails(all->straggler, round, 0, load, &position));
    assert_true(position <= load);
    return position;
}

WORLD(dead_workers_are_lost_and_done_without)
{
    world_init(all);
    all->spec = "dead:2";
    all->plan_settings.workers = all->plan_settings.chunks = 8;
    all->plan_settings.replication = 3;
    all->settings.server.silence_ns = SECOND;
    world_begin(all);
    tarry_round_result result = {.workers_lost = 0};
    for (int round = 0; round < 5; round++) {
        result = world_round(all);
        assert_ok(result.error);
        assert_true(result.exact);
        assert_true(result.workers_heard <= 6);
        assert_true(world_seconds(&result) <= 3);
    }
    assert_int_equal(result.workers_lost, 2);
}

/* It falls silent in the middle of its chunk (0.5 s), or after it (1 s), is back 3 s later, and
 * then does it again from the start. */
WORLD(the_dead_come_back_with_nothing)
{
    lone_worker(all, 1, "fail:1+rejoin:3");
    all->settings.link.latency_ns = 1000;
    all->settings.server.silence_ns = 100 * SECOND;
    world_begin(all);
    int after = 0;
    for (uint64_t round = 0; round < 50; round++) {
        tarry_round_result result = world_round(all);
        uint32_t position = fate(all, round, 1);
        after += position == 1;
        assert_ok(result.error);
        assert_true(result.exact);
        /* latencies: ROUND; JOINED, ROUND, REPORT, SIGNAL, PART */
        uint64_t first = position == 1 ? SECOND : SECOND / 2;
        assert_int_equal(result.end_ns - result.start_ns, first + 4 * SECOND + 6 * 1000);
        assert_int_equal(result.attempts, position == 1 ? 2 : 1);
        assert_int_equal(result.copies_computed, position == 1 ? 2 : 1);
    }
    assert_true(after > 0 && after < 50);
}

TEST(the_dead_are_noticed_by_their_silence)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        OWNED(world) all;
        lone_worker(&all, 2, "fail:1");
        all.straggler_seed = seed;
        world_begin(&all);
        tarry_round_result result = world_round(&all);
        uint32_t position = fate(&all, 0, 2);
        assert_int_equal(result.error, TARRY_ERROR_COVERAGE);
        assert_int_equal(result.copies_computed, position);
        assert_int_equal(result.workers_lost, 1);
        /* after a quarter of the limit it is asked, and given up at the limit after that */
        double silent = position == 2 ? 2 : position + 0.5;
        assert_true(world_seconds(&result) > silent + 2);
        assert_true(world_seconds(&result) < silent + 3.5);
        /* Nobody is left for the next round. */
        result = world_round(&all);
        assert_int_equal(result.error, TARRY_ERROR_COVERAGE);
        assert_int_equal(result.end_ns, result.start_ns);
    }
}

/* A gradient that takes 10 s to upload is lost with the worker that dies meanwhile. */
TEST(what_has_not_left_a_dead_worker_is_lost)
{
    for (int i = 0; i < 4; i++) {
        bool card = i % 2 == 1, each = i < 2;
        OWNED(world) all;
        lone_worker(&all, 2, "fail:1");
        all.settings.dimension = 250000;
        all.settings.link.bytes_per_second = 1e5;
        all.settings.upload = each ? TARRY_SIM_UPLOAD_EACH : TARRY_SIM_UPLOAD_WHOLE;
        all.settings.server.silence_ns = 100 * SECOND;
        if (card)
            all.settings.server_bytes_per_second = 1e9;
        world_begin(&all);
        tarry_round_result result = world_round(&all);
        assert_int_equal(result.error, TARRY_ERROR_COVERAGE);
        assert_true(!each || result.copies_computed == 0);
        assert_int_equal(result.upload_bytes, 0);
    }
}

/* The server has their gradients already. */
WORLD(single_gradients_outlive_their_worker)
{
    lone_worker(all, 1, "fail:1");
    all->settings.upload = TARRY_SIM_UPLOAD_EACH;
    for (all->straggler_seed = 1;; all->straggler_seed++) {
        world_begin(all);
        if (fate(all, 0, 1) == 1)
            break;
        world_end(all);
    }
    tarry_round_result result = world_round(all);
    assert_ok(result.error);
    assert_int_equal(result.end_ns, SECOND);
}

WORLD(a_chunk_that_takes_for_ever_silences_its_worker)
{
    lone_worker(all, 1, NULL);
    all->settings.chunk_ns = TARRY_NEVER;
    world_begin(all);
    tarry_round_result result = world_round(all);
    assert_int_equal(result.error, TARRY_ERROR_COVERAGE);
    assert_true(world_seconds(&result) < 3.5);
}

WORLD(slow_workers_answer_probes)
{
    lone_worker(all, 1, NULL);
    all->settings.chunk_ns = 50 * SECOND;
    world_begin(all);
    tarry_round_result result = world_round(all);
    assert_ok(result.error);
    assert_int_equal(result.end_ns, 50 * SECOND);
    assert_true(result.control_messages > 4 + 2 * 50);
}
