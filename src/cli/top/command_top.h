/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_TOP_H
#define CLI_COMMAND_TOP_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/wire/status.h"

/* What is known of a run that is looked at: what its server told last, and how fast rounds go. */

enum { TOP_RUN_STEPS = 9 };

typedef struct top_run {
    bool told; /* all below is known */
    status_run status;
    status_worker *worker; /* status.workers of them, by id until top_run_sort */
    struct {
        uint64_t time_ns, done;
    } steps[TOP_RUN_STEPS]; /* when more rounds were done than before, and how many; the last ones,
                               in order */
    uint32_t step_count;
    uint64_t now_ns; /* when it was told last */
} top_run;           /* zeroed at first */

/* Takes a document of `length` bytes that was told at now_ns. Errors: FORMAT, with a diagnostic (it
 * is not a status of STATUS_VERSION), NO_MEMORY; nothing changes then. */
int top_run_read(top_run *run, const char *text, size_t length, uint64_t now_ns,
                 tarry_diagnostic *diagnostic);
/* Nothing is told for a while: rounds that are done meanwhile say nothing of how fast they go. */
void top_run_pause(top_run *run);

/* Rounds per second, over the last ones since workers were waited for; less if the next is overdue.
 * NAN: not known. */
double top_run_rate(const top_run *run);
/* Sorts the workers: those that the run does without first, then by id. */
void top_run_sort(top_run *run);

void top_run_free(top_run *run);

/* A run as a picture of text: what is known of it in, lines out. */

typedef struct top_screen {
    unsigned rows; /* at most; 0: as many as it takes */
    unsigned columns;
} top_screen;

typedef struct top_link {
    const char *address;
    const char *trouble; /* why there is no connection; NULL: there is one, or a first attempt */
    bool over;           /* the run is */
} top_link;

/* Takes the lines one after the other, each without its end: printable ASCII. */
typedef void top_emit(void *user, const char *line);

/* Emits the picture, with the workers in the order of the run. */
void top_view_draw(const top_run *run, const top_link *link, const top_screen *screen,
                   top_emit *emit, void *user);

#endif
