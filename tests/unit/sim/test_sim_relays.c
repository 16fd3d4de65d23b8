/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds whose sums come through relays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "failing_allocator.h"
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

static void what_relays_cannot_do_is_refused(void **state)
{
    (void)state;
    for (int fault = 0; fault < 4; fault++) {
        world all;
        begin(&all, NULL, 1);
        tarry_sim_settings wrong = all.settings;
        wrong.relays = fault == 0 ? 1 : 3;
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_exact_and_its_cards_are_counted),
        cmocka_unit_test(deaths_cost_an_attempt),
        cmocka_unit_test(what_relays_cannot_do_is_refused),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
