/* SPDX-License-Identifier: Apache-2.0 */
/* What the JSON reports of the commands share. */
#ifndef CLI_REPORT_JSON_H
#define CLI_REPORT_JSON_H

#include <jansson.h>
#include <stdbool.h>
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

/*
 * The same of a report in parts, for lists that are too long for the memory: members of the
 * outermost object, without its braces and the comma behind the last; and an item of a list that is
 * such a member. Together they are laid out as json_write would.
 */
int json_write_members(json_t *members, FILE *stream);
int json_write_item(json_t *item, bool first, FILE *stream);

#endif
