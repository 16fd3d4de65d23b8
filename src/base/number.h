/* SPDX-License-Identifier: Apache-2.0 */
/* Decimal numbers in text, read the same under every locale. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

typedef enum number_status {
    NUMBER_OK,
    NUMBER_MALFORMED,  /* not [+-] digits [. digits] [e [+-] digits] */
    NUMBER_NOT_FINITE, /* nan, inf or infinity, in any case */
    NUMBER_TOO_LARGE,  /* its float is infinite */
} number_status;

/* A fresh locale "C", to be freed with freelocale; (locale_t)0 if there is no memory. */
locale_t number_locale(void);

/*
 * The float nearest to the double nearest to the number that text[0..length-1] is. *value is set on
 * NUMBER_OK only. text[length] must be readable and no part of a number; `c_locale` is the locale
 * "C".
 */
number_status number_parse_float(const char *text, size_t length, locale_t c_locale, float *value);

/* Reads the whole of text[0..length-1], at most 63 bytes of which nothing behind is looked at, as a
 * finite number. */
bool number_read(const char *text, size_t length, double *value);

/* Says what is wrong, to follow the number in a sentence: "is not a number". */
const char *number_problem(number_status status);

/*
 * Strict readers of numbers: the whole text must be one number of the stated range. Errors: FORMAT,
 * with a diagnostic that quotes the text, and NO_MEMORY; *value is then untouched.
 */

/* A whole number least..most: digits, with an exponent if need be (1e6). */
int parse_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value,
                tarry_diagnostic *diagnostic);
/* A finite decimal number low..high; low itself is refused if `open`. */
int parse_real(const char *text, double low, double high, bool open, double *value,
               tarry_diagnostic *diagnostic);

#endif
