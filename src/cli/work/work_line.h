/* SPDX-License-Identifier: Apache-2.0 */
/* How a worker stands: one line redrawn in place on a terminal, elsewhere a line when it finds or
 * loses its server; and a line at its end. */
#ifndef CLI_WORK_LINE_H
#define CLI_WORK_LINE_H

#include <pthread.h>

#include <tarry/tcp.h>

typedef struct work_line {
    pthread_mutex_t lock;
    bool quiet, terminal, drawn, leaving;
    double last; /* when it was drawn, by clock_seconds */
    char state[320];
    char reason[256]; /* why there was no connection last, or none any more */
} work_line;

void work_line_begin(work_line *line, bool quiet);
/* What happened to the connection. Any thread. */
void work_line_notice(work_line *line, const tarry_tcp_notice *notice);
/* Draws anew with the worker's figures, if there is a terminal and it is time to. Any thread. */
void work_line_update(work_line *line, const tarry_tcp_work *work);
/* It was asked to leave, which may take a while. Any thread. */
void work_line_leave(work_line *line);
/* Removes the line from the terminal, and says how it ended; `work` is NULL if that is told
 * otherwise. */
void work_line_end(work_line *line, const tarry_tcp_work *work);

#endif
