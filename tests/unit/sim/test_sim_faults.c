/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that never answer, die in a round, and come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

static void dead_workers_are_lost_and_done_without(void **state)
{
    (void)state;
    world all;
    world_init(&all);
    all.spec = "dead:2";
    all.plan_settings.workers = all.plan_settings.chunks = 8;
    all.plan_settings.replication = 3;
    all.settings.server.silence_ns = SECOND;
    world_begin(&all);
    tarry_round_result result = {.workers_lost = 0};
    for (int round = 0; round < 5; round++) {
        result = world_round(&all);
        assert_int_equal(result.error, TARRY_OK);
        assert_true(result.exact);
        assert_true(result.workers_heard <= 6);
        assert_true(world_seconds(&result) <= 3);
    }
    assert_int_equal(result.workers_lost, 2);
    world_end(&all);
}

/* It falls silent in the middle of its chunk (0.5 s), or after it (1 s), is back 3 s later, and
 * then does it again from the start. */
static void the_dead_come_back_with_nothing(void **state)
{
    (void)state;
    world all;
    lone_worker(&all, 1, "fail:1+rejoin:3");
    all.settings.link.latency_ns = 1000;
    all.settings.server.silence_ns = 100 * SECOND;
    world_begin(&all);
    int after = 0;
    for (uint64_t round = 0; round < 50; round++) {
        tarry_round_result result = world_round(&all);
        uint32_t position = fate(&all, round, 1);
        after += position == 1;
        assert_int_equal(result.error, TARRY_OK);
        assert_true(result.exact);
        /* latencies: ROUND; JOINED, ROUND, REPORT, SIGNAL, PART */
        uint64_t first = position == 1 ? SECOND : SECOND / 2;
        assert_int_equal(result.end_ns - result.start_ns, first + 4 * SECOND + 6 * 1000);
        assert_int_equal(result.attempts, position == 1 ? 2 : 1);
        assert_int_equal(result.copies_computed, position == 1 ? 2 : 1);
    }
    assert_true(after > 0 && after < 50);
    world_end(&all);
}

static void the_dead_are_noticed_by_their_silence(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world all;
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
        world_end(&all);
    }
}

/* A gradient that takes 10 s to upload is lost with the worker that dies meanwhile. */
static void what_has_not_left_a_dead_worker_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool card = i % 2 == 1, each = i < 2;
        world all;
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
        world_end(&all);
    }
}

/* The server has their gradients already. */
static void single_gradients_outlive_their_worker(void **state)
{
    (void)state;
    world all;
    lone_worker(&all, 1, "fail:1");
    all.settings.upload = TARRY_SIM_UPLOAD_EACH;
    for (all.straggler_seed = 1;; all.straggler_seed++) {
        world_begin(&all);
        if (fate(&all, 0, 1) == 1)
            break;
        world_end(&all);
    }
    tarry_round_result result = world_round(&all);
    assert_int_equal(result.error, TARRY_OK);
    assert_int_equal(result.end_ns, SECOND);
    world_end(&all);
}

static void a_chunk_that_takes_for_ever_silences_its_worker(void **state)
{
    (void)state;
    world all;
    lone_worker(&all, 1, NULL);
    all.settings.chunk_ns = TARRY_NEVER;
    world_begin(&all);
    tarry_round_result result = world_round(&all);
    assert_int_equal(result.error, TARRY_ERROR_COVERAGE);
    assert_true(world_seconds(&result) < 3.5);
    world_end(&all);
}

static void slow_workers_answer_probes(void **state)
{
    (void)state;
    world all;
    lone_worker(&all, 1, NULL);
    all.settings.chunk_ns = 50 * SECOND;
    world_begin(&all);
    tarry_round_result result = world_round(&all);
    assert_int_equal(result.error, TARRY_OK);
    assert_int_equal(result.end_ns, 50 * SECOND);
    assert_true(result.control_messages > 4 + 2 * 50);
    world_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_workers_are_lost_and_done_without),
        cmocka_unit_test(the_dead_come_back_with_nothing),
        cmocka_unit_test(the_dead_are_noticed_by_their_silence),
        cmocka_unit_test(what_has_not_left_a_dead_worker_is_lost),
        cmocka_unit_test(single_gradients_outlive_their_worker),
        cmocka_unit_test(a_chunk_that_takes_for_ever_silences_its_worker),
        cmocka_unit_test(slow_workers_answer_probes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
