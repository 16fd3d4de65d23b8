/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

enum {
    EXACT_DIGITS = 15,  /* integers of so many digits are doubles */
    EXACT_EXPONENT = 22 /* and so are the powers of ten up to this one */
};

typedef struct decimal {
    uint64_t digits; /* without the point; meaningful up to EXACT_DIGITS digits */
    size_t significant;
    long exponent; /* of ten */
    bool negative;
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes digits from *at on and says how many there were. */
static size_t take_digits(decimal *number, const char **at, const char *end)
{
    const char *start = *at;
    for (; *at < end && is_digit(**at); (*at)++) {
        if (number->significant > 0 || **at != '0')
            number->significant++;
        if (number->significant <= EXACT_DIGITS)
            number->digits = number->digits * 10 + (uint64_t)(**at - '0');
    }
    return (size_t)(*at - start);
}

/* Exponents are cut where the number is zero or infinite anyhow; only strtod sees those. */
static bool take_exponent(decimal *number, const char **at, const char *end)
{
    const char *c = *at + 1;
    bool negative = c < end && *c == '-';
    if (c < end && (*c == '+' || *c == '-'))
        c++;
    if (c == end)
        return false;
    long exponent = 0;
    for (; c < end && is_digit(*c); c++)
        exponent = exponent < 1000000 ? exponent * 10 + (*c - '0') : exponent;
    number->exponent += negative ? -exponent : exponent;
    *at = c;
    return true;
}

static bool scan(const char *text, const char *end, decimal *number)
{
    const char *at = text;
    *number = (decimal){.negative = at < end && *at == '-'};
    if (at < end && (*at == '+' || *at == '-'))
        at++;
    size_t count = take_digits(number, &at, end);
    if (at < end && *at == '.') {
        at++;
        size_t behind = take_digits(number, &at, end);
        count += behind;
        number->exponent = -(long)behind;
    }
    if (count == 0)
        return false;
    if (at < end && (*at == 'e' || *at == 'E') && !take_exponent(number, &at, end))
        return false;
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

/* Short numbers are a product or quotient of two exact doubles, hence rounded once (W. Clinger, How
 * to read floating point numbers accurately, PLDI 1990); the C library reads the others. */
number_status number_parse(const char *text, size_t length, locale_t c_locale, float *value)
{
    static const double power[EXACT_EXPONENT + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    decimal number;
    if (!scan(text, text + length, &number))
        return names_no_finite_number(text, length) ? NUMBER_NOT_FINITE : NUMBER_MALFORMED;
    double result;
    if (number.significant <= EXACT_DIGITS && number.exponent >= -EXACT_EXPONENT &&
        number.exponent <= EXACT_EXPONENT) {
        result = (double)number.digits;
        if (number.exponent < 0)
            result /= power[-number.exponent];
        else
            result *= power[number.exponent];
        result = number.negative ? -result : result;
    } else {
        result = strtod_l(text, NULL, c_locale);
    }
    if (isinf((float)result))
        return NUMBER_TOO_LARGE;
    *value = (float)result;
    return NUMBER_OK;
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
