/* SPDX-License-Identifier: Apache-2.0 */
/* How far a run is: one line redrawn in place on a terminal, otherwise a line now and then. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/text/rate.h"

typedef struct progress {
    bool quiet;
    bool terminal;
    bool drawn;       /* a line stands on the terminal */
    const char *unit; /* what is counted: "round" */
    uint64_t total;
    rate rate;
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

#endif
