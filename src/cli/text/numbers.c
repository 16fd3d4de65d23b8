/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* number with three significant digits, without an exponent. */
static void three_digits(double number, const char *unit, char text[NUMBER_TEXT_SIZE])
{
    int decimals = number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
    snprintf(text, NUMBER_TEXT_SIZE, "%.*f %s", decimals, number, unit);
}

void seconds_text(double seconds, char text[NUMBER_TEXT_SIZE])
{
    if (!isfinite(seconds))
        snprintf(text, NUMBER_TEXT_SIZE, "-");
    else if (seconds == 0)
        snprintf(text, NUMBER_TEXT_SIZE, "0 s");
    else if (seconds < 0.9995e-3)
        three_digits(seconds * 1e6, "us", text);
    else if (seconds < 0.9995)
        three_digits(seconds * 1e3, "ms", text);
    else if (seconds < 119.5)
        three_digits(seconds, "s", text);
    else if (seconds < 7170)
        snprintf(text, NUMBER_TEXT_SIZE, "%.0f min %02.0f s", floor(round(seconds) / 60),
                 fmod(round(seconds), 60));
    else
        snprintf(text, NUMBER_TEXT_SIZE, "%.0f h %02.0f min", floor(round(seconds / 60) / 60),
                 fmod(round(seconds / 60), 60));
}

void bytes_text(double bytes, char text[NUMBER_TEXT_SIZE])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(text, NUMBER_TEXT_SIZE, "%.0f B", bytes);
    else
        three_digits(bytes, units[unit], text);
}

void whole_text(uint64_t number, char text[NUMBER_TEXT_SIZE])
{
    char digits[NUMBER_TEXT_SIZE];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    for (int i = 0; i < length; i++) {
        *text++ = digits[i];
        int left = length - 1 - i;
        if (left > 0 && left % 3 == 0)
            *text++ = ',';
    }
    *text = '\0';
}

json_t *number_json(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

json_t *positive_json(double number)
{
    return number > 0 ? number_json(number) : json_null();
}
