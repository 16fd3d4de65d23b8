/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "evolve_check.h"
#include "failing_allocator.h"
#include "plan/plan.h"
#include "seed.h"

OWNED_BY(tarry_span, free)

enum { MOST_WORKERS = 12, MOST_CHUNKS = 4096 };

static bool same_digest(const tarry_plan *a, const tarry_plan *b)
{
    return memcmp(a->digest, b->digest, TARRY_DIGEST_SIZE) == 0;
}

/* ---- what holds for every plan ---- */

static int compare(const void *a, const void *b)
{
    const tarry_span *x = a, *y = b;
    if (x->origin != y->origin)
        return x->origin < y->origin ? -1 : 1;
    return (span_begin(*x) > span_begin(*y)) - (span_begin(*x) < span_begin(*y));
}

/* The spans of all chunks, sorted, follow each other from the first original chunk to the last. */
static void assert_all_data_once(const tarry_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++)
        count += tarry_plan_span_count(plan, chunk);
    OWNED(tarry_span) all = checked_calloc(count, sizeof(*all));
    count = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++)
        for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++)
            all[count++] = tarry_plan_span(plan, chunk, i);
    qsort(all, count, sizeof(*all), compare);
    uint32_t origin = 0;
    double reached = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(all[i].origin, origin);
        assert_true(span_begin(all[i]) == reached);
        reached = span_end(all[i]);
        if (reached == 1) {
            origin++;
            reached = 0;
        }
    }
    assert_int_equal(origin, tarry_plan_origins(plan));
    assert_true(reached == 0);
}

/* Weights are the sizes of the spans, and all together all of the data. */
static void assert_weights_are_sizes(const tarry_plan *plan)
{
    uint64_t all = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        uint32_t count;
        tarry_span whole;
        const tarry_span *spans = span_list(plan, chunk, &whole, &count);
        double size = span_size(spans, count) * (double)PLAN_ORIGIN_WEIGHT;
        assert_true((double)plan_weight(plan, chunk) == size);
        all += plan_weight(plan, chunk);
    }
    assert_true(all == plan_total_weight(plan));
}

static void assert_same_decode(const tarry_plan *a, const tarry_plan *b)
{
    assert_int_equal(tarry_plan_workers(a), tarry_plan_workers(b));
    assert_int_equal(tarry_plan_parts(a), tarry_plan_parts(b));
    for (uint32_t part = 0; part < tarry_plan_parts(a); part++)
        for (uint32_t worker = 0; worker < tarry_plan_workers(a); worker++)
            assert_true(tarry_plan_decode_weight(a, part, worker) ==
                        tarry_plan_decode_weight(b, part, worker));
}

/* ---- tests ---- */

TEST(numbers_out_of_range_are_refused)
{
    OWNED(tarry_plan) plan = plan_of(2, 2, 1, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 1);
    const double zero[] = {1, 0}, gone[] = {INFINITY, INFINITY}, none[] = {0, 0};
    const double negative[] = {1, -1}, endless[] = {1, INFINITY};
    const struct {
        tarry_plan_evolution wanted;
        const char *why;
    } cases[] = {
        {{.pace = zero}, "worker 1: a pace of 0"},
        {{.pace = gone}, "every worker is gone"},
        {{.cost = none}, "the costs add up to 0"},
        {{.cost = negative}, "chunk 1: a cost of -1"},
        {{.cost = endless}, "chunk 1: a cost of inf"},
        {{.heaviest = 0.5}, "the heaviest chunk must be at least 1 times the mean, not 0.5"},
        {{.lightest = 2}, "the lightest chunk must be 0 to 1 times the mean, not 2"},
        {{.lightest = NAN}, "the lightest chunk must be 0 to 1 times the mean, not nan"},
        {{.heaviest = 1.5, .lightest = 1},
         "the lightest chunk must be at most half the heaviest: 1, 1.5"},
        {{.most_load = 0.5}, "the most load must be at least 1 times the mean, not 0.5"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tarry_plan *next = NULL;
        tarry_diagnostic diagnostic = {""};
        assert_int_equal(tarry_plan_evolve(plan, &cases[i].wanted, NULL, &next, NULL, &diagnostic),
                         TARRY_ERROR_ARGUMENT);
        assert_null(next);
        assert_string_equal(diagnostic.text, cases[i].why);
    }
}

TEST(nothing_wanted_changes_nothing)
{
    for (int order = TARRY_ORDER_OPTIMAL; order <= TARRY_ORDER_AS_IS; order++) {
        tarry_plan_settings settings =
            plan_settings(8, 20, 3, TARRY_DESIGN_RANDOM, (tarry_order)order, 7);
        settings.parts = 2;
        OWNED(tarry_plan) plan = plan_make(&settings);
        tarry_plan_changes changes;
        OWNED(tarry_plan) next = plan_evolve(plan, &(tarry_plan_evolution){0}, &changes);
        assert_true(same_digest(plan, next));
        assert_true(tarry_plan_is_original(next));
        assert_true(tarry_plan_conditioning(next).worst == tarry_plan_conditioning(plan).worst);
        assert_true(changes.split == 0 && changes.merged == 0 && changes.moved == 0);
        assert_true(changes.balanced == 5); /* 20 chunks, 2 copies, 8 workers */
    }
}

/* A chunk of 5 among seven of 1: the mean is 1.5, and 8 pieces are the first below it times 0.5. */
TEST(heavy_chunks_are_split_and_light_ones_merged)
{
    OWNED(tarry_plan) plan = plan_of(4, 8, 2, TARRY_DESIGN_FRACTIONAL, TARRY_ORDER_AS_IS, 1);
    const double heavy[] = {1, 1, 5, 1, 1, 1, 1, 1};
    tarry_plan_evolution wanted = {.cost = heavy, .heaviest = 1};
    tarry_plan_changes changes;
    OWNED(tarry_plan) split = plan_evolve(plan, &wanted, &changes);
    assert_int_equal(changes.split, 1);
    assert_int_equal(tarry_plan_chunks(split), 11);
    assert_int_equal(tarry_plan_origins(split), 8);
    assert_false(tarry_plan_is_original(split));
    for (uint32_t unit = 0; unit < 4; unit++) {
        assert_int_equal(tarry_plan_span_count(split, 2 + unit), 1);
        tarry_span span = tarry_plan_span(split, 2 + unit, 0);
        assert_true(span.origin == 2 && span.first == unit && span.count == 1 && span.of == 4);
        /* they follow each other at all of its holders, at its place */
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(tarry_plan_holder(split, 2 + unit, i), tarry_plan_holder(plan, 2, i));
            assert_int_equal(plan_position(split, 2 + unit, i), plan_position(plan, 2, i) + unit);
        }
    }
    assert_int_equal(tarry_plan_span(split, 6, 0).origin, 3);

    /* The costs turn: the pieces are free. Merged, they are chunk 2 again, and the plan is. */
    const double light[] = {1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    wanted = (tarry_plan_evolution){.cost = light, .lightest = 0.1};
    OWNED(tarry_plan) merged = plan_evolve(split, &wanted, &changes);
    assert_int_equal(changes.merged, 3);
    assert_true(tarry_plan_is_original(merged));
    assert_true(same_digest(merged, plan));

    /* Chunks of the same holders, of different origins. */
    const double tiny[] = {0.1, 4, 0.1, 4, 4, 0.1, 4, 4};
    wanted = (tarry_plan_evolution){.cost = tiny, .lightest = 0.2};
    OWNED(tarry_plan) other = plan_evolve(plan, &wanted, &changes);
    assert_int_equal(changes.merged, 1);
    assert_int_equal(tarry_plan_span_count(other, 0), 2);
    assert_int_equal(tarry_plan_span(other, 0, 0).origin, 0);
    assert_int_equal(tarry_plan_span(other, 0, 1).origin, 2);
    assert_all_data_once(other);
    assert_weights_are_sizes(other);
}

/* One chunk is always the heaviest, however small it is cut. */
TEST(splits_end_at_the_most_chunks)
{
    for (uint32_t most = 0; most <= 16; most += 8) {
        tarry_plan *plan = plan_of(4, 8, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 0);
        for (uint32_t round = 0; round < 20; round++) {
            double cost[64];
            uint32_t chunks = tarry_plan_chunks(plan);
            assert_true(chunks < 64);
            for (uint32_t chunk = 0; chunk < chunks; chunk++)
                cost[chunk] = chunk == round % chunks ? 5 : 1;
            tarry_plan_evolution wanted = {.cost = cost, .heaviest = 2, .most_chunks = most};
            tarry_plan_changes changes;
            tarry_plan *next = plan_evolve(plan, &wanted, &changes);
            assert_int_equal(changes.split, most == 0 || chunks < most);
            assert_all_data_once(next);
            assert_weights_are_sizes(next);
            tarry_plan_free(plan);
            plan = next;
        }
        assert_in_range(tarry_plan_chunks(plan), most == 0 ? 28 : most, most == 0 ? 64 : 2 * most);
        tarry_plan_free(plan);
    }
}

/* Whatever is asked for again and again, the plan stays whole, and holds what it says. */
TEST(plans_stay_whole_over_many_changes)
{
    random_stream stream = random_stream_make(test_seed("evolve", 71), RANDOM_TEST, 0, 0);
    static double cost[MOST_CHUNKS];
    uint32_t split = 0, merged = 0, moved = 0;
    for (int trial = 0; trial < 60; trial++) {
        uint32_t workers = 4 + random_below(&stream, MOST_WORKERS - 3);
        uint32_t replication = 2 + random_below(&stream, 3);
        tarry_plan_settings settings =
            plan_settings(workers, 4 + random_below(&stream, 30), replication,
                          (tarry_design)random_below(&stream, 3),
                          (tarry_order)random_below(&stream, 3), random_u64(&stream));
        settings.parts = 1 + random_below(&stream, 2);
        tarry_plan *first = plan_make(&settings), *plan = first;
        for (int round = 0; round < 12; round++) {
            double pace[MOST_WORKERS];
            for (uint32_t worker = 0; worker < workers; worker++)
                pace[worker] = worker > 2 && random_below(&stream, 12) == 0
                                   ? INFINITY
                                   : 0.1 + random_exponential(&stream);
            uint32_t chunks = tarry_plan_chunks(plan);
            assert_true(chunks <= MOST_CHUNKS);
            for (uint32_t chunk = 0; chunk < chunks; chunk++)
                cost[chunk] = 0.01 + pow(random_exponential(&stream), 2);
            tarry_plan_evolution wanted = {
                .pace = random_below(&stream, 4) > 0 ? pace : NULL,
                .cost = random_below(&stream, 4) > 0 ? cost : NULL,
                .heaviest = random_below(&stream, 2) ? 0 : 1 + 3 * random_uniform(&stream),
                .lightest = random_below(&stream, 4) ? 0.5 : 0,
                .most_moves = random_below(&stream, 2) ? UINT32_MAX : random_below(&stream, 10),
                .most_load = random_below(&stream, 2) ? 0 : 1 + random_uniform(&stream)};
            tarry_plan_changes changes;
            tarry_plan *next = plan_evolve(plan, &wanted, &changes);
            plan_check_views(next);
            assert_all_data_once(next);
            assert_weights_are_sizes(next);
            assert_same_decode(first, next);
            assert_int_equal(next->min_replication, replication);
            assert_int_equal(next->max_replication, replication);
            assert_true(changes.moved <= wanted.most_moves);
            assert_true(changes.matched_after <= changes.matched_before);
            assert_true(tarry_plan_q(next, 1) >= tarry_plan_q_bound(next, 1));
            split += changes.split;
            merged += changes.merged;
            moved += changes.moved;
            if (plan != first)
                tarry_plan_free(plan);
            plan = next;
        }
        if (plan != first)
            tarry_plan_free(plan);
        tarry_plan_free(first);
    }
    assert_true(split > 500 && merged > 500 && moved > 500);
}

/* Pieces are equal, below the limit and above its half; only what has the same holders merges. */
TEST(cuts_keep_to_their_limits)
{
    random_stream stream = random_stream_make(test_seed("evolve cuts", 72), RANDOM_TEST, 0, 0);
    uint32_t pieces = 0, bins = 0;
    for (int trial = 0; trial < 300; trial++) {
        uint32_t chunks = 4 + random_below(&stream, 40);
        OWNED(tarry_plan)
        plan = plan_of(6, chunks, 2,
                       random_below(&stream, 2) ? TARRY_DESIGN_FRACTIONAL : TARRY_DESIGN_RANDOM,
                       TARRY_ORDER_RANDOM, random_u64(&stream));
        double cost[64], mean = 0;
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            cost[chunk] = pow(random_exponential(&stream), 2);
            mean += cost[chunk] / chunks;
        }
        double most = (1 + 2 * random_uniform(&stream)) * mean;
        tarry_plan_evolution wanted = {.cost = cost, .heaviest = most / mean, .lightest = 0.3};
        tarry_plan_changes changes;
        OWNED(tarry_plan) next = plan_evolve(plan, &wanted, &changes);
        OWNED(double) carried = checked_calloc(tarry_plan_chunks(next), sizeof(*carried));
        assert_ok(tarry_plan_carry_cost(plan, cost, next, NULL, carried));
        for (uint32_t chunk = 0; chunk < tarry_plan_chunks(next); chunk++) {
            uint32_t spans = tarry_plan_span_count(next, chunk);
            double sum = 0;
            for (uint32_t i = 0; i < spans; i++) {
                tarry_span span = tarry_plan_span(next, chunk, i);
                sum += cost[span.origin] * span.count / span.of;
                assert_true(spans == 1 || span.of == 1);
                for (uint32_t h = 0; h < 2; h++)
                    assert_true(holds(next, chunk, tarry_plan_holder(plan, span.origin, h)));
                if (span.of > 1) {
                    assert_true(span.count == 1 && sum <= most && sum > most / 2);
                    pieces++;
                }
            }
            assert_true(near(carried[chunk], sum));
            assert_true(sum <= most && (spans == 1 || sum <= mean * (1 + 1e-12)));
            bins += spans > 1;
        }
    }
    assert_true(pieces > 1000 && bins > 100);
}

/* No chunk is above the mean of equal ones, and no worker beyond the mean load takes any. */
TEST(limits_at_the_mean_are_not_missed_by_rounding)
{
    for (uint32_t workers = 3; workers < 40; workers++) {
        OWNED(tarry_plan)
        plan = plan_of(workers, workers, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, 1);
        double cost[40], pace[40];
        for (uint32_t i = 0; i < workers; i++) {
            cost[i] = 0.1;
            pace[i] = i < 2 ? 9 : 1;
        }
        tarry_plan_evolution wanted = {.pace = pace,
                                       .cost = cost,
                                       .heaviest = 1,
                                       .lightest = 0.5,
                                       .most_moves = UINT32_MAX,
                                       .most_load = 1};
        tarry_plan_changes changes;
        OWNED(tarry_plan) next = plan_evolve(plan, &wanted, &changes);
        assert_true(changes.split == 0 && changes.merged == 0 && changes.moved == 0);
        assert_true(same_digest(plan, next));
    }
}

/* Costs go from the pieces of one plan to those of another as the densities say. */
TEST(costs_are_carried_through_their_spans)
{
    random_stream stream = random_stream_make(test_seed("evolve carry", 73), RANDOM_TEST, 0, 0);
    for (int trial = 0; trial < 100; trial++) {
        tarry_plan_settings settings =
            plan_settings(4, 8, 2, TARRY_DESIGN_FRACTIONAL, TARRY_ORDER_RANDOM, 1);
        tarry_plan *plan[3] = {plan_make(&settings)};
        static double cost[3][MOST_CHUNKS];
        for (int i = 0; i < 3; i++) {
            uint32_t chunks = tarry_plan_chunks(plan[i]);
            for (uint32_t chunk = 0; chunk < chunks; chunk++)
                cost[i][chunk] = pow(random_exponential(&stream), 3);
            tarry_plan_evolution wanted = {.cost = cost[i], .heaviest = 1.2, .lightest = 0.6};
            if (i < 2)
                plan[i + 1] = plan_evolve(plan[i], &wanted, NULL);
        }
        enum { FINE = 4096 };
        static double fine[8][FINE]; /* the costs of plan 2, by equal units of the data */
        for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan[2]); chunk++) {
            uint32_t spans;
            tarry_span whole;
            const tarry_span *list = span_list(plan[2], chunk, &whole, &spans);
            for (uint32_t i = 0; i < spans; i++) {
                assert_true(list[i].of <= FINE);
                uint32_t units = FINE / list[i].of;
                for (uint32_t unit = list[i].first * units;
                     unit < (list[i].first + list[i].count) * units; unit++)
                    fine[list[i].origin][unit] = cost[2][chunk] / span_size(list, spans) / FINE;
            }
        }
        double carried[MOST_CHUNKS];
        assert_int_equal(tarry_plan_carry_cost(plan[2], cost[2], plan[1], NULL, carried), 0);
        for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan[1]); chunk++) {
            double expected = 0;
            for (uint32_t i = 0; i < tarry_plan_span_count(plan[1], chunk); i++) {
                tarry_span span = tarry_plan_span(plan[1], chunk, i);
                uint32_t units = FINE / span.of;
                for (uint32_t unit = 0; unit < span.count * units; unit++)
                    expected += fine[span.origin][span.first * units + unit];
            }
            assert_true(near(carried[chunk], expected));
        }
        for (int i = 0; i < 3; i++)
            tarry_plan_free(plan[i]);
    }
}

typedef struct attempt_of {
    const tarry_plan *plan;
    tarry_plan_evolution wanted;
} attempt_of;

static int attempt(void *user, const tarry_allocator *allocator)
{
    const attempt_of *of = user;
    OWNED(tarry_plan) next = NULL;
    tarry_diagnostic diagnostic = {""};
    int error = tarry_plan_evolve(of->plan, &of->wanted, allocator, &next, NULL, &diagnostic);
    if (error != TARRY_OK)
        assert_string_equal(diagnostic.text, "plan: out of memory");
    return error;
}

static int attempt_carry(void *user, const tarry_allocator *allocator)
{
    const attempt_of *of = user;
    double carried[8];
    return tarry_plan_carry_cost(of->plan, of->wanted.cost, of->plan, allocator, carried);
}

TEST(each_allocation_may_fail)
{
    for (int order = TARRY_ORDER_OPTIMAL; order <= TARRY_ORDER_AS_IS; order++) {
        tarry_plan_settings settings =
            plan_settings(6, 8, 3, TARRY_DESIGN_FRACTIONAL, (tarry_order)order, 1);
        settings.parts = 2;
        OWNED(tarry_plan) plan = plan_make(&settings);
        const double pace[] = {1, 9, 9, 1, 1, 1}, cost[] = {1, 0.1, 0.1, 9, 1, 1, 1, 1};
        attempt_of of = {
            .plan = plan,
            .wanted = {
                .pace = pace, .cost = cost, .heaviest = 1.5, .lightest = 0.5, .most_moves = 10}};
        assert_true(fail_each_allocation(attempt, &of) > 40);
        assert_int_equal(fail_each_allocation(attempt_carry, &of), 1);
    }
}
