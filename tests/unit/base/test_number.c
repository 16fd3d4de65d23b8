/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "base/random.h"
#include "seed.h"
#include "test.h"

static locale_t c_locale;

static int make_locale(void **state)
{
    c_locale = number_locale();
    return c_locale == (locale_t)0;
}

static number_status parse(const char *text, float *value)
{
    return number_parse_float(text, strlen(text), c_locale, value);
}

TEST(written_numbers_are_read)
{
    const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0", 0},
        {"+1", 1},
        {"-12.5", -12.5},
        {".5", 0.5},
        {"5.", 5},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"25e-2", 0.25},
        {"007", 7},
        {"0.000000000000000000000000001e27", 1},
        {"0.00000000000000000000000000000000000000000001e44", 1},
        {"100000000000000000000000000000000e-32", 1},
        {"3.4028234e38", FLT_MAX},
        {"0e999999999999999999", 0},
        {"1e-999999999999999999", 0},
        {"12345678901234567890", 12345678901234567890.0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        float value = -1;
        assert_int_equal(parse(cases[i].text, &value), NUMBER_OK);
        assert_true(value == (float)cases[i].value);
    }
    float zero = 1;
    assert_int_equal(parse("-0", &zero), NUMBER_OK);
    assert_true(zero == 0 && signbit(zero));
}

TEST(what_is_no_number_is_told_apart)
{
    const struct {
        const char *text;
        number_status status;
    } cases[] = {
        {"", NUMBER_MALFORMED},
        {"+", NUMBER_MALFORMED},
        {".", NUMBER_MALFORMED},
        {"e5", NUMBER_MALFORMED},
        {"1e", NUMBER_MALFORMED},
        {"1e+", NUMBER_MALFORMED},
        {"1.2.3", NUMBER_MALFORMED},
        {"1,5", NUMBER_MALFORMED},
        {"0x10", NUMBER_MALFORMED},
        {" 1", NUMBER_MALFORMED},
        {"1 ", NUMBER_MALFORMED},
        {"--1", NUMBER_MALFORMED},
        {"nano", NUMBER_MALFORMED},
        {"nan", NUMBER_NOT_FINITE},
        {"-NaN", NUMBER_NOT_FINITE},
        {"inf", NUMBER_NOT_FINITE},
        {"+Infinity", NUMBER_NOT_FINITE},
        {"1e39", NUMBER_TOO_LARGE},
        {"-1e400", NUMBER_TOO_LARGE},
        {"3.5e38", NUMBER_TOO_LARGE},
        {"1e99999999999999999999", NUMBER_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        float value = -1;
        assert_int_equal(parse(cases[i].text, &value), cases[i].status);
        assert_true(value == -1);
    }
    assert_string_equal(number_problem(NUMBER_MALFORMED), "is not a number");
    assert_string_equal(number_problem(NUMBER_NOT_FINITE), "is not finite");
    assert_string_equal(number_problem(NUMBER_TOO_LARGE), "does not fit a float");
}

/* The C library is the oracle; the test does not set a locale. */
TEST(numbers_are_read_as_the_c_library_reads_them)
{
    random_stream stream = random_stream_make(test_seed("numbers", 1), RANDOM_TEST, 0, 0);
    for (int i = 0; i < 200000; i++) {
        char text[64];
        int digits = 1 + (int)random_below(&stream, 20);
        double magnitude = pow(10, (double)random_below(&stream, 70) - 35);
        snprintf(text, sizeof(text), random_below(&stream, 2) ? "%.*g" : "%.*e", digits,
                 random_normal(&stream) * magnitude);
        float value;
        assert_int_equal(parse(text, &value), NUMBER_OK);
        assert_true(value == (float)strtod(text, NULL));
    }
}

TEST(only_the_given_length_is_read)
{
    float value;
    assert_int_equal(number_parse_float("12:5", 2, c_locale, &value), NUMBER_OK);
    assert_true(value == 12);
    assert_int_equal(number_parse_float("1234567890123456789:5", 19, c_locale, &value), NUMBER_OK);
    assert_true(value == 1234567890123456789.0F);
}

TEST_GROUP(make_locale, NULL)
