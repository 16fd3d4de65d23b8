/* SPDX-License-Identifier: Apache-2.0 */
/* Decimal numbers in text, read the same under every locale. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum number_status {
    NUMBER_OK,
    NUMBER_MALFORMED,  /* not [+-] digits [. digits] [e [+-] digits] */
    NUMBER_NOT_FINITE, /* nan, inf or infinity, in any case */
    NUMBER_TOO_LARGE,  /* its float is infinite */
} number_status;

/* A fresh locale "C", to be freed with freelocale; (locale_t)0 if there is no memory. */
locale_t number_locale(void);

/*
 * The double nearest to the number that text[0..length-1] is; or the float nearest to that double.
 * *value is set on NUMBER_OK only. text[length] must be readable and no part of a number;
 * `c_locale` is the locale "C".
 */
number_status number_parse(const char *text, size_t length, locale_t c_locale, double *value);
number_status number_parse_float(const char *text, size_t length, locale_t c_locale, float *value);

/* Reads the whole of text[0..length-1], at most 63 bytes of which nothing behind is looked at, as a
 * finite number. */
bool number_read(const char *text, size_t length, double *value);

/* Says what is wrong, to follow the number in a sentence: "is not a number". */
const char *number_problem(number_status status);

#endif
