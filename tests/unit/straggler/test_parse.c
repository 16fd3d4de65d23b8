/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "straggler/straggler.h"
#include "test.h"

static void expect_error(const char *spec, int expected, const char *text)
{
    tarry_straggler *straggler = NULL;
    tarry_diagnostic diagnostic = {""};
    int error = tarry_straggler_create(spec, 8, 1, NULL, &straggler, &diagnostic);
    if (error != expected || strstr(diagnostic.text, text) == NULL ||
        strchr(diagnostic.text, '\n') != NULL)
        fail_msg("'%s': error %d, '%s'; expected error %d, '%s'", spec, error, diagnostic.text,
                 expected, text);
    assert_null(straggler);
    assert_int_equal(tarry_straggler_create(spec, 8, 1, NULL, &straggler, NULL), expected);
}

TEST(every_malformed_term_is_named)
{
    static const struct {
        const char *spec, *text;
    } cases[] = {
        {"", "straggler SPEC is empty"},
        {"+", "straggler term '': a term is empty"},
        {"exp:1+", "straggler term '': a term is empty"},
        {"expo:1", "straggler term 'expo:1': unknown"},
        {"Exp:1", "straggler term 'Exp:1': unknown"},
        {"exp :1", "straggler term 'exp :1': unknown"},
        {"none:", "straggler term 'none:': 'none' takes 0 numbers"},
        {"none/chunk", "straggler term 'none/chunk': unknown"},
        {"exp", "straggler term 'exp': MEAN is missing"},
        {"exp:", "straggler term 'exp:': MEAN is missing"},
        {"exp:/chunk", "straggler term 'exp:/chunk': MEAN is missing"},
        {"exp:1,2", "straggler term 'exp:1,2': 'exp' takes 1 number"},
        {"exp:1,", "straggler term 'exp:1,': 'exp' takes 1 number"},
        {"exp:-1", "straggler term 'exp:-1': MEAN must be at least 0"},
        {"exp: 1", "straggler term 'exp: 1': MEAN ' 1' is not a number"},
        {"exp:1 ", "straggler term 'exp:1 ': MEAN '1 ' is not a number"},
        {"exp:1s", "straggler term 'exp:1s': MEAN '1s' is not a number"},
        {"exp:nan", "straggler term 'exp:nan': MEAN 'nan' is not a number"},
        {"exp:inf", "straggler term 'exp:inf': MEAN 'inf' is not a number"},
        {"exp:0x1", "straggler term 'exp:0x1': MEAN '0x1' is not a number"},
        {"exp:1e999", "straggler term 'exp:1e999': MEAN '1e999' is not a number"},
        {"exp:.", "straggler term 'exp:.': MEAN '.' is not a number"},
        {"exp:1/chunks", "straggler term 'exp:1/chunks': MEAN '1/chunks' is not a number"},
        {"shifted-exp:1", "straggler term 'shifted-exp:1': MEAN is missing"},
        {"shifted-exp:,1", "straggler term 'shifted-exp:,1': SHIFT is missing"},
        {"pareto:1,0", "straggler term 'pareto:1,0': SHAPE must be above 0"},
        {"pareto:1,2,3", "straggler term 'pareto:1,2,3': 'pareto' takes 2 numbers"},
        {"slow:2", "straggler term 'slow:2': FACTOR is missing"},
        {"slow:2,0.5", "straggler term 'slow:2,0.5': FACTOR must be at least 1"},
        {"slow:1.5,2", "straggler term 'slow:1.5,2': K must be a whole number"},
        {"slow:2,5/chunk", "straggler term 'slow:2,5/chunk': '/chunk' does not apply to 'slow'"},
        {"slow:2,5/run", "straggler term 'slow:2,5/run': '/run' does not apply to 'slow'"},
        {"slow:2,1-", "straggler term 'slow:2,1-': HIGH is missing"},
        {"slow:2,-1", "straggler term 'slow:2,-1': FACTOR must be at least 1"},
        {"slow:2,-2-3", "straggler term 'slow:2,-2-3': LOW must be at least 1"},
        {"slow:2,0.5-3", "straggler term 'slow:2,0.5-3': LOW must be at least 1"},
        {"slow:2,3-2", "straggler term 'slow:2,3-2': HIGH must be at least LOW"},
        {"slow:2,x-2", "straggler term 'slow:2,x-2': LOW 'x' is not a number"},
        {"slow:2,2-3-4", "straggler term 'slow:2,2-3-4': HIGH '3-4' is not a number"},
        {"slow:2,1e-", "straggler term 'slow:2,1e-': FACTOR '1e-' is not a number"},
        {"slow:2,2-3,4", "straggler term 'slow:2,2-3,4': 'slow' takes 2 numbers"},
        {"slow:1-2,3", "straggler term 'slow:1-2,3': K '1-2' is not a number"},
        {"markov:.1,.2,2-3", "straggler term 'markov:.1,.2,2-3': FACTOR '2-3' is not a number"},
        {"exp:1/run/run", "straggler term 'exp:1/run/run': MEAN '1/run' is not a number"},
        {"exp:1/run/chunk",
         "straggler term 'exp:1/run/chunk': '/chunk' and '/run' exclude each other"},
        {"exp:1/chunk/run",
         "straggler term 'exp:1/chunk/run': '/chunk' and '/run' exclude each other"},
        {"exp:/run", "straggler term 'exp:/run': MEAN is missing"},
        {"fail:.1/run", "straggler term 'fail:.1/run': '/run' does not apply to 'fail'"},
        {"dead:1/chunk", "straggler term 'dead:1/chunk': '/chunk' does not apply to 'dead'"},
        {"dead:x", "straggler term 'dead:x': K 'x' is not a number"},
        {"jitter:-0.1", "straggler term 'jitter:-0.1': SD must be at least 0"},
        {"weibull:1,0", "straggler term 'weibull:1,0': SHAPE must be above 0"},
        {"markov:1.5,0,2", "straggler term 'markov:1.5,0,2': P_SLOW must be at most 1"},
        {"markov:.1,-1,2", "straggler term 'markov:.1,-1,2': P_RECOVER must be at least 0"},
        {"markov:.1,.2", "straggler term 'markov:.1,.2': FACTOR is missing"},
        {"markov:.1,.2,inf", "straggler term 'markov:.1,.2,inf': FACTOR 'inf' is not a number"},
        {"markov:.6,.6,2", "': P_SLOW + P_RECOVER must be from 0.001 to 1"},
        {"markov:.6,.41,2", "': P_SLOW + P_RECOVER must be from 0.001 to 1"},
        {"markov:0,0,2", "': P_SLOW + P_RECOVER must be from 0.001 to 1"},
        {"rack:0,2", "straggler term 'rack:0,2': K must be at least 1"},
        {"rack:2", "straggler term 'rack:2': FACTOR is missing"},
        {"rack:2,2,", "straggler term 'rack:2,2,': P is missing"},
        {"rack:2,2,1.1", "straggler term 'rack:2,2,1.1': P must be at most 1"},
        {"rack:2,2,.1,1", "straggler term 'rack:2,2,.1,1': 'rack' takes 3 numbers"},
        {"rack:2,infinity", "straggler term 'rack:2,infinity': FACTOR 'infinity' is not a number"},
        {"rack:2,2/chunk", "straggler term 'rack:2,2/chunk': '/chunk' does not apply to 'rack'"},
        {"fail:2", "straggler term 'fail:2': RATE must be at most 1"},
        {"rejoin:1+rejoin:2", "straggler term 'rejoin:2': 'rejoin' stands twice"},
        {"trace:", "straggler term 'trace:': FILE is missing"},
        {"none+none+none+none+none+none+none+none+none+none+none+none+none+none+none+none+none",
         "more than 16 terms"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        expect_error(cases[i].spec, TARRY_ERROR_FORMAT, cases[i].text);
}

TEST(more_workers_than_there_are_is_an_argument_error)
{
    expect_error("slow:9,2", TARRY_ERROR_ARGUMENT,
                 "straggler term 'slow:9,2': K is more than the 8 workers there are");
    expect_error("rack:9,2", TARRY_ERROR_ARGUMENT, "straggler term 'rack:9,2': K is more");
    expect_error("dead:9", TARRY_ERROR_ARGUMENT, "straggler term 'dead:9': K is more");
    expect_error("dead:5+dead:4", TARRY_ERROR_ARGUMENT,
                 "straggler term 'dead:4': more dead workers than the 8 there are");
    tarry_straggler *straggler;
    assert_int_equal(tarry_straggler_create("none", 0, 1, NULL, &straggler, NULL),
                     TARRY_ERROR_ARGUMENT);
    assert_int_equal(tarry_straggler_create(NULL, 8, 1, NULL, &straggler, NULL),
                     TARRY_ERROR_ARGUMENT);
}

TEST(a_long_spec_is_cut_in_the_message)
{
    char spec[4096];
    memset(spec, 'x', sizeof(spec));
    spec[sizeof(spec) - 1] = '\0';
    expect_error(spec, TARRY_ERROR_FORMAT, "': unknown");
}

TEST(well_formed_terms_are_read)
{
    term terms[STRAGGLER_MAX_TERMS];
    size_t count = 0;
    const char *spec = "none+exp:1e-3/chunk+shifted-exp:0.5,2+pareto:1,1.5+slow:3,20+dead:0+"
                       "jitter:.1/chunk+weibull:2,3+markov:.25,.75,4+rack:2,inf+rack:8,5,.5+"
                       "fail:.5+rejoin:3+jitter:.1/run+slow:2,15e-1-1e1";
    assert_ok(spec_parse(spec, 8, NULL, terms, &count, NULL));
    assert_int_equal(count, 15);
    assert_int_equal(terms[0].kind, TERM_NONE);
    assert_true(terms[1].kind == TERM_EXPONENTIAL && terms[1].scale == 1e-3 &&
                terms[1].shift == 0 && terms[1].per_chunk && !terms[1].per_run);
    assert_true(terms[2].kind == TERM_EXPONENTIAL && terms[2].shift == 0.5 && terms[2].scale == 2 &&
                !terms[2].per_chunk && !terms[2].per_run);
    assert_true(terms[3].kind == TERM_PARETO && terms[3].scale == 1 && terms[3].shape == 1.5);
    assert_true(terms[4].kind == TERM_SLOW && terms[4].count == 3 && terms[4].factor == 20 &&
                terms[4].most_factor == 20);
    assert_true(terms[5].kind == TERM_DEAD && terms[5].count == 0);
    assert_true(terms[6].kind == TERM_JITTER && terms[6].deviation == 0.1 && terms[6].per_chunk);
    assert_true(terms[7].kind == TERM_WEIBULL && terms[7].scale == 2 && terms[7].shape == 3);
    assert_true(terms[8].kind == TERM_MARKOV && terms[8].probability == 0.25 &&
                terms[8].recovery == 0.75 && terms[8].factor == 4);
    assert_true(terms[9].kind == TERM_RACK && terms[9].count == 2 && terms[9].factor == INFINITY &&
                terms[9].probability == 0.05);
    assert_true(terms[10].kind == TERM_RACK && terms[10].count == 8 && terms[10].factor == 5 &&
                terms[10].probability == 0.5);
    assert_true(terms[11].kind == TERM_FAIL && terms[11].probability == 0.5);
    assert_true(terms[12].kind == TERM_REJOIN && terms[12].scale == 3);
    assert_true(terms[13].kind == TERM_JITTER && terms[13].per_run && !terms[13].per_chunk);
    assert_true(terms[14].kind == TERM_SLOW && terms[14].count == 2 && terms[14].factor == 1.5 &&
                terms[14].most_factor == 10);
}
