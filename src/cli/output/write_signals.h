/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGPIPE and SIGXFSZ, which end a process that writes to a pipe that nobody reads, or beyond the
 * largest size of a file. That suits commands that only print. Others have more to do: who reads
 * what they say may end by the same Ctrl-C, as tee does, and one file that can't be written leaves
 * the rest.
 */
#ifndef CLI_WRITE_SIGNALS_H
#define CLI_WRITE_SIGNALS_H

#include <signal.h>

typedef struct write_signals {
    struct sigaction pipe, size;
} write_signals;

/* From now on such a write fails, and no more. *before, which may be NULL, is what they did. */
void write_signals_ignore(write_signals *before);

/* They do again what they did before. */
void write_signals_restore(const write_signals *before);

#endif
