/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/text/numbers.h"

static void seconds_have_a_fitting_unit(void **state)
{
    (void)state;
    const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 s"},
        {1.234e-6, "1.23 us"},
        {999.4e-6, "999 us"},
        {999.6e-6, "1.00 ms"},
        {0.0499, "49.9 ms"},
        {0.99951, "1.00 s"},
        {61.24, "61.2 s"},
        {119.4, "119 s"},
        {119.6, "2 min 00 s"},
        {3725, "62 min 05 s"},
        {7259.9, "2 h 01 min"},
        {NAN, "-"},
        {INFINITY, "-"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[NUMBER_TEXT_SIZE];
        seconds_text(cases[i].seconds, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void bytes_and_whole_numbers(void **state)
{
    (void)state;
    char text[NUMBER_TEXT_SIZE];
    bytes_text(0, text);
    assert_string_equal(text, "0 B");
    bytes_text(999, text);
    assert_string_equal(text, "999 B");
    bytes_text(999.6, text);
    assert_string_equal(text, "1.00 kB");
    bytes_text(12.34e6, text);
    assert_string_equal(text, "12.3 MB");
    bytes_text(4e21, text);
    assert_string_equal(text, "4000 EB");
    whole_text(0, text);
    assert_string_equal(text, "0");
    whole_text(999, text);
    assert_string_equal(text, "999");
    whole_text(1000, text);
    assert_string_equal(text, "1,000");
    whole_text(UINT64_MAX, text);
    assert_string_equal(text, "18,446,744,073,709,551,615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_have_a_fitting_unit),
        cmocka_unit_test(bytes_and_whole_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
