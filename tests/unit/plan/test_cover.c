/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "plan/evolve/evolve.h"
#include "seed.h"
#include "test.h"

enum { MOST_WORKERS = 7, MOST_CHUNKS = 10 };

typedef struct scene {
    uint32_t workers, chunks, copies;
    double pace[MOST_WORKERS];
    double cost[MOST_CHUNKS];
    bool holds[MOST_WORKERS][MOST_CHUNKS];
} scene;

static scene draw_scene(random_stream *stream)
{
    scene made = {.workers = 1 + random_below(stream, MOST_WORKERS),
                  .chunks = 1 + random_below(stream, MOST_CHUNKS)};
    made.copies = 1 + random_below(stream, made.workers < 3 ? made.workers : 3);
    for (uint32_t worker = 0; worker < made.workers; worker++)
        made.pace[worker] =
            random_below(stream, 10) == 0 ? INFINITY : random_exponential(stream) + 0.1;
    for (uint32_t chunk = 0; chunk < made.chunks; chunk++) {
        made.cost[chunk] = chunk > 0 && random_below(stream, 5) == 0 ? 0 : random_uniform(stream);
        for (uint32_t worker = 0; worker < made.workers; worker++)
            made.holds[worker][chunk] = random_below(stream, 2) == 0;
    }
    return made;
}

static cover cover_of(const scene *of)
{
    cover made;
    assert_int_equal(cover_init(&made, of->workers, of->chunks, of->copies,
                                2 * MOST_WORKERS * MOST_CHUNKS, of->pace, of->cost, NULL),
                     0);
    for (uint32_t worker = 0; worker < of->workers; worker++)
        for (uint32_t chunk = 0; chunk < of->chunks; chunk++)
            if (of->holds[worker][chunk])
                cover_hold(&made, worker, chunk);
    return made;
}

/*
 * The cuts one by one: of a chunk's copies, the workers outside of a set do at most one each, and
 * the set has to do the others. The set that takes longest for that decides.
 */
static double slow_time(const scene *of)
{
    double longest = 0;
    for (uint32_t set = 1; set < UINT32_C(1) << of->workers; set++) {
        double speed = 0, work = 0;
        for (uint32_t worker = 0; worker < of->workers; worker++)
            speed += set >> worker & 1 ? 1 / of->pace[worker] : 0;
        for (uint32_t chunk = 0; chunk < of->chunks; chunk++) {
            uint32_t others = 0;
            for (uint32_t worker = 0; worker < of->workers; worker++)
                others += of->holds[worker][chunk] && !(set >> worker & 1);
            work += others < of->copies ? of->cost[chunk] * (of->copies - others) : 0;
        }
        if (work > 0)
            longest = fmax(longest, work / speed);
    }
    /* copies that no worker holds are in the way whatever the speed */
    for (uint32_t chunk = 0; chunk < of->chunks; chunk++) {
        uint32_t holders = 0;
        for (uint32_t worker = 0; worker < of->workers; worker++)
            holders += of->holds[worker][chunk] && isfinite(of->pace[worker]);
        if (holders < of->copies && of->cost[chunk] > 0)
            return INFINITY;
    }
    return longest;
}

TEST(the_time_is_that_of_the_tightest_cut)
{
    random_stream stream = random_stream_make(test_seed("cover", 51), RANDOM_TEST, 0, 0);
    int finite = 0;
    for (int trial = 0; trial < 2000; trial++) {
        scene at = draw_scene(&stream);
        cover fast = cover_of(&at);
        double expected = slow_time(&at), found = cover_time(&fast);
        if (isinf(expected)) {
            assert_true(isinf(found));
        } else {
            assert_true(fabs(found - expected) <= 1e-9 * expected);
            assert_true(cover_fill(&fast, found * 1.000001) == 0);
            assert_true(expected == 0 || cover_fill(&fast, found * 0.999) > 0);
            finite++;
        }
        cover_destroy(&fast, NULL);
    }
    assert_true(finite > 200);
}

/* Taking and giving holdings one by one ends where a cover of the holdings that are left begins. */
TEST(changed_holdings_are_filled_like_fresh_ones)
{
    random_stream stream = random_stream_make(test_seed("cover change", 52), RANDOM_TEST, 0, 0);
    int changes = 0;
    for (int trial = 0; trial < 1000; trial++) {
        scene at = draw_scene(&stream);
        cover changed = cover_of(&at);
        uint32_t number[MOST_WORKERS][MOST_CHUNKS], next = 0;
        for (uint32_t worker = 0; worker < at.workers; worker++)
            for (uint32_t chunk = 0; chunk < at.chunks; chunk++)
                if (at.holds[worker][chunk])
                    number[worker][chunk] = next++;
        double time = random_uniform(&stream) * 3;
        cover_fill(&changed, time);
        for (int change = 0; change < 6; change++) {
            uint32_t worker = random_below(&stream, at.workers);
            uint32_t chunk = random_below(&stream, at.chunks);
            bool *holds = &at.holds[worker][chunk];
            if (*holds)
                cover_take(&changed, number[worker][chunk]);
            else
                number[worker][chunk] = cover_give(&changed, worker, chunk);
            *holds = !*holds;
            changes++;
        }
        cover fresh = cover_of(&at);
        assert_true(cover_refill(&changed) == cover_fill(&fresh, time));
        uint64_t missing = 0, done = 0;
        for (uint32_t chunk = 0; chunk < at.chunks; chunk++)
            missing += cover_missing(&changed, chunk);
        for (uint32_t worker = 0; worker < at.workers; worker++)
            for (uint32_t chunk = 0; chunk < at.chunks; chunk++)
                if (at.holds[worker][chunk])
                    done += cover_done(&changed, number[worker][chunk]);
        assert_true(missing + done == changed.demand);
        cover_destroy(&fresh, NULL);
        cover_destroy(&changed, NULL);
    }
    assert_true(changes == 6000);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    const double ones[] = {1, 1, 1};
    cover made;
    int error = cover_init(&made, 2, 3, 1, 4, ones, ones, allocator);
    if (error == 0)
        cover_destroy(&made, allocator);
    return error;
}

TEST(each_allocation_may_fail)
{
    assert_int_equal(fail_each_allocation(attempt, NULL), 7);
}
