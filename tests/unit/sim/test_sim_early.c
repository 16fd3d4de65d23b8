/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that send before all are done, over a server's card that all parts have to pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "protocol/server/server_state.h"
#include "seed.h"
#include "sim/world.h"
#include "world.h"

enum { WORKERS = 8, ROUNDS = 4, DIMENSION = 20000 };

/* |estimate - truth| / |truth| */
static double error_of(const world *all)
{
    const float *found = tarry_sim_estimate(all->sim);
    const double *truth = tarry_sim_truth(all->sim);
    double error = 0, square = 0;
    for (size_t i = 0; i < all->settings.dimension; i++) {
        error += (found[i] - truth[i]) * (found[i] - truth[i]);
        square += truth[i] * truth[i];
    }
    return sqrt(error / square);
}

/* A part takes a 16th of a worker's share to pass the card: the half of the share for all. */
static tarry_round_result last_round(const char *spec, bool early, int rounds, uint32_t *left)
{
    world all;
    world_init(&all);
    all.plan_settings.workers = all.plan_settings.chunks = WORKERS;
    all.plan_settings.pieces = 8;
    all.plan_settings.replication = 3;
    all.plan_settings.design = TARRY_DESIGN_RANDOM;
    all.spec = spec;
    all.settings.dimension = DIMENSION;
    all.settings.vectors = true;
    all.settings.seed = all.straggler_seed = test_seed("sim/early", 5);
    all.settings.chunk_ns = SECOND;
    all.settings.parameter_bytes = DIMENSION * sizeof(float);
    all.settings.link.bytes_per_second = 16.0 * DIMENSION * sizeof(float);
    all.settings.server_bytes_per_second = all.settings.link.bytes_per_second;
    all.settings.server.stripe_length = DIMENSION;
    all.settings.server.pick = TARRY_PICK_SHARE;
    all.settings.server.keep = TARRY_KEEP_CREDITED;
    all.settings.server.ahead = 64;
    all.settings.server.early = early;
    world_begin(&all);
    tarry_round_result result = {0};
    *left = 0;
    for (int round = 0; round < rounds; round++) {
        result = world_round(&all);
        assert_int_equal(result.error, TARRY_OK);
        assert_true(result.exact && error_of(&all) < 1e-5);
        *left += result.workers_early;
    }
    world_end(&all);
    return result;
}

static void compare(const char *spec, double most)
{
    uint32_t left, none;
    tarry_round_result early = last_round(spec, true, ROUNDS, &left);
    tarry_round_result together = last_round(spec, false, ROUNDS, &none);
    double ratio = world_seconds(&early) / world_seconds(&together);
    print_message("%s: %u signals before all, %.2f times as long as without\n", spec, left, ratio);
    assert_true(none == 0 && left >= WORKERS);
    assert_true(ratio < most);
}

static void parts_pass_the_card_while_others_compute(void **state)
{
    (void)state;
    compare("none", 0.9);
    compare("jitter:0.1+slow:2,4", 0.97);
}

/* Who hears of the first round one after the other sends one after the other, as in a star where
 * each sends when it is done: share, way there, a part for each. */
static void the_first_round_loses_nothing(void **state)
{
    (void)state;
    uint32_t left;
    tarry_round_result result = last_round("none", true, 1, &left);
    assert_int_equal(left, WORKERS - 1);
    assert_true(world_seconds(&result) < 1.01 * (1 + (WORKERS + 1) / 16.0));
}

/* Whoever is lost in the middle of an early part, or after it, costs no exactness. */
static void losses_cost_no_exactness(void **state)
{
    (void)state;
    uint32_t left;
    last_round("exp:0.1/chunk+fail:0.2+rejoin:2", true, ROUNDS, &left);
    assert_true(left > 0);
}

/* Announcements that come one after the other are found out by looking at all workers again and
 * again: as they show their ways, some dozens of times in all. */
static void ways_are_looked_at_seldom(void **state)
{
    (void)state;
    enum { MANY = 2000, LOOKS = 8 * 8 + 16 }; /* 8 ln MANY, and a few at first */
    world all;
    world_init(&all);
    all.plan_settings.workers = MANY;
    all.plan_settings.chunks = 4 * MANY;
    all.plan_settings.replication = 2;
    all.plan_settings.design = TARRY_DESIGN_CYCLIC;
    all.spec = "none";
    all.settings.dimension = DIMENSION;
    all.settings.chunk_ns = SECOND;
    all.settings.parameter_bytes = DIMENSION * sizeof(float);
    all.settings.link.bytes_per_second = 1000.0 * DIMENSION * sizeof(float);
    all.settings.server_bytes_per_second = all.settings.link.bytes_per_second;
    all.settings.server.stripe_length = DIMENSION;
    all.settings.server.pick = TARRY_PICK_SHARE;
    all.settings.server.keep = TARRY_KEEP_CREDITED;
    all.settings.server.ahead = 64;
    all.settings.server.early = true;
    world_begin(&all);
    tarry_round_result result = world_round(&all);
    assert_int_equal(result.error, TARRY_OK);
    assert_true(result.workers_early > MANY / 2);
    const steering *it = all.sim->server->steering;
    assert_true(it->in_line);
    assert_in_range(it->lines, 4, LOOKS);
    assert_in_range(it->shown, MANY / 2, MANY);
    world_end(&all);
}

/* Where parts take no time there is nothing to gain, and nobody who could help leaves. */
static void nobody_leaves_where_parts_take_no_time(void **state)
{
    (void)state;
    world all;
    world_init(&all);
    all.plan_settings.pieces = 4;
    all.plan_settings.replication = 3;
    all.spec = "exp:1/chunk";
    all.straggler_seed = test_seed("sim/early", 5);
    all.settings.server.pick = TARRY_PICK_SHARE;
    all.settings.server.keep = TARRY_KEEP_CREDITED;
    all.settings.server.early = true;
    world_begin(&all);
    uint32_t left = 0;
    for (int round = 0; round < 10; round++)
        left += world_round(&all).workers_early;
    assert_true(left <= 10); /* the one that shows what a part takes alone */
    world_end(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_pass_the_card_while_others_compute),
        cmocka_unit_test(the_first_round_loses_nothing),
        cmocka_unit_test(ways_are_looked_at_seldom),
        cmocka_unit_test(losses_cost_no_exactness),
        cmocka_unit_test(nobody_leaves_where_parts_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
