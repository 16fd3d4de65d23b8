/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people and reports read them. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBER_TEXT_SIZE 32

/* "1.23 ms", "4.5 s", "2 min 5 s": three digits and a fitting unit. */
void seconds_text(double seconds, char text[NUMBER_TEXT_SIZE]);
/* "512 B", "1.23 MB": three digits, units of 1000. */
void bytes_text(double bytes, char text[NUMBER_TEXT_SIZE]);
/* 1234567 as "1,234,567". */
void whole_text(uint64_t number, char text[NUMBER_TEXT_SIZE]);

/* null for a number that is not finite. */
json_t *number_json(double number);
/* null for one that is not above 0 either. */
json_t *positive_json(double number);

#endif
