/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <tarry/sim.h>

#include "base/random.h"
#include "edge_plan.h"
#include "failing_allocator.h"
#include "plan/plan.h"
#include "seed.h"
#include "sim/cost.h"
#include "test.h"

/* A plan and a model of times. */
typedef struct scene {
    tarry_plan *plan;
    tarry_straggler *straggler;
    tarry_sim_settings settings;
    double costs[16];
} scene;

static void scene_make(scene *at, uint32_t workers, uint32_t chunks, uint32_t replication,
                       const char *spec, uint64_t seed)
{
    *at = (scene){.settings.chunk_ns = 1000};
    at->plan = plan_drawn(workers, chunks, replication, seed);
    assert_ok(tarry_straggler_create(spec, workers, seed, NULL, &at->straggler, NULL));
    at->settings.straggler = at->straggler;
}

static void scene_free(scene *at)
{
    tarry_straggler_free(at->straggler);
    tarry_plan_free(at->plan);
}
OWNED_STRUCT_BY(scene, scene_free)

#define SCENE(name) TEST_OF(name, scene, at, scene_free)

static tarry_sim_bounds bounds_of(const scene *at, uint64_t round, uint32_t copies)
{
    tarry_sim_bounds bounds = {0};
    assert_ok(tarry_sim_bound(at->plan, &at->settings, round, copies, NULL, &bounds));
    return bounds;
}

/* Every choice of `copies` holders for each chunk from `chunk` on, given what the workers have to
 * do before that; gives back the least time in which one is done. */
static uint64_t brute_force(const scene *at, uint64_t round, uint32_t copies, uint32_t chunk,
                            uint64_t *busy)
{
    uint32_t workers = tarry_plan_workers(at->plan);
    uint64_t best = TARRY_NEVER;
    if (chunk == tarry_plan_chunks(at->plan)) {
        best = 0;
        for (uint32_t worker = 0; worker < workers; worker++)
            best = busy[worker] > best ? busy[worker] : best;
        return best;
    }
    uint32_t holders = tarry_plan_replication(at->plan, chunk);
    for (uint32_t set = 0; set < UINT32_C(1) << holders; set++) {
        uint64_t with[8] = {0};
        bool possible = (uint32_t)__builtin_popcount(set) == copies;
        for (uint32_t worker = 0; worker < workers; worker++)
            with[worker] = busy[worker];
        for (uint32_t index = 0; index < holders && possible; index++) {
            if (!(set >> index & 1))
                continue;
            uint32_t worker = tarry_plan_holder(at->plan, chunk, index);
            uint64_t ns = chunk_time_ns(at->plan, &at->settings, round, worker,
                                        plan_position(at->plan, chunk, index), chunk);
            possible = ns != TARRY_NEVER;
            with[worker] += ns;
        }
        if (!possible)
            continue;
        uint64_t time = brute_force(at, round, copies, chunk + 1, with);
        best = time < best ? time : best;
    }
    return best;
}

static uint64_t least_time(const scene *at, uint64_t round, uint32_t copies)
{
    uint64_t busy[8] = {0};
    return brute_force(at, round, copies, 0, busy);
}

TEST(matched_is_the_least_time_where_a_worker_takes_equal_times)
{
    uint64_t seed = test_seed("matched", 41);
    static const char *const specs[] = {"exp:1", "none", "slow:1,3+jitter:0.3", "exp:1+dead:1",
                                        "exp:1+dead:2"};
    uint32_t never = 0;
    for (uint32_t trial = 0; trial < 200; trial++) {
        OWNED(scene) at;
        uint32_t copies = 1 + trial % 2;
        scene_make(&at, 4, 3 + trial % 4, 2 + trial % 3 / 2, specs[trial % 5], seed + trial);
        uint64_t best = least_time(&at, trial, copies);
        tarry_sim_bounds bounds = bounds_of(&at, trial, copies);
        assert_true(bounds.matched_ns == best);
        if (best == TARRY_NEVER)
            assert_true(bounds.balanced_ns == TARRY_NEVER);
        else
            assert_true(bounds.balanced_ns <= best + 1);
        never += best == TARRY_NEVER;
    }
    assert_in_range(never, 5, 100);
}

/* ---- larger plans, by single ways ---- */

enum { MOST_NODES = 200 };

/* Who computes what within a time, found copy by copy. */
typedef struct matching {
    const scene *at;
    uint64_t times[MOST_NODES][MOST_NODES]; /* by worker and place in its order */
    uint32_t room[MOST_NODES];              /* per worker: chunks more that it can compute */
    bool takes[MOST_NODES][MOST_NODES];     /* by worker and chunk */
    bool seen[MOST_NODES];                  /* workers */
    uint64_t within;
} matching;

static bool place_copy(matching *it, uint32_t chunk)
{
    const tarry_plan *plan = it->at->plan;
    for (uint32_t i = 0; i < tarry_plan_replication(plan, chunk); i++) {
        uint32_t worker = tarry_plan_holder(plan, chunk, i);
        if (it->seen[worker] || it->takes[worker][chunk] ||
            it->times[worker][plan_position(plan, chunk, i)] > it->within)
            continue;
        it->seen[worker] = true;
        bool free = it->room[worker] > 0;
        it->room[worker] -= free;
        for (uint32_t p = 0; p < tarry_plan_load(plan, worker) && !free; p++) {
            uint32_t other = tarry_plan_chunk(plan, worker, p);
            free = it->takes[worker][other] && place_copy(it, other);
            it->takes[worker][other] = it->takes[worker][other] && !free;
        }
        it->takes[worker][chunk] = free;
        if (free)
            return true;
    }
    return false;
}

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static bool is_possible(matching *it, uint64_t within, uint32_t copies)
{
    const tarry_plan *plan = it->at->plan;
    it->within = within;
    memset(it->takes, 0, sizeof(it->takes));
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++) {
        uint64_t sorted[MOST_NODES], sum = 0;
        uint32_t load = tarry_plan_load(plan, worker);
        memcpy(sorted, it->times[worker], load * sizeof(*sorted));
        qsort(sorted, load, sizeof(*sorted), compare_times);
        it->room[worker] = 0;
        for (uint32_t p = 0; p < load && sorted[p] != TARRY_NEVER; p++) {
            sum += sorted[p];
            it->room[worker] += sum <= within;
        }
    }
    for (uint32_t copy = 0; copy < copies; copy++)
        for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
            memset(it->seen, 0, sizeof(it->seen));
            if (!place_copy(it, chunk))
                return false;
        }
    return true;
}

TEST(matched_is_the_least_time_of_a_matching)
{
    uint64_t seed = test_seed("matching", 44);
    static const char *const specs[] = {"exp:1", "exp:1/chunk", "markov:0.1,0.3,5", "exp:1+dead:3"};
    static const uint32_t sizes[][3] = {{30, 90, 3}, {100, 100, 3}, {60, 180, 4}, {12, 150, 5}};
    matching it;
    uint32_t never = 0;
    for (uint32_t trial = 0; trial < 16; trial++) {
        OWNED(scene) at;
        uint32_t copies = 1 + trial / 4 % 2;
        const uint32_t *size = sizes[trial % 4];
        scene_make(&at, size[0], size[1], size[2], specs[trial / 4], seed + trial);
        it.at = &at;
        for (uint32_t worker = 0; worker < size[0]; worker++)
            for (uint32_t p = 0; p < tarry_plan_load(at.plan, worker); p++)
                it.times[worker][p] = chunk_time_ns(at.plan, &at.settings, trial, worker, p,
                                                    tarry_plan_chunk(at.plan, worker, p));
        uint64_t found = bounds_of(&at, trial, copies).matched_ns;
        never += found == TARRY_NEVER;
        assert_true(found == TARRY_NEVER || is_possible(&it, found, copies));
        assert_false(is_possible(&it, found - 1, copies));
    }
    assert_true(never < 4);
}

/* Uneven costs: below the least time, and not far. */
TEST(matched_is_below_the_least_time_of_uneven_chunks)
{
    uint64_t seed = test_seed("uneven", 42);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    static const char *const specs[] = {"none", "exp:1", "exp:1/chunk", "exp:1+dead:1"};
    double nearness = 0, least_nearness = 1;
    const uint32_t trials = 200;
    for (uint32_t trial = 0; trial < trials; trial++) {
        OWNED(scene) at;
        uint32_t copies = 1 + trial / 4 % 2;
        scene_make(&at, 4, 6, 3, specs[trial % 4], seed + trial);
        for (uint32_t chunk = 0; chunk < 6; chunk++)
            at.costs[chunk] = 0.2 + random_exponential(&stream);
        at.settings.chunk_cost = trial % 4 == 2 ? NULL : at.costs;
        uint64_t best = least_time(&at, trial, copies);
        tarry_sim_bounds bounds = bounds_of(&at, trial, copies);
        assert_true(bounds.matched_ns <= best);
        if (trial % 4 != 2) /* splitting the work of this plan is no faster than that of any */
            assert_true((double)bounds.balanced_ns <= (double)bounds.matched_ns * (1 + 1e-9) + 10);
        double near = (double)bounds.matched_ns / (double)best;
        nearness += near / trials;
        least_nearness = fmin(least_nearness, near);
    }
    print_message("matched / least time: %.3f on average, %.3f at least\n", nearness,
                  least_nearness);
    assert_true(nearness > 0.8);
}

SCENE(balanced_is_work_over_speed)
{
    /* Speeds 1, 1, 1 and 1/4 chunks per 1000 ns, 8 chunks twice. */
    scene_make(at, 4, 8, 2, "slow:1,4", 1);
    assert_int_equal(bounds_of(at, 0, 2).balanced_ns, 4923); /* 16000 / 3.25 */
    assert_int_equal(bounds_of(at, 0, 1).balanced_ns, 2462);
    /* Costs of 1..8, in all 36: it doesn't matter who holds which. */
    for (uint32_t chunk = 0; chunk < 8; chunk++)
        at->costs[chunk] = chunk + 1;
    at->settings.chunk_cost = at->costs;
    assert_int_equal(bounds_of(at, 0, 1).balanced_ns, 11077); /* 36000 / 3.25 */
    scene_free(at);
    /* The dead have no speed. */
    scene_make(at, 5, 10, 3, "dead:1+shifted-exp:2e-6,0", 3);
    assert_int_equal(bounds_of(at, 0, 1).balanced_ns, 5000);
    assert_int_equal(bounds_of(at, 0, 2).balanced_ns, 10000);
    scene_free(at);
    scene_make(at, 4, 4, 2, "dead:4", 3);
    assert_true(bounds_of(at, 0, 1).balanced_ns == TARRY_NEVER);
    assert_true(bounds_of(at, 0, 1).matched_ns == TARRY_NEVER);
    assert_true(bounds_of(at, 0, 3).matched_ns == TARRY_NEVER);
}

/* Pieces are no more work, and where anyone may compute any the best division of them leaves no
 * more to be desired than one of the slowest worker's. */
TEST(pieces_bring_matched_to_balanced)
{
    for (uint32_t pieces = 1; pieces <= 10; pieces++) {
        OWNED(scene) at;
        scene_make(&at, 4, 8, 4, "slow:1,4", 1);
        at.settings.chunk_ns = 2520000;
        tarry_plan_free(at.plan);
        tarry_plan_settings design =
            plan_settings(4, 8, 4, TARRY_DESIGN_RANDOM, TARRY_ORDER_OPTIMAL, 1);
        design.pieces = pieces;
        at.plan = plan_make(&design);
        tarry_sim_bounds bounds = bounds_of(&at, 0, 1);
        assert_int_equal(bounds.balanced_ns, 6203077); /* 8 / 3.25 of chunk_ns */
        assert_true(bounds.matched_ns >= bounds.balanced_ns);
        assert_true(bounds.matched_ns <= bounds.balanced_ns + 4 * 2520000 / pieces);
    }
}

/* With one holder each there is no choice: what the slowest worker takes for all of its chunks. */
TEST(without_replication_matched_is_the_slowest_worker)
{
    uint64_t seed = test_seed("single", 43);
    random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    for (uint32_t trial = 0; trial < 50; trial++) {
        OWNED(scene) at;
        scene_make(&at, 4, 16, 1, "jitter:0.2", seed + trial);
        for (uint32_t chunk = 0; chunk < 16; chunk++)
            at.costs[chunk] = random_uniform(&stream);
        at.settings.chunk_cost = at.costs;
        uint64_t slowest = 0;
        for (uint32_t worker = 0; worker < 4; worker++) {
            uint64_t sum = 0;
            for (uint32_t p = 0; p < tarry_plan_load(at.plan, worker); p++)
                sum += chunk_time_ns(at.plan, &at.settings, 7, worker, p,
                                     tarry_plan_chunk(at.plan, worker, p));
            slowest = sum > slowest ? sum : slowest;
        }
        assert_int_equal(bounds_of(&at, 7, 1).matched_ns, slowest);
    }
}

SCENE(chunks_may_take_no_time)
{
    scene_make(at, 4, 8, 2, "none", 1);
    at->settings.chunk_ns = 0;
    assert_int_equal(bounds_of(at, 0, 2).matched_ns, 0);
    assert_int_equal(bounds_of(at, 0, 2).balanced_ns, 0);
    at->settings.chunk_ns = 1000;
    at->settings.chunk_cost = at->costs;
    at->costs[3] = 5; /* the others are free */
    assert_int_equal(bounds_of(at, 0, 2).matched_ns, 5000);
    assert_int_equal(bounds_of(at, 0, 2).balanced_ns, 2500 * 2);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    const scene *at = user;
    tarry_sim_bounds bounds;
    return tarry_sim_bound(at->plan, &at->settings, 1, 1, allocator, &bounds);
}

SCENE(each_allocation_may_fail)
{
    scene_make(at, 4, 8, 2, "exp:1", 1);
    assert_int_equal(fail_each_allocation(attempt, at), 10);
    for (uint32_t chunk = 0; chunk < 8; chunk++)
        at->costs[chunk] = 1 + chunk;
    at->settings.chunk_cost = at->costs; /* uneven ones are bound by work, too */
    assert_int_equal(fail_each_allocation(attempt, at), 17);
}
