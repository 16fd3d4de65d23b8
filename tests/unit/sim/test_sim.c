/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "edge_plan.h"
#include "failing_allocator.h"
#include "sim/world.h"
#include "test.h"
#include "world.h"

#define MICROSECOND UINT64_C(1000)

/*
 * Four workers on a ring: worker j computes chunk j, then j + 1, all at 1 s a chunk, so that every
 * chunk is there after the first. ROUND weighs 1,000 bytes, REPORT 24, SIGNAL 26 (two chunks with
 * two holders each, one stripe), PART 24 + 4,000.
 */
static void ring(world *all)
{
    world_init(all);
    all->plan_settings.workers = all->plan_settings.chunks = 4;
    all->plan_settings.replication = 2;
    all->plan_settings.design = TARRY_DESIGN_CYCLIC;
    all->plan_settings.order = TARRY_ORDER_AS_IS;
    all->settings.dimension = 1000;
    all->settings.parameter_bytes = 976;
}

WORLD(equal_workers_without_limits_take_one_chunk)
{
    ring(all);
    world_begin(all);
    for (uint64_t round = 0; round < 3; round++) {
        tarry_round_result result = world_round(all);
        assert_int_equal(result.round, round);
        assert_ok(result.error);
        assert_true(result.exact);
        assert_int_equal(result.start_ns, round * SECOND);
        assert_int_equal(result.signal_ns, (round + 1) * SECOND);
        assert_int_equal(result.end_ns, (round + 1) * SECOND);
        assert_int_equal(result.copies_computed, 4);
        assert_int_equal(result.upload_bytes, 4 * 4000);
        assert_int_equal(result.control_bytes, 4 * (24 + 24 + 26 + 24));
    }
    /* Per round and worker: ROUND, COMPUTED, REPORT, SIGNAL, PART, ENCODED, COMBINED; without the
     * last ENCODED of the last round, which comes after its end. */
    assert_true(all->sim->events > 3 * 4 * 6);
    assert_true(all->sim->events <= 3 * 4 * 7);
}

WORLD(links_add_what_they_take)
{
    ring(all);
    all->settings.link =
        (tarry_sim_link){.latency_ns = 1000 * MICROSECOND, .bytes_per_second = 1e6};
    world_begin(all);
    for (int round = 0; round < 3; round++) {
        tarry_round_result result = world_round(all);
        uint64_t to_signal = SECOND + (2000 + 1024) * MICROSECOND;
        assert_int_equal(result.signal_ns - result.start_ns, to_signal);
        assert_int_equal(result.end_ns - result.signal_ns, (1026 + 5024) * MICROSECOND);
    }
}

/* Four ROUNDs one after the other; then reports that don't meet; then, behind the last signal's
 * turn, four PARTs one after the other. */
WORLD(the_card_takes_one_at_a_time)
{
    ring(all);
    all->settings.server_bytes_per_second = 1e6;
    world_begin(all);
    tarry_round_result result = world_round(all);
    assert_int_equal(result.signal_ns, SECOND + (4 * 1000 + 24) * MICROSECOND);
    assert_int_equal(result.end_ns - result.signal_ns, (26 + 4 * 4024) * MICROSECOND);
}

WORLD(stripes_follow_each_other)
{
    ring(all);
    all->settings.link = (tarry_sim_link){.latency_ns = 0, .bytes_per_second = 1e6};
    all->settings.server.stripe_length = 300;
    world_begin(all);
    tarry_round_result result = world_round(all);
    assert_int_equal(result.end_ns - result.signal_ns, (26 + 4 * 24 + 4000) * MICROSECOND);
    assert_int_equal(result.upload_bytes, 4 * 4000);
}

WORLD(single_gradients_travel_with_their_reports)
{
    ring(all);
    all->settings.link =
        (tarry_sim_link){.latency_ns = 1000 * MICROSECOND, .bytes_per_second = 1e6};
    all->settings.upload = TARRY_SIM_UPLOAD_EACH;
    world_begin(all);
    tarry_round_result result = world_round(all);
    assert_true(result.exact);
    assert_int_equal(result.end_ns, SECOND + (2000 + 5024) * MICROSECOND);
    assert_int_equal(result.signal_ns, result.end_ns);
    assert_int_equal(result.upload_bytes, 4 * 4000);
    assert_int_equal(result.control_messages, 12);
    assert_int_equal(result.control_bytes, 4 * (24 + 24 + 26));
    /* The signal of this round is on its way before the parameters of the next. */
    result = world_round(all);
    assert_int_equal(result.end_ns - result.start_ns, SECOND + (26 + 2000 + 5024) * MICROSECOND);
}

/* Both chunks at 2 s; then each worker's vector, of a part's length, goes with its last report. */
TEST(workers_upload_at_once_when_they_have_finished_all)
{
    for (uint32_t parts = 1; parts <= 2; parts++) {
        OWNED(world) all;
        ring(&all);
        all.settings.link =
            (tarry_sim_link){.latency_ns = 1000 * MICROSECOND, .bytes_per_second = 1e6};
        all.settings.upload = TARRY_SIM_UPLOAD_WHOLE;
        all.settings.server.credit = TARRY_CREDIT_WHOLE;
        all.settings.server.stop = TARRY_STOP_WORKERS;
        all.settings.server.workers_needed = 5 - parts;
        all.plan_settings.parts = parts;
        if (parts == 2)
            all.plan_settings.replication = 3;
        world_begin(&all);
        tarry_round_result result = world_round(&all);
        assert_true(result.exact);
        uint64_t upload = 4000 / parts, chunks = parts + 1;
        assert_int_equal(result.end_ns, chunks * SECOND + (2000 + 1024 + upload) * MICROSECOND);
        assert_int_equal(result.signal_ns, result.end_ns);
        assert_int_equal(result.upload_bytes, 4 * upload); /* also what came in that moment */
    }
}

WORLD(a_deadline_is_kept_to_the_nanosecond)
{
    ring(all);
    all->spec = "slow:1,3";
    all->plan_settings.replication = 1;
    all->settings.server.stop = TARRY_STOP_DEADLINE;
    all->settings.server.deadline_ns = 1700000001;
    world_begin(all);
    for (int round = 0; round < 3; round++) {
        tarry_round_result result = world_round(all);
        assert_int_equal(result.end_ns - result.start_ns, 1700000001);
        assert_int_equal(result.copies_coded, 3);
        assert_true(result.expected_error == 0.25);
    }
}

TEST(costs_scale_the_time_of_chunks)
{
    const double cost[] = {0.5, 0, 2.25, 1};
    for (int adds = 0; adds < 2; adds++) {
        OWNED(world) all;
        ring(&all);
        all.plan_settings.replication = 1;
        all.settings.chunk_cost = cost;
        all.settings.chunk_ns = adds ? 77 * SECOND : 3 * SECOND; /* no matter where seconds add */
        all.spec = adds ? "shifted-exp:3,0" : "none";
        world_begin(&all);
        tarry_round_result result = world_round(&all);
        assert_int_equal(result.end_ns, 3 * SECOND / 4 * 9);
    }
}

/* A piece of a slow worker: (10 / pieces + 1) s, twice as long; the overhead has no cost. */
TEST(pieces_have_an_overhead_each)
{
    const double cost[4] = {3, 3, 3, 3};
    for (uint32_t pieces = 1; pieces <= 4; pieces *= 4) {
        for (int costly = 0; costly < 2; costly++) {
            OWNED(world) all;
            world_init(&all);
            all.plan_settings.workers = 1;
            all.plan_settings.chunks = 1;
            all.plan_settings.pieces = pieces;
            all.plan_settings.replication = 1;
            all.settings.chunk_ns = 10 * SECOND;
            all.settings.overhead_ns = SECOND;
            all.settings.chunk_cost = costly ? cost : NULL;
            all.spec = "slow:1,2";
            world_begin(&all);
            tarry_round_result result = world_round(&all);
            uint64_t work = costly ? 30 : 10;
            assert_int_equal(result.end_ns - result.start_ns, 2 * (work + pieces) * SECOND);
        }
    }
}

WORLD(costs_may_change_between_rounds)
{
    const double first[] = {0.5, 0, 2.25, 1}, second[] = {3, 1, 1, 1};
    const double wrong[] = {1, 1, NAN, 1}, negative[] = {-1, 1, 1, 1};
    tarry_diagnostic why = {{0}};
    ring(all);
    all->plan_settings.replication = 1;
    all->settings.chunk_cost = first;
    world_begin(all);
    tarry_round_result result = world_round(all);
    assert_int_equal(result.end_ns - result.start_ns, SECOND / 4 * 9);
    assert_ok(tarry_sim_costs(all->sim, second, &why));
    for (int round = 0; round < 2; round++) {
        result = world_round(all);
        assert_int_equal(result.end_ns - result.start_ns, 3 * SECOND);
    }
    assert_int_equal(tarry_sim_costs(all->sim, wrong, &why), TARRY_ERROR_ARGUMENT);
    assert_string_equal(why.text, "simulator: the cost of chunk 2 must be finite and at least 0");
    assert_int_equal(tarry_sim_costs(all->sim, negative, NULL), TARRY_ERROR_ARGUMENT);
    result = world_round(all);
    assert_int_equal(result.end_ns - result.start_ns, 3 * SECOND);
    assert_ok(tarry_sim_costs(all->sim, NULL, NULL));
    result = world_round(all);
    assert_int_equal(result.end_ns - result.start_ns, SECOND);
}

/* Without replication every worker has its share to do, into however many pieces it is cut. */
TEST(pieces_take_their_share_of_a_chunk)
{
    const uint32_t pieces[] = {1, 2, 5, 16};
    const char *specs[] = {NULL, "slow:1,3", "shifted-exp:0.5,1+jitter:0.2"};
    for (size_t spec = 0; spec < 3; spec++) {
        double whole = 0;
        for (size_t i = 0; i < 4; i++) {
            OWNED(world) all;
            ring(&all);
            all.plan_settings.replication = 1;
            all.plan_settings.pieces = pieces[i];
            all.spec = specs[spec];
            all.straggler_seed = 3;
            world_begin(&all);
            tarry_round_result result = world_round(&all);
            assert_int_equal(result.copies_computed, 4 * pieces[i]);
            double seconds = world_seconds(&result);
            if (i == 0)
                whole = seconds;
            assert_true(fabs(seconds - whole) < 1e-7);
        }
        assert_true(spec != 0 || whole == 1);
        assert_true(spec != 1 || whole == 3);
    }
}

/* The mean of the largest of m exponential times is 1 + 1/2 + ... + 1/m. */
WORLD(uncoded_takes_the_harmonic_number)
{
    const uint32_t workers = 20, rounds = 20000;
    double harmonic = 0, mean = 0;
    world_init(all);
    all->spec = "exp:1";
    all->plan_settings.workers = all->plan_settings.chunks = workers;
    all->plan_settings.replication = 1;
    world_begin(all);
    for (uint32_t worker = 1; worker <= workers; worker++)
        harmonic += 1 / (double)worker;
    for (uint32_t round = 0; round < rounds; round++) {
        tarry_round_result result = world_round(all);
        mean += world_seconds(&result) / rounds;
    }
    printf("uncoded, %u workers, exp:1: mean %.4f s, harmonic number %.4f\n", workers, mean,
           harmonic);
    assert_true(fabs(mean / harmonic - 1) < 0.02);
}

/* Settings that are refused; then the ring is as it was. */
static void refuse(world *all)
{
    OWNED(tarry_plan) plan = plan_make(&all->plan_settings);
    tarry_sim *sim = NULL;
    tarry_diagnostic why = {{0}};
    assert_int_equal(tarry_sim_create(plan, &all->settings, NULL, &sim, &why),
                     TARRY_ERROR_ARGUMENT);
    assert_null(sim);
    assert_true(why.text[0] != '\0');
    ring(all);
}

TEST(settings_are_checked)
{
    const double negative[] = {1, 1, -1, 1}, endless[] = {1, INFINITY, 1, 1};
    world all;
    ring(&all);
    all.settings.dimension = 0;
    refuse(&all);
    all.settings.link.bytes_per_second = 0;
    refuse(&all);
    all.settings.server_bytes_per_second = NAN;
    refuse(&all);
    all.settings.upload = TARRY_SIM_UPLOAD_EACH;
    all.plan_settings.parts = 2;
    refuse(&all);
    all.settings.upload = TARRY_SIM_UPLOAD_EACH;
    all.settings.server.keep = TARRY_KEEP_CREDITED;
    refuse(&all);
    all.settings.upload = TARRY_SIM_UPLOAD_WHOLE; /* with credit by chunk of two copies each */
    refuse(&all);
    all.settings.upload = TARRY_SIM_UPLOAD_WHOLE;
    all.plan_settings.replication = 1;
    all.settings.server.stop = TARRY_STOP_ERROR;
    refuse(&all);
    all.settings.upload = (tarry_sim_upload)7;
    refuse(&all);
    all.settings.chunk_cost = negative;
    refuse(&all);
    all.settings.chunk_cost = endless;
    refuse(&all);
    all.settings.server.stripe_length = 0;
    refuse(&all);
    all.settings.server.conditioning_limit = 0.5; /* the server machine's own */
    refuse(&all);
    tarry_sim_free(NULL);
}

/* With everything that takes memory: signals, workers that come back. */
WORLD(each_allocation_may_fail)
{
    ring(all);
    all->plan_settings.workers = all->plan_settings.chunks = 3;
    all->plan_settings.parts = 2;
    all->spec = "exp:1+fail:0.5+rejoin:2";
    all->settings.dimension = 5;
    all->settings.server.silence_ns = SECOND;
    world_begin(all);
    fail_each_allocation(world_attempt, all);
}
