/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "evolve_check.h"
#include "seed.h"

enum { MOST_WORKERS = 12 };

/* ---- the least time, by its cuts (test_cover.c) ---- */

static double slow_time(const tarry_plan *plan, const double *pace, const double *cost)
{
    double longest = 0;
    uint32_t workers = tarry_plan_workers(plan), copies = tarry_plan_parts(plan);
    for (uint32_t set = 1; set < UINT32_C(1) << workers; set++) {
        double speed = 0, work = 0;
        for (uint32_t worker = 0; worker < workers; worker++)
            speed += set >> worker & 1 ? 1 / pace[worker] : 0;
        for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
            uint32_t others = 0;
            for (uint32_t i = 0; i < tarry_plan_replication(plan, chunk); i++)
                others += !(set >> tarry_plan_holder(plan, chunk, i) & 1);
            work += others < copies ? cost[chunk] * (copies - others) : 0;
        }
        longest = work > 0 ? fmax(longest, work / speed) : longest;
    }
    return longest;
}

/* By bisection: when the workers have done `copies` times the work, none of them more than once. */
static double slow_balanced(const double *pace, uint32_t workers, double work, uint32_t copies)
{
    double low = 0, high = 1e9;
    for (int step = 0; step < 200; step++) {
        double time = (low + high) / 2, done = 0;
        for (uint32_t worker = 0; worker < workers; worker++)
            done += fmin(time / pace[worker], work);
        *(done < copies * work ? &low : &high) = time;
    }
    return high;
}

static double data_of(const tarry_plan *plan, uint32_t worker)
{
    double data = 0;
    for (uint32_t position = 0; position < tarry_plan_load(plan, worker); position++) {
        uint32_t chunk = tarry_plan_chunk(plan, worker, position);
        for (uint32_t i = 0; i < tarry_plan_span_count(plan, chunk); i++) {
            tarry_span span = tarry_plan_span(plan, chunk, i);
            data += (double)span.count / span.of;
        }
    }
    return data;
}

/* The times are those of the tightest cut, what moved is what changed its holder, nothing moves
 * without need, and nearly all plans come near to balanced. */
TEST(moves_are_counted_and_their_times_true)
{
    random_stream stream = random_stream_make(test_seed("evolve moves", 74), RANDOM_TEST, 0, 0);
    uint32_t moves = 0, reached = 0, needed = 0;
    for (int trial = 0; trial < 400; trial++) {
        uint32_t workers = 4 + random_below(&stream, 6), chunks = 5 * workers;
        tarry_plan_settings settings =
            plan_settings(workers, chunks, 2 + random_below(&stream, 2), TARRY_DESIGN_RANDOM,
                          TARRY_ORDER_AS_IS, random_u64(&stream));
        settings.parts = 1 + (trial % 4 == 0);
        OWNED(tarry_plan) plan = plan_make(&settings);
        double pace[MOST_WORKERS], cost[64], work = 0;
        for (uint32_t worker = 0; worker < workers; worker++) {
            pace[worker] = 1 + random_exponential(&stream);
            pace[worker] *= random_below(&stream, 4) ? 1 : 10;
            if (worker > 2 && random_below(&stream, 8) == 0)
                pace[worker] = INFINITY;
        }
        for (uint32_t chunk = 0; chunk < chunks; chunk++)
            work += cost[chunk] = trial % 3 ? 1 : 0.5 + random_uniform(&stream);
        tarry_plan_evolution wanted = {.pace = pace, .cost = cost, .most_moves = UINT32_MAX};
        tarry_plan_changes changes;
        OWNED(tarry_plan) next = plan_evolve(plan, &wanted, &changes);
        plan_check_views(next);
        assert_true(near(changes.balanced, slow_balanced(pace, workers, work, settings.parts)));
        assert_true(near(changes.matched_before, slow_time(plan, pace, cost)));
        assert_true(near(changes.matched_after, slow_time(next, pace, cost)));
        uint32_t moved = 0;
        for (uint32_t chunk = 0; chunk < chunks; chunk++)
            for (uint32_t i = 0; i < settings.replication; i++) {
                uint32_t worker = tarry_plan_holder(next, chunk, i);
                moved += !holds(plan, chunk, worker);
                assert_true(isfinite(pace[worker]) || holds(plan, chunk, worker));
            }
        assert_int_equal(changes.moved, moved);
        assert_true(near(changes.moved_data, changes.moved));
        assert_true(isfinite(changes.matched_after));
        if (changes.matched_before <= 1.02 * changes.balanced) {
            assert_int_equal(changes.moved, 0);
        } else if (settings.parts == 1) { /* with more, not every plan can come near */
            needed++;
            reached += changes.matched_after <= 1.021 * changes.balanced;
            moves += changes.moved;
        }
    }
    print_message("%u of %u plans that needed moves came within 1.02; %.1f moves per plan\n",
                  reached, needed, (double)moves / needed);
    assert_true(needed > 80 && reached >= needed * 9 / 10);
}

/* ---- the fewest moves, by trying all ---- */

enum { FEW_WORKERS = 4, FEW_CHUNKS = 8 };

typedef struct table {
    bool holds[FEW_CHUNKS][FEW_WORKERS];
    double pace[FEW_WORKERS];
} table;

/* The least time in which chunks of cost 1 are covered, by the cuts. */
static double time_of_table(const table *of)
{
    double longest = 0;
    for (unsigned set = 1; set < 1U << FEW_WORKERS; set++) {
        double speed = 0, work = 0;
        for (int worker = 0; worker < FEW_WORKERS; worker++)
            speed += set >> worker & 1 ? 1 / of->pace[worker] : 0;
        for (int chunk = 0; chunk < FEW_CHUNKS; chunk++) {
            bool others = false;
            for (int worker = 0; worker < FEW_WORKERS; worker++)
                others |= of->holds[chunk][worker] && !(set >> worker & 1);
            work += !others;
        }
        longest = fmax(longest, work / speed);
    }
    return longest;
}

/* How many moves, up to `most`, bring the table within `time`; most + 1 if more are needed. */
static uint32_t fewest_moves(table *of, double time, uint32_t most)
{
    if (time_of_table(of) <= time)
        return 0;
    if (most == 0)
        return 1;
    uint32_t fewest = most + 1;
    for (int chunk = 0; chunk < FEW_CHUNKS; chunk++)
        for (int giver = 0; giver < FEW_WORKERS; giver++)
            for (int taker = 0; taker < FEW_WORKERS; taker++) {
                bool *holds = of->holds[chunk];
                if (!holds[giver] || holds[taker])
                    continue;
                holds[giver] = false;
                holds[taker] = true;
                uint32_t moves = 1 + fewest_moves(of, time, fewest - 2);
                holds[giver] = true;
                holds[taker] = false;
                if (moves < fewest)
                    fewest = moves;
                if (fewest == 1)
                    return 1;
            }
    return fewest;
}

TEST(few_more_moves_are_made_than_needed)
{
    random_stream stream = random_stream_make(test_seed("evolve fewest", 76), RANDOM_TEST, 0, 0);
    uint32_t plans = 0, made = 0, fewest = 0;
    for (int trial = 0; trial < 300; trial++) {
        tarry_plan *plan = plan_of(FEW_WORKERS, FEW_CHUNKS, 2, TARRY_DESIGN_RANDOM,
                                   TARRY_ORDER_AS_IS, random_u64(&stream));
        table of = {.holds = {{false}}};
        for (uint32_t worker = 0; worker < FEW_WORKERS; worker++)
            of.pace[worker] = random_below(&stream, 2) ? 5 : 1 + random_uniform(&stream);
        for (uint32_t chunk = 0; chunk < FEW_CHUNKS; chunk++)
            for (uint32_t i = 0; i < 2; i++)
                of.holds[chunk][tarry_plan_holder(plan, chunk, i)] = true;
        tarry_plan_evolution wanted = {.pace = of.pace, .most_moves = UINT32_MAX};
        tarry_plan_changes changes;
        tarry_plan_free(plan_evolve(plan, &wanted, &changes));
        tarry_plan_free(plan);
        assert_true(near(changes.matched_before, time_of_table(&of)));
        double time = 1.02 * changes.balanced * (1 + 1e-9);
        if (changes.moved == 0 || changes.moved > 3 || changes.matched_after > time)
            continue;
        uint32_t needed = fewest_moves(&of, time, changes.moved - 1);
        assert_true(needed <= changes.moved);
        plans++;
        made += changes.moved;
        fewest += needed;
    }
    print_message("%u plans: %u moves, %u were needed\n", plans, made, fewest);
    assert_true(plans > 50 && made <= fewest + fewest / 4);
}

/* Copies that stay keep their sequence, and new ones go behind. */
TEST(the_sequence_stays_as_it_is)
{
    OWNED(tarry_plan) plan = plan_of(10, 60, 2, TARRY_DESIGN_RANDOM, TARRY_ORDER_AS_IS, 3);
    const double pace[] = {1, 1, 1, 20, 20, 20, 1, 1, 1, 1};
    tarry_plan_evolution wanted = {.pace = pace, .most_moves = UINT32_MAX};
    tarry_plan_changes changes;
    OWNED(tarry_plan) next = plan_evolve(plan, &wanted, &changes);
    assert_true(changes.moved > 0);
    for (uint32_t worker = 0; worker < 10; worker++) {
        uint32_t before = 0; /* where to look on in the former order */
        bool fresh = false;
        for (uint32_t position = 0; position < tarry_plan_load(next, worker); position++) {
            uint32_t chunk = tarry_plan_chunk(next, worker, position);
            if (!holds(plan, chunk, worker)) {
                fresh = true;
                continue;
            }
            assert_false(fresh);
            while (tarry_plan_chunk(plan, worker, before) != chunk)
                assert_true(++before < tarry_plan_load(plan, worker));
        }
    }
}

TEST(no_worker_is_loaded_beyond_the_limit)
{
    random_stream stream = random_stream_make(test_seed("evolve load", 75), RANDOM_TEST, 0, 0);
    uint32_t limited = 0;
    for (int trial = 0; trial < 100; trial++) {
        OWNED(tarry_plan)
        plan = plan_of(10, 80, 2, TARRY_DESIGN_CYCLIC, TARRY_ORDER_AS_IS, random_u64(&stream));
        double pace[10];
        for (uint32_t worker = 0; worker < 10; worker++)
            pace[worker] = worker < 5 ? 10 : 1;
        tarry_plan_evolution wanted = {.pace = pace, .most_moves = UINT32_MAX};
        tarry_plan_changes changes;
        double limit = 1 + random_uniform(&stream);
        for (int limits = 0; limits < 2; limits++) {
            wanted.most_load = limits ? limit : 0;
            OWNED(tarry_plan) next = plan_evolve(plan, &wanted, &changes);
            double most = 0;
            for (uint32_t worker = 0; worker < 10; worker++)
                most = fmax(most, data_of(next, worker));
            if (limits)
                assert_true(most <= 16 * limit);
            else
                limited += most > 16 * limit;
        }
    }
    assert_true(limited > 10);
}
