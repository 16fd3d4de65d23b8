/* SPDX-License-Identifier: Apache-2.0 */
/* Decimal numbers in text files, read the same under every locale. */
#ifndef LEARN_NUMBER_H
#define LEARN_NUMBER_H

#include <locale.h>
#include <stddef.h>

typedef enum number_status {
    NUMBER_OK,
    NUMBER_MALFORMED,  /* not [+-] digits [. digits] [e [+-] digits] */
    NUMBER_NOT_FINITE, /* nan, inf or infinity, in any case */
    NUMBER_TOO_LARGE,  /* its float is infinite */
} number_status;

/*
 * The float nearest to the double nearest to the number that text[0..length-1] is. *value is set on
 * NUMBER_OK only. text[length] must be readable and no part of a number; `c_locale` is the locale
 * "C".
 */
number_status number_parse(const char *text, size_t length, locale_t c_locale, float *value);

/* Says what is wrong, to follow the number in a sentence: "is not a number". */
const char *number_problem(number_status status);

#endif
