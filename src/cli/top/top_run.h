/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a run that is looked at: what its server told last, and how fast rounds go. */
#ifndef CLI_TOP_RUN_H
#define CLI_TOP_RUN_H

#include "protocol/wire/wire_status.h"

enum { TOP_RUN_STEPS = 9 };

typedef enum top_sort {
    TOP_SORT_TROUBLE, /* those that the run does without first, then by id */
    TOP_SORT_WORKER,  /* by id */
    TOP_SORT_PACE,    /* the slowest first, those of unknown pace last */
    TOP_SORTS,
} top_sort;

typedef struct top_run {
    bool told; /* all below is known */
    wire_status status;
    wire_worker_status *worker; /* status.workers entries */
    uint32_t *order;            /* the ids of them all; see top_run_sort */
    uint32_t room;
    struct {
        uint64_t time_ns, done;
    } steps[TOP_RUN_STEPS]; /* when more rounds were done than before, and how many; the last ones,
                               in order */
    uint32_t step_count;
    uint64_t now_ns; /* when it was told last */
} top_run;           /* zeroed at first */

/* Copies what was told at now_ns. Errors: NO_MEMORY; nothing changes then. */
int top_run_take(top_run *run, const wire_status *status, const wire_worker_status *worker,
                 uint64_t now_ns);
/* Nothing is told for a while: rounds that are done meanwhile say nothing of how fast they go. */
void top_run_pause(top_run *run);

/* Rounds per second, over the last ones since workers were waited for; less if the next is overdue.
 * NAN: not known. */
double top_run_rate(const top_run *run);
/* Sets `order`. */
void top_run_sort(top_run *run, top_sort sort);

void top_run_free(top_run *run);

#endif
