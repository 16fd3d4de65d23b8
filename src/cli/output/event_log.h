/* SPDX-License-Identifier: Apache-2.0 */
/* --log: what happens, one JSON object per line, in docs/reports.md; each is written at once. */
#ifndef CLI_EVENT_LOG_H
#define CLI_EVENT_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

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

/* How far a run is: one line redrawn in place on a terminal, otherwise a line now and then. */

typedef struct progress {
    bool quiet;
    bool terminal;
    bool drawn;       /* a line stands on the terminal */
    const char *unit; /* what is counted: "round" */
    uint64_t total;
    uint64_t before;  /* done then */
    double begin;     /* by clock_seconds, later by the seconds that do not count */
    double last;      /* when a line was drawn last, by clock_seconds */
    unsigned percent; /* tenths of the run that have been told, in percent */
} progress;

/* `done` of the `total` units are done already. `what` is printed where stderr is no terminal;
 * `unit` is borrowed. */
void progress_begin(progress *line, uint64_t done, uint64_t total, const char *unit, bool quiet,
                    const char *what);
/* So many seconds since the last update say nothing of how fast it goes. */
void progress_pass_over(progress *line, double seconds);
/* `done` units of the total are done; `detail`, which may be empty, stands at the line's end. */
void progress_update(progress *line, uint64_t done, const char *detail);
/* Removes the line from the terminal, so that other text may follow. */
void progress_end(progress *line);

/* The same for a line of another kind: draws it in place of the last one, cut at the width of the
 * terminal that standard error is (80 columns if it does not say); or removes it. */
void terminal_line_draw(const char *text);
void terminal_line_remove(void);

#endif
