/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds whose sums come through relays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "failing_allocator.h"
#include "protocol/wire/wire_trunk.h"
#include "sim/world.h"
#include "world.h"

enum { WORKERS = 12, LATENCY_NS = 1000000 };

/* Two tiers: 4 relays above the workers, 2 above them. d = 1,200 numbers take 4.8 ms. */
static void begin(world *all, const char *spec, uint32_t parts)
{
    world_init(all);
    all->spec = spec;
    all->plan_settings.workers = all->plan_settings.chunks = WORKERS;
    all->plan_settings.replication = 3;
    all->plan_settings.parts = parts;
    all->plan_settings.design = TARRY_DESIGN_CYCLIC;
    all->settings.dimension = 120000;
    all->settings.parameter_bytes = 480000;
    all->settings.relays = 3;
    all->settings.link = (tarry_sim_link){.latency_ns = LATENCY_NS, .bytes_per_second = 1e8};
    all->settings.server_bytes_per_second = 1e8;
    all->settings.server.silence_ns = SECOND;
    all->settings.server.pick = TARRY_PICK_SHARE;
    all->settings.vectors = parts == 1;
    world_begin(all);
}

static void check_estimate(const world *all)
{
    const float *estimate = tarry_sim_estimate(all->sim);
    const double *truth = tarry_sim_truth(all->sim);
    for (size_t i = 0; estimate != NULL && i < 1000; i++)
        assert_true(fabs(estimate[i] - truth[i]) < 1e-4);
}

/* A latency per tier and one more each way; one gradient per child passes a relay's card. */
static void a_round_is_exact_and_its_cards_are_counted(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 2; parts++) {
        world all;
        begin(&all, NULL, parts);
        tarry_round_result result = world_round(&all);
        assert_true(result.exact);
        assert_int_equal(result.workers_heard, WORKERS);
        check_estimate(&all);
        const tarry_sim_traffic traffic = tarry_sim_last_traffic(all.sim);
        const uint64_t d = 480000, few = 20000; /* the bytes of messages without vectors */
        assert_true(traffic.root_in >= 2 * d && traffic.root_in < 2 * d + few);
        assert_true(traffic.root_out >= 2 * d && traffic.root_out < 2 * d + few);
        /* With parts, relays above workers take parts of d / l, and relays above these sums. */
        assert_true(traffic.inner_in >= (parts == 1 ? 4 : 3) * d && traffic.inner_in < 4 * d + few);
        assert_true(traffic.leaf_out == d / parts && traffic.leaf_in >= d);
        assert_int_equal(traffic.sum_ns, result.end_ns - result.signal_ns);
        assert_true(traffic.sum_ns > 2 * 3 * LATENCY_NS);
        world_end(&all);
    }
}

/* One that dies, before its part or at it, is done without: a new attempt, and another sum. */
static void deaths_cost_an_attempt(void **state)
{
    (void)state;
    world all;
    begin(&all, "fail:0.3", 1);
    uint32_t lost = 0, attempts = 0;
    for (int round = 0; round < 6; round++) {
        tarry_round_result result = world_round(&all);
        if (result.error != TARRY_OK)
            break;
        assert_true(result.exact);
        check_estimate(&all);
        lost = WORKERS - result.workers_heard;
        attempts += result.attempts;
    }
    assert_true(lost > 0 && attempts > 0);
    world_end(&all);
}

enum { MANY = 48, TIERS = 3, NOTICE_NS = 5000000 };

/* 16 relays above workers, 6 above these and 2 of the top; one of the lowest dies in each round. */
static void begin_deaths(world *all, uint64_t seed, uint32_t parts, tarry_keep keep)
{
    begin(all, NULL, parts);
    world_end(all);
    all->spec = "exp:0.1";
    all->plan_settings.workers = all->plan_settings.chunks = MANY;
    all->straggler_seed = seed;
    all->settings.seed = seed;
    all->settings.dimension = 2000;
    all->settings.parameter_bytes = 80000;
    all->settings.link.bytes_per_second = all->settings.server_bytes_per_second = 1e6;
    all->settings.server.silence_ns = 100 * SECOND;
    all->settings.relay_deaths = 1;
    all->settings.relay_notice_ns = NOTICE_NS;
    all->settings.server.keep = keep;
    world_begin(all);
}

/* In any phase of a round: all are back after a latency to notice and a trip each way, and nobody
 * is missing in the sum. */
static void a_dead_relays_workers_come_back(void **state)
{
    (void)state;
    uint64_t died = 0, returned = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        world all;
        begin_deaths(&all, seed, 1 + seed % 2, TARRY_KEEP_ALL);
        for (int round = 0; round < 10; round++) {
            tarry_round_result result = world_round(&all);
            assert_int_equal(result.error, TARRY_OK);
            assert_true(result.exact);
            assert_int_equal(result.workers_lost, 0);
            check_estimate(&all);
            const tarry_sim_traffic traffic = tarry_sim_last_traffic(all.sim);
            died += traffic.relays_died;
            returned += traffic.workers_returned;
            if (traffic.workers_returned > 0)
                assert_int_equal(traffic.repair_ns,
                                 NOTICE_NS + LATENCY_NS + 2 * (TIERS + 1) * LATENCY_NS);
        }
        world_end(&all);
    }
    /* The last death of a world may come after its last round. */
    assert_true(died >= 12 * 9 && returned >= 2 * died);
}

/* Their sums are gone with the connection: they begin anew. */
static void without_their_gradients_they_begin_anew(void **state)
{
    (void)state;
    uint64_t returned = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        world all;
        begin_deaths(&all, seed, 1, TARRY_KEEP_CREDITED);
        for (int round = 0; round < 10; round++) {
            tarry_round_result result = world_round(&all);
            assert_true(result.exact);
            check_estimate(&all);
            returned += tarry_sim_last_traffic(all.sim).workers_returned;
        }
        world_end(&all);
    }
    assert_true(returned > 50);
}

/* Workers that fall silent, relays that die and messages that wait, at once. */
static void all_of_it_together_is_exact(void **state)
{
    (void)state;
    uint32_t rounds = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        world all;
        begin_deaths(&all, seed, 1, TARRY_KEEP_ALL);
        world_end(&all);
        all.spec = "exp:0.1+fail:0.01+rejoin:0.3";
        all.settings.link.jitter_ns = LATENCY_NS;
        all.settings.link.jitter_spread = 2;
        all.settings.relay_deaths = 2;
        all.settings.relay_batch_ns = LATENCY_NS / 2;
        world_begin(&all);
        for (int round = 0; round < 5; round++) {
            tarry_round_result result = world_round(&all);
            if (result.error != TARRY_OK)
                break;
            assert_true(result.exact);
            check_estimate(&all);
            rounds++;
        }
        world_end(&all);
    }
    assert_true(rounds > 25);
}

/* Workers of the same pace report at the same time, and those below a relay of the top in one
 * message; with pauses between a relay's messages, those of different pace do, too. */
static void begin_quietly(world *all, const char *spec, uint64_t batch_ns)
{
    begin(all, NULL, 1);
    world_end(all);
    all->spec = spec;
    all->settings.vectors = false;
    all->settings.server.silence_ns = 100 * SECOND; /* no probes */
    all->settings.relay_batch_ns = batch_ns;
    world_begin(all);
}

static void reports_come_together(void **state)
{
    (void)state;
    const uint64_t report = WIRE_BATCH_REPORT_BYTES + WIRE_BATCH_LANE_BYTES;
    uint64_t alone = 0;
    for (int uneven = 0; uneven < 2; uneven++) {
        world all;
        begin_quietly(&all, uneven ? "jitter:0.1" : NULL, 0);
        tarry_round_result result = world_round(&all);
        tarry_sim_traffic traffic = tarry_sim_last_traffic(all.sim);
        if (!uneven) {
            /* Of each relay of the top, in one message or two. */
            assert_true(traffic.root_messages >= 2 && traffic.root_messages <= 4);
            assert_true(traffic.root_control_bytes >=
                        result.copies_computed * report + 2 * WIRE_BATCH_HEAD_BYTES);
        }
        alone = traffic.root_messages;
        world_end(&all);
    }
    assert_true(alone >= WORKERS);
    world all;
    begin_quietly(&all, "jitter:0.1", SECOND / 2);
    world_round(&all);
    assert_true(tarry_sim_last_traffic(all.sim).root_messages <= 8);
    world_end(&all);
}

static void what_relays_cannot_do_is_refused(void **state)
{
    (void)state;
    for (int fault = 0; fault < 6; fault++) {
        world all;
        begin(&all, NULL, 1);
        tarry_sim_settings wrong = all.settings;
        wrong.relays = fault == 0 ? 1 : fault < 4 ? 3 : 0;
        wrong.relay_deaths = fault == 4;
        wrong.relay_batch_ns = fault == 5;
        if (fault == 1)
            wrong.way = TARRY_SIM_DIRECT;
        if (fault == 2)
            wrong.upload = TARRY_SIM_UPLOAD_EACH;
        if (fault == 3)
            wrong.server.fill = TARRY_FILL_STALE;
        tarry_sim *sim;
        tarry_diagnostic why;
        assert_int_equal(tarry_sim_create(all.plan, &wrong, NULL, &sim, &why),
                         TARRY_ERROR_ARGUMENT);
        world_end(&all);
    }
}

static int make(void *user, const tarry_allocator *allocator)
{
    const world *all = user;
    tarry_sim *sim;
    int error = tarry_sim_create(all->plan, &all->settings, allocator, &sim, NULL);
    if (error == TARRY_OK)
        tarry_sim_free(sim);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    world all;
    begin(&all, NULL, 1);
    assert_true(fail_each_allocation(make, &all) > 20);
    world_end(&all);
    begin_deaths(&all, 1, 1, TARRY_KEEP_ALL);
    assert_true(fail_each_allocation(make, &all) > 20);
    world_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_exact_and_its_cards_are_counted),
        cmocka_unit_test(deaths_cost_an_attempt),
        cmocka_unit_test(a_dead_relays_workers_come_back),
        cmocka_unit_test(without_their_gradients_they_begin_anew),
        cmocka_unit_test(all_of_it_together_is_exact),
        cmocka_unit_test(reports_come_together),
        cmocka_unit_test(what_relays_cannot_do_is_refused),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
