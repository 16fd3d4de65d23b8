/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/diagnostic.h"

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

/* The double nearest to the number that text[0..length-1] is, as number_parse_float. */
static number_status number_parse(const char *text, size_t length, locale_t c_locale, double *value)
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

/* ---- numbers of a stated range ---- */

/* Digits up to the text's end or an 'e'; false if there is none or the number overflows. */
static bool read_digits(const char **text, uint64_t *value)
{
    if (!isdigit((unsigned char)**text))
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(*text, &end, 10);
    *text = end;
    *value = number;
    return errno == 0;
}

static int out_of_range(const char *text, uint64_t least, uint64_t most,
                        tarry_diagnostic *diagnostic)
{
    if (most == UINT64_MAX)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s is not at least %" PRIu64, text, least);
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "%s is not in the range %" PRIu64 " to %" PRIu64, text, least, most);
}

int parse_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value,
                tarry_diagnostic *diagnostic)
{
    const char *rest = text;
    uint64_t number = 0, exponent = 0;
    bool fits = read_digits(&rest, &number);
    bool well_formed = rest != text;
    if (well_formed && (*rest == 'e' || *rest == 'E')) {
        const char *digits = ++rest;
        fits = read_digits(&rest, &exponent) && fits;
        well_formed = rest != digits;
    }
    if (!well_formed || *rest != '\0')
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not a whole number", text);
    for (; fits && number != 0 && exponent > 0; exponent--)
        fits = !__builtin_mul_overflow(number, 10, &number);
    if (!fits || number < least || number > most)
        return out_of_range(text, least, most, diagnostic);
    *value = number;
    return TARRY_OK;
}

int parse_real(const char *text, double low, double high, bool open, double *value,
               tarry_diagnostic *diagnostic)
{
    locale_t c_locale = number_locale();
    if (c_locale == (locale_t)0)
        return diagnose_no_memory(diagnostic, text);
    double number = 0.0;
    number_status status = number_parse(text, strlen(text), c_locale, &number);
    freelocale(c_locale);
    if (status != NUMBER_OK)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' %s", text, number_problem(status));
    if (number <= high && (open ? number > low : number >= low)) {
        *value = number;
        return TARRY_OK;
    }
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s is not in the range %g%s to %g", text, low,
                    open ? " (excluded)" : "", high);
}
