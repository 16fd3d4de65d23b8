/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/parse.h"

static void whole_numbers(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},         {"007", 7},      {"18446744073709551615", UINT64_MAX},
        {"1e6", 1000000}, {"25E3", 25000}, {"1e19", UINT64_C(10000000000000000000)},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t value = 1;
        assert_int_equal(parse_whole(good[i].text, 0, UINT64_MAX, &value, NULL), TARRY_OK);
        assert_true(value == good[i].value);
    }
    const char *const bad[] = {
        "",   " 1",  "1 ",   "+1",   "-1",    "1.0",   "1e",   "e5",
        "1x", "0x1", "1e-1", "1e+1", "1e1e1", "1,000", "1e20", "18446744073709551616"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t value = 1234;
        tarry_diagnostic why = {""};
        assert_int_equal(parse_whole(bad[i], 0, UINT64_MAX, &value, &why), TARRY_ERROR_FORMAT);
        assert_true(value == 1234);
        assert_non_null(strstr(why.text, bad[i]));
    }
}

static void whole_numbers_have_a_range(void **state)
{
    (void)state;
    uint64_t value = 0;
    tarry_diagnostic why;
    assert_int_equal(parse_whole("3", 3, 5, &value, &why), TARRY_OK);
    assert_int_equal(parse_whole("5", 3, 5, &value, &why), TARRY_OK);
    assert_int_equal(parse_whole("6", 3, 5, &value, &why), TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, "6 is not in the range 3 to 5");
    assert_int_equal(parse_whole("2", 3, UINT64_MAX, &value, &why), TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, "2 is not at least 3");
    assert_true(value == 5);
}

static void integers(void **state)
{
    (void)state;
    int value = 0;
    assert_int_equal(parse_integer("-12", -12, 12, &value, NULL), TARRY_OK);
    assert_int_equal(value, -12);
    assert_int_equal(parse_integer("+7", -12, 12, &value, NULL), TARRY_OK);
    assert_int_equal(value, 7);
    const char *const bad[] = {"", "-", "+-1", "1.5", "13", "-13", "99999999999999999999", "1e1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(parse_integer(bad[i], -12, 12, &value, NULL), TARRY_ERROR_FORMAT);
    assert_int_equal(value, 7);
}

static void real_numbers(void **state)
{
    (void)state;
    double value = 0;
    assert_int_equal(parse_real("2.5e-3", 0, 1, true, &value, NULL), TARRY_OK);
    assert_true(value == 2.5e-3);
    assert_int_equal(parse_real("0", 0, 1, false, &value, NULL), TARRY_OK);
    assert_int_equal(parse_real("1", 0, 1, true, &value, NULL), TARRY_OK);
    const char *const bad[] = {"",  " 1",   "1 ",  "nan",   "inf", "0x1",
                               "0", "-0.1", "1.1", "1e999", "1..2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(parse_real(bad[i], 0, 1, true, &value, NULL), TARRY_ERROR_FORMAT);
    assert_true(value == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(whole_numbers_have_a_range),
        cmocka_unit_test(integers),
        cmocka_unit_test(real_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
