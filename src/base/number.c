/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

locale_t number_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static size_t take_digits(const char **at, const char *end)
{
    const char *start = *at;
    while (*at < end && **at >= '0' && **at <= '9')
        (*at)++;
    return (size_t)(*at - start);
}

static void take_sign(const char **at, const char *end)
{
    if (*at < end && (**at == '+' || **at == '-'))
        (*at)++;
}

/* strtod takes more than decimal numbers: spaces, hexadecimal, names;
 * and less than what follows may say. */
static bool is_decimal(const char *at, const char *end)
{
    take_sign(&at, end);
    size_t digits = take_digits(&at, end);
    if (at < end && *at == '.') {
        at++;
        digits += take_digits(&at, end);
    }
    if (digits == 0)
        return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        take_sign(&at, end);
        if (take_digits(&at, end) == 0)
            return false;
    }
    return at == end;
}

static bool names_no_finite_number(const char *text, size_t length)
{
    if (length > 0 && (*text == '+' || *text == '-')) {
        text++;
        length--;
    }
    return (length == 3 && strncasecmp(text, "nan", 3) == 0) ||
           (length == 3 && strncasecmp(text, "inf", 3) == 0) ||
           (length == 8 && strncasecmp(text, "infinity", 8) == 0);
}

number_status number_parse(const char *text, size_t length, locale_t c_locale, double *value)
{
    if (!is_decimal(text, text + length))
        return names_no_finite_number(text, length) ? NUMBER_NOT_FINITE : NUMBER_MALFORMED;
    double number = strtod_l(text, NULL, c_locale);
    if (isinf(number))
        return NUMBER_TOO_LARGE;
    *value = number;
    return NUMBER_OK;
}

number_status number_parse_float(const char *text, size_t length, locale_t c_locale, float *value)
{
    double number;
    number_status status = number_parse(text, length, c_locale, &number);
    if (status != NUMBER_OK)
        return status;
    if (isinf((float)number))
        return NUMBER_TOO_LARGE;
    *value = (float)number;
    return NUMBER_OK;
}

bool number_read(const char *text, size_t length, double *value)
{
    char copy[64]; /* what follows the text may be part of a number */
    locale_t c_locale = number_locale();
    if (c_locale == (locale_t)0)
        return false;
    bool good = length < sizeof(copy);
    if (good) {
        memcpy(copy, text, length);
        copy[length] = '\0';
        good = number_parse(copy, length, c_locale, value) == NUMBER_OK;
    }
    freelocale(c_locale);
    return good;
}

const char *number_problem(number_status status)
{
    switch (status) {
    case NUMBER_OK:
        break;
    case NUMBER_MALFORMED:
        return "is not a number";
    case NUMBER_NOT_FINITE:
        return "is not finite";
    case NUMBER_TOO_LARGE:
        return "does not fit a float";
    }
    return "is a number";
}
