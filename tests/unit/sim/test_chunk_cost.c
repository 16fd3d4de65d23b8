/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "failing_allocator.h"
#include "seed.h"
#include "sim/chunk_cost.h"
#include "test.h"
#include "test_file.h"

OWNED_BY(chunk_cost, chunk_cost_free)

enum { CHUNKS = 50 };

static int make_file(void **state)
{
    static const char text[] = "step,worker,chunk,seconds\n"
                               "0,0,0,1\n0,0,1,2\n0,1,0,3\n0,1,1,6\n"
                               "1,0,0,0\n1,0,1,0\n1,1,0,0\n1,1,1,0\n";
    int error = test_file_make(state);
    if (error == 0)
        write_text(test_file, text);
    return error;
}

static chunk_cost *make(const char *spec)
{
    chunk_cost *costs = NULL;
    assert_ok(chunk_cost_create(spec, NULL, &costs, NULL));
    return costs;
}

TEST(uniform_costs_are_one)
{
    static const char *const specs[] = {"uniform", "lognormal:0"};
    for (size_t i = 0; i < 2; i++) {
        double drawn[CHUNKS];
        OWNED(chunk_cost) costs = make(specs[i]);
        assert_true(chunk_cost_uniform(costs));
        chunk_cost_draw(costs, 1, 2, CHUNKS, 1, drawn);
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            assert_true(drawn[chunk] == 1);
    }
}

TEST(costs_of_a_run_are_those_of_its_first_round)
{
    enum { SOME = 20 };
    OWNED(chunk_cost) anew = make("lognormal:0.5"), once = make("lognormal:0.5/run");
    double first[SOME], later[SOME], other[SOME];
    chunk_cost_draw(anew, 7, 0, SOME, 1, first);
    chunk_cost_draw(anew, 7, 9, SOME, 1, other);
    chunk_cost_draw(once, 7, 9, SOME, 1, later);
    assert_memory_equal(later, first, sizeof(first));
    assert_memory_not_equal(other, first, sizeof(first));
}

TEST(lognormal_costs_have_their_moments)
{
    const uint32_t rounds = 2000;
    uint64_t seed = test_seed("lognormal", 51);
    OWNED(chunk_cost) costs = make("lognormal:0.5");
    assert_false(chunk_cost_uniform(costs));
    double sum = 0, square = 0, log_sum = 0, log_square = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        double drawn[CHUNKS];
        chunk_cost_draw(costs, seed, round, CHUNKS, 1, drawn);
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
            sum += drawn[chunk];
            square += drawn[chunk] * drawn[chunk];
            log_sum += log(drawn[chunk]);
            log_square += log(drawn[chunk]) * log(drawn[chunk]);
        }
    }
    const double count = (double)rounds * CHUNKS, five_sigma = 5 / sqrt(count);
    double mean = sum / count, log_mean = log_sum / count;
    assert_true(fabs(mean - 1) < 0.5 * five_sigma);
    assert_true(fabs(sqrt(square / count - mean * mean) - 0.5) < 2 * five_sigma);
    /* ln(1.25) is the variance of the logarithm, and minus half of it its mean. */
    assert_true(fabs(log_mean + log(1.25) / 2) < 0.5 * five_sigma);
    assert_true(fabs(log_square / count - log_mean * log_mean - log(1.25)) < five_sigma);
}

TEST(costs_are_a_function_of_seed_round_and_chunk)
{
    double few[3], many[CHUNKS], later[3], other[3];
    OWNED(chunk_cost) costs = make("lognormal:1");
    chunk_cost_draw(costs, 5, 9, CHUNKS, 1, many);
    chunk_cost_draw(costs, 5, 10, 3, 1, later);
    chunk_cost_draw(costs, 6, 9, 3, 1, other);
    chunk_cost_draw(costs, 5, 9, 3, 1, few);
    for (uint32_t chunk = 0; chunk < 3; chunk++) {
        assert_true(few[chunk] == many[chunk]);
        assert_true(few[chunk] != later[chunk] && few[chunk] != other[chunk]);
    }
}

TEST(a_trace_gives_relative_costs)
{
    char spec[64];
    double drawn[6];
    snprintf(spec, sizeof(spec), "trace:%s", test_file);
    OWNED(chunk_cost) costs = make(spec);
    assert_false(chunk_cost_uniform(costs));
    chunk_cost_draw(costs, 1, 2, 4, 1, drawn); /* of a mean of 3 s */
    assert_float_equal(drawn[0], 1.0 / 3, 1e-15);
    assert_float_equal(drawn[1], 2.0 / 3, 1e-15);
    assert_float_equal(drawn[2], 1, 1e-15);
    assert_float_equal(drawn[3], 2, 1e-15);
    chunk_cost_draw(costs, 1, 0, 6, 1, drawn); /* 1 2 3 6 1 2 */
    assert_float_equal(drawn[0], 0.4, 1e-15);
    assert_float_equal(drawn[5], 0.8, 1e-15);
    chunk_cost_draw(costs, 1, 1, 4, 1, drawn); /* nothing took time */
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        assert_true(drawn[chunk] == 1);
}

/* A piece has its chunk's cost, however many there are of it. */
TEST(pieces_have_the_cost_of_their_chunk)
{
    char trace[64];
    snprintf(trace, sizeof(trace), "trace:%s", test_file);
    const char *specs[] = {"uniform", "lognormal:0.5", trace};
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        OWNED(chunk_cost) costs = make(specs[i]);
        for (uint64_t round = 0; round < 3; round++) {
            double whole[6], pieces[6 * 4];
            chunk_cost_draw(costs, 4, round, 6, 1, whole);
            chunk_cost_draw(costs, 4, round, 6, 4, pieces);
            for (int piece = 0; piece < 6 * 4; piece++)
                assert_true(pieces[piece] == whole[piece / 4]);
        }
    }
}

TEST(malformed_specs_are_named)
{
    static const struct {
        const char *spec, *text;
        int error;
    } cases[] = {
        {"", "chunk cost '' is not one of uniform, lognormal:SD[/run], trace:FILE",
         TARRY_ERROR_FORMAT},
        {"uniform:1", "chunk cost 'uniform:1' is not one of", TARRY_ERROR_FORMAT},
        {"lognormal", "chunk cost 'lognormal' is not one of", TARRY_ERROR_FORMAT},
        {"lognormal:", "chunk cost 'lognormal:': SD '' is not a number", TARRY_ERROR_FORMAT},
        {"lognormal:/run", "chunk cost 'lognormal:/run': SD '' is not a number",
         TARRY_ERROR_FORMAT},
        {"lognormal:1x", "SD '1x' is not a number", TARRY_ERROR_FORMAT},
        {"lognormal:-1", "SD must be from 0 to 1e+06", TARRY_ERROR_FORMAT},
        {"lognormal:1e7", "SD must be from 0 to 1e+06", TARRY_ERROR_FORMAT},
        {"trace:", "FILE is missing", TARRY_ERROR_FORMAT},
        {"trace:no-such-file", "no-such-file: No such file or directory", TARRY_ERROR_FILE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        chunk_cost *costs = NULL;
        tarry_diagnostic diagnostic = {""};
        assert_int_equal(chunk_cost_create(cases[i].spec, NULL, &costs, &diagnostic),
                         cases[i].error);
        assert_says(diagnostic.text, cases[i].text);
        assert_null(costs);
    }
}

TEST(the_largest_deviation_stays_finite)
{
    double drawn[CHUNKS];
    OWNED(chunk_cost) costs = make("lognormal:1e6");
    for (uint32_t round = 0; round < 100; round++) {
        chunk_cost_draw(costs, 3, round, CHUNKS, 1, drawn);
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            assert_true(isfinite(drawn[chunk]) && drawn[chunk] >= 0);
    }
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    OWNED(chunk_cost) costs = NULL;
    return chunk_cost_create(user, allocator, &costs, NULL);
}

TEST(each_allocation_may_fail)
{
    char spec[64];
    snprintf(spec, sizeof(spec), "trace:%s", test_file);
    assert_int_equal(fail_each_allocation(attempt, spec), 4);
}

TEST_GROUP(make_file, test_file_remove)
