/* SPDX-License-Identifier: Apache-2.0 */
/* What the JSON reports of the commands share. */
#ifndef CLI_REPORT_JSON_H
#define CLI_REPORT_JSON_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/*
 * `text` as a JSON string, null for NULL. JSON takes UTF-8 alone, names of files can be any bytes:
 * where text is not UTF-8, '?' stands for each byte beyond ASCII. NULL if there is no memory.
 */
json_t *json_text(const char *text);

/* A fingerprint as 16 hexadecimal digits, null for 0. */
json_t *json_fingerprint(uint64_t fingerprint);

/* Appends item, whose reference is taken, to list; NULL if either is, or if there is no memory. */
json_t *json_append(json_t *list, json_t *item);

/* Writes a report, whose reference is taken, as text with a line end; errors of the stream are its
 * own to tell. Errors: NO_MEMORY, also if report is NULL. */
int json_write(json_t *report, FILE *stream);

#endif
