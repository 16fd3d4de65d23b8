/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people and reports read them. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tarry/error.h>

#include "base/record.h"

#define NUMBER_TEXT_SIZE 32

/* "1.23 ms", "4.5 s", "2 min 5 s": three digits and a fitting unit. */
void seconds_text(double seconds, char text[NUMBER_TEXT_SIZE]);
/* "512 B", "1.23 MB": three digits, units of 1000. */
void bytes_text(double bytes, char text[NUMBER_TEXT_SIZE]);
/* 1234567 as "1,234,567". */
void whole_text(uint64_t number, char text[NUMBER_TEXT_SIZE]);

/* null for a number that is not finite. */
json_t *number_json(double number);

/* What the JSON reports of the commands share. */

/*
 * `text` as a JSON string, null for NULL. JSON takes UTF-8 alone, names of files can be any bytes:
 * where text is not UTF-8, '?' stands for each byte beyond ASCII. NULL if there is no memory.
 */
json_t *json_text(const char *text);

/* A fingerprint as 16 hexadecimal digits, null for 0. */
json_t *json_fingerprint(uint64_t fingerprint);

/*
 * Reads from an object what record_put_object writes; null of a real number is NaN. Members that
 * the table does not have are left alone. Errors: FORMAT, with a diagnostic that names the member
 * that is missing or wrong behind the prefix: "plan.".
 */
int record_read(const record_member *table, const json_t *object, const char *prefix, void *record,
                tarry_diagnostic *diagnostic);

/* Appends item, whose reference is taken, to list; NULL if either is, or if there is no memory. */
json_t *json_append(json_t *list, json_t *item);

/* Writes a report, whose reference is taken, as text with a line end; errors of the stream are its
 * own to tell. Errors: NO_MEMORY, also if report is NULL. */
int json_write(json_t *report, FILE *stream);

#endif
