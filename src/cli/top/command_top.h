/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMAND_TOP_H
#define CLI_COMMAND_TOP_H

#include "protocol/wire/status.h"

/* What is known of a run that is looked at: what its server told last, and how fast rounds go. */

enum { TOP_RUN_STEPS = 9 };

typedef enum top_sort {
    TOP_SORT_TROUBLE, /* those that the run does without first, then by id */
    TOP_SORT_WORKER,  /* by id */
    TOP_SORT_PACE,    /* the slowest first, those of unknown pace last */
    TOP_SORTS,
} top_sort;

typedef struct top_run {
    bool told; /* all below is known */
    status_run status;
    status_worker *worker; /* status.workers of them; see top_run_sort */
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
/* Sorts the workers. */
void top_run_sort(top_run *run, top_sort sort);

void top_run_free(top_run *run);

#endif
