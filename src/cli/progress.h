/* SPDX-License-Identifier: Apache-2.0 */
/* How far a run is: one line redrawn in place on a terminal, otherwise a line now and then. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool quiet;
    bool terminal;
    bool drawn; /* a line stands on the terminal */
    uint64_t rounds;
    double start;     /* by clock_seconds */
    double last;      /* when a line was drawn last */
    unsigned percent; /* tenths of the run that have been told, in percent */
} progress;

typedef struct progress_state {
    uint64_t round; /* rounds done */
    double loss;
    double copies; /* computed per chunk in the last round */
    uint32_t workers_heard;
    uint32_t workers;
} progress_state;

/* Seconds of a monotonic clock. */
double clock_seconds(void);

/* `what` is printed where stderr is no terminal. */
void progress_begin(progress *line, uint64_t rounds, bool quiet, const char *what);
void progress_round(progress *line, const progress_state *state);
/* Removes the line from the terminal, so that other text may follow. */
void progress_end(progress *line);

#endif
