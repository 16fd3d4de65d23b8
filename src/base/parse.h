/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict readers of numbers: the whole text must be one number of the stated range. Errors: FORMAT,
 * with a diagnostic that quotes the text, and NO_MEMORY; *value is then untouched.
 */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/error.h>

/* A whole number least..most: digits, with an exponent if need be (1e6). */
int parse_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value,
                tarry_diagnostic *diagnostic);
/* An integer least..most, with a sign if need be. */
int parse_integer(const char *text, int least, int most, int *value, tarry_diagnostic *diagnostic);
/* A finite decimal number low..high; low itself is refused if `open`. */
int parse_real(const char *text, double low, double high, bool open, double *value,
               tarry_diagnostic *diagnostic);

#endif
