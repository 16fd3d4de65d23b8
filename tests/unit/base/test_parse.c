/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"
#include "test.h"

TEST(whole_numbers)
{
    const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},         {"007", 7},      {"18446744073709551615", UINT64_MAX},
        {"1e6", 1000000}, {"25E3", 25000}, {"1e19", UINT64_C(10000000000000000000)},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t value = 1;
        assert_ok(parse_whole(good[i].text, 0, UINT64_MAX, &value, NULL));
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
        assert_says(why.text, bad[i]);
    }
}

TEST(whole_numbers_have_a_range)
{
    uint64_t value = 0;
    tarry_diagnostic why;
    assert_ok(parse_whole("3", 3, 5, &value, &why));
    assert_ok(parse_whole("5", 3, 5, &value, &why));
    assert_int_equal(parse_whole("6", 3, 5, &value, &why), TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, "6 is not in the range 3 to 5");
    assert_int_equal(parse_whole("2", 3, UINT64_MAX, &value, &why), TARRY_ERROR_FORMAT);
    assert_string_equal(why.text, "2 is not at least 3");
    assert_true(value == 5);
}

TEST(real_numbers)
{
    double value = 0;
    assert_ok(parse_real("2.5e-3", 0, 1, true, &value, NULL));
    assert_true(value == 2.5e-3);
    assert_ok(parse_real("0", 0, 1, false, &value, NULL));
    assert_ok(parse_real("1", 0, 1, true, &value, NULL));
    const char *const bad[] = {"",  " 1",   "1 ",  "nan",   "inf", "0x1",
                               "0", "-0.1", "1.1", "1e999", "1..2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(parse_real(bad[i], 0, 1, true, &value, NULL), TARRY_ERROR_FORMAT);
    assert_true(value == 1);
}
