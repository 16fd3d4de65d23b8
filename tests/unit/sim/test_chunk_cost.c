/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <math.h>

#include "failing_allocator.h"
#include "seed.h"
#include "sim/chunk_cost.h"

enum { CHUNKS = 50 };

static char path[] = "/tmp/tarry-chunk-cost-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    static const char text[] = "step,worker,chunk,seconds\n"
                               "0,0,0,1\n0,0,1,2\n0,1,0,3\n0,1,1,6\n"
                               "1,0,0,0\n1,0,1,0\n1,1,0,0\n1,1,1,0\n";
    int file = mkstemp(path);
    bool good = file >= 0 && write(file, text, sizeof(text) - 1) == sizeof(text) - 1;
    return good && close(file) == 0 ? 0 : -1;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static chunk_cost *make(const char *spec)
{
    chunk_cost *costs = NULL;
    assert_int_equal(chunk_cost_create(spec, NULL, &costs, NULL), TARRY_OK);
    return costs;
}

static void uniform_costs_are_one(void **state)
{
    (void)state;
    static const char *const specs[] = {"uniform", "lognormal:0"};
    for (size_t i = 0; i < 2; i++) {
        double drawn[CHUNKS];
        chunk_cost *costs = make(specs[i]);
        assert_true(chunk_cost_uniform(costs));
        chunk_cost_draw(costs, 1, 2, CHUNKS, 1, drawn);
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            assert_true(drawn[chunk] == 1);
        chunk_cost_free(costs);
    }
}

static void costs_of_a_run_are_those_of_its_first_round(void **state)
{
    (void)state;
    enum { SOME = 20 };
    chunk_cost *anew = make("lognormal:0.5"), *once = make("lognormal:0.5/run");
    double first[SOME], later[SOME], other[SOME];
    chunk_cost_draw(anew, 7, 0, SOME, 1, first);
    chunk_cost_draw(anew, 7, 9, SOME, 1, other);
    chunk_cost_draw(once, 7, 9, SOME, 1, later);
    assert_memory_equal(later, first, sizeof(first));
    assert_memory_not_equal(other, first, sizeof(first));
    chunk_cost_free(once);
    chunk_cost_free(anew);
}

static void lognormal_costs_have_their_moments(void **state)
{
    (void)state;
    const uint32_t rounds = 2000;
    uint64_t seed = test_seed("lognormal", 51);
    chunk_cost *costs = make("lognormal:0.5");
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
    chunk_cost_free(costs);
}

static void costs_are_a_function_of_seed_round_and_chunk(void **state)
{
    (void)state;
    double few[3], many[CHUNKS], later[3], other[3];
    chunk_cost *costs = make("lognormal:1");
    chunk_cost_draw(costs, 5, 9, CHUNKS, 1, many);
    chunk_cost_draw(costs, 5, 10, 3, 1, later);
    chunk_cost_draw(costs, 6, 9, 3, 1, other);
    chunk_cost_draw(costs, 5, 9, 3, 1, few);
    for (uint32_t chunk = 0; chunk < 3; chunk++) {
        assert_true(few[chunk] == many[chunk]);
        assert_true(few[chunk] != later[chunk] && few[chunk] != other[chunk]);
    }
    chunk_cost_free(costs);
}

static void a_trace_gives_relative_costs(void **state)
{
    (void)state;
    char spec[64];
    double drawn[6];
    snprintf(spec, sizeof(spec), "trace:%s", path);
    chunk_cost *costs = make(spec);
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
    chunk_cost_free(costs);
}

/* A piece has its chunk's cost, however many there are of it. */
static void pieces_have_the_cost_of_their_chunk(void **state)
{
    (void)state;
    char trace[64];
    snprintf(trace, sizeof(trace), "trace:%s", path);
    const char *specs[] = {"uniform", "lognormal:0.5", trace};
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        chunk_cost *costs = make(specs[i]);
        for (uint64_t round = 0; round < 3; round++) {
            double whole[6], pieces[6 * 4];
            chunk_cost_draw(costs, 4, round, 6, 1, whole);
            chunk_cost_draw(costs, 4, round, 6, 4, pieces);
            for (int piece = 0; piece < 6 * 4; piece++)
                assert_true(pieces[piece] == whole[piece / 4]);
        }
        chunk_cost_free(costs);
    }
}

static void malformed_specs_are_named(void **state)
{
    (void)state;
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
        if (strstr(diagnostic.text, cases[i].text) == NULL)
            fail_msg("'%s' instead of '%s'", diagnostic.text, cases[i].text);
        assert_null(costs);
    }
}

static void the_largest_deviation_stays_finite(void **state)
{
    (void)state;
    double drawn[CHUNKS];
    chunk_cost *costs = make("lognormal:1e6");
    for (uint32_t round = 0; round < 100; round++) {
        chunk_cost_draw(costs, 3, round, CHUNKS, 1, drawn);
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
            assert_true(isfinite(drawn[chunk]) && drawn[chunk] >= 0);
    }
    chunk_cost_free(costs);
}

static int attempt(void *user, const tarry_allocator *allocator)
{
    chunk_cost *costs;
    int error = chunk_cost_create(user, allocator, &costs, NULL);
    if (error == TARRY_OK)
        chunk_cost_free(costs);
    return error;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    char spec[64];
    snprintf(spec, sizeof(spec), "trace:%s", path);
    assert_int_equal(fail_each_allocation(attempt, spec), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_costs_are_one),
        cmocka_unit_test(costs_of_a_run_are_those_of_its_first_round),
        cmocka_unit_test(lognormal_costs_have_their_moments),
        cmocka_unit_test(costs_are_a_function_of_seed_round_and_chunk),
        cmocka_unit_test(a_trace_gives_relative_costs),
        cmocka_unit_test(pieces_have_the_cost_of_their_chunk),
        cmocka_unit_test(malformed_specs_are_named),
        cmocka_unit_test(the_largest_deviation_stays_finite),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
