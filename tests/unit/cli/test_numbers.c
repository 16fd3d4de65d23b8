/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/text/numbers.h"
#include "test.h"

TEST(seconds_have_a_fitting_unit)
{
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

TEST(bytes_and_whole_numbers)
{
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
