/* SPDX-License-Identifier: Apache-2.0 */
/* --log: what happens, one JSON object per line, in docs/reports.md; each is written at once. */
#ifndef CLI_EVENT_LOG_H
#define CLI_EVENT_LOG_H

#include <jansson.h>

#include <tarry/tcp.h>

typedef struct event_log event_log;

/* Opens a file to write behind what is in it, or stderr for "-". The caller owns *out. Errors:
 * FILE, NO_MEMORY. */
int event_log_open(const char *path, event_log **out, tarry_diagnostic *diagnostic);
/* False where something could not be written. NULL is allowed, and well. */
bool event_log_close(event_log *log);

/*
 * Writes a line: the time, the event's name and `fields`, whose reference is taken; those that are
 * null are left out. Any thread. A NULL log writes nothing; a line for which there is no memory is
 * left out.
 */
void event_log_add(event_log *log, const char *event, json_t *fields);
/* The same of what a network runtime noticed. */
void event_log_notice(event_log *log, const tarry_tcp_notice *notice);

/* How a round whose sum everyone gets came by it; else null. NULL if there is no memory. */
json_t *sum_json(const tarry_round_result *result);

/* "gone", "silent", "late", "failed" or "differs". */
const char *absence_name(tarry_absence absence);

#endif
