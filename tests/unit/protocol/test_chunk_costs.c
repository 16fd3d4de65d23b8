/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/random.h"
#include "failing_allocator.h"
#include "protocol/steering/steering.h"
#include "seed.h"
#include "test.h"

enum { CHUNKS = 200 };

static chunk_costs begin(void)
{
    chunk_costs costs;
    assert_ok(chunk_costs_create(&costs, CHUNKS, NULL));
    return costs;
}

static double mean_of(const double *values)
{
    double sum = 0;
    for (size_t i = 0; i < CHUNKS; i++)
        sum += values[i];
    return sum / CHUNKS;
}

/* Lognormal of mean 1. */
static double draw(random_stream *stream, double deviation)
{
    return exp(deviation * (random_normal(stream) - deviation / 2));
}

TEST(nothing_is_claimed_of_what_was_seen_once)
{
    chunk_costs costs = begin();
    double out[CHUNKS];
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        chunk_costs_add(&costs, chunk, chunk % 2 == 0 ? 1 : 5);
    chunk_costs_settle(&costs, out);
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        assert_true(out[chunk] == 1);
    chunk_costs_destroy(&costs, NULL);
}

TEST(costs_that_last_are_found)
{
    random_stream stream = random_stream_make(test_seed("costs", 1), RANDOM_TEST, 0, 0);
    double truth[CHUNKS], out[CHUNKS];
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        truth[chunk] = draw(&stream, 0.6);
    double scale = mean_of(truth);
    chunk_costs costs = begin();
    double error = 0;
    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            chunk_costs_add(&costs, chunk, truth[chunk] * draw(&stream, 0.1));
        chunk_costs_settle(&costs, out);
        assert_true(fabs(mean_of(out) - 1) < 1e-9);
        error = 0;
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            error += pow(out[chunk] * scale / truth[chunk] - 1, 2) / CHUNKS;
    }
    /* Eight samples of 10 % noise: 3.5 %, and as much again for those that weigh less. */
    assert_true(sqrt(error) < 0.07);
    chunk_costs_destroy(&costs, NULL);
}

/* As in a job whose sequences are drawn anew: what chunks took says nothing of the next round. */
TEST(costs_that_are_new_in_each_round_are_taken_for_alike)
{
    random_stream stream = random_stream_make(test_seed("new costs", 2), RANDOM_TEST, 0, 0);
    chunk_costs costs = begin();
    double out[CHUNKS], spread = 0;
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            chunk_costs_add(&costs, chunk, draw(&stream, 0.6));
        chunk_costs_settle(&costs, out);
    }
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
        spread += pow(out[chunk] - 1, 2) / CHUNKS;
    /* Their means alone would differ by 0.66 / sqrt(8) = 0.23. */
    assert_true(sqrt(spread) < 0.12);
    chunk_costs_destroy(&costs, NULL);
}

TEST(one_wild_sample_is_bounded_and_costs_stay_positive)
{
    chunk_costs costs = begin();
    double out[CHUNKS];
    for (uint32_t round = 0; round < 4; round++)
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            chunk_costs_add(&costs, chunk, chunk == 0 ? INFINITY : chunk == 1 ? 0 : 1);
    chunk_costs_settle(&costs, out);
    assert_true(isfinite(out[0]) && out[0] > out[2] && out[0] < 33);
    assert_true(out[1] > 0 && out[1] < out[2]);
    chunk_costs_destroy(&costs, NULL);
}

static int create(void *user, const tarry_allocator *allocator)
{
    chunk_costs costs;
    int error = chunk_costs_create(&costs, CHUNKS, allocator);
    if (error == TARRY_OK)
        chunk_costs_destroy(&costs, allocator);
    return error;
}

TEST(creation_can_fail)
{
    fail_each_allocation(create, NULL);
}
