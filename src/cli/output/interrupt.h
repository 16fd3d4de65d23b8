/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C, SIGTERM and SIGHUP: the first asks for an end
 * after the round, the second ends at once. What comes within 0.2 s of the first is part of it. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

typedef struct interrupt interrupt;

/*
 * From now on the first SIGINT, SIGTERM or SIGHUP calls stop(user) once, in a thread of its own,
 * and the second one ends the process as if it had not been caught. One that comes within 0.2 s of
 * the first does nothing: a terminal, timeout(1) and others signal a process and then its group,
 * and mean it once. Those that were ignored stay so. Meanwhile SIGPIPE and SIGXFSZ are ignored.
 * To be called before other threads are started, which then do not see these
 * signals; at most one interrupt exists at a time. Errors: SYSTEM, NO_MEMORY.
 */
int interrupt_begin(void (*stop)(void *user), void *user, interrupt **out);

/* Whether a signal has come. */
bool interrupt_seen(const interrupt *state);

/*
 * What there was to stop has ended: stop is not called any more, nor does it run when this returns,
 * so that what it uses may be freed. The first signal then only leaves the process the time to end
 * by itself. NULL is allowed.
 */
void interrupt_settle(interrupt *state);

/* The signals do again what they did before; stop is not called any more. NULL is allowed. */
void interrupt_end(interrupt *state);

/*
 * SIGPIPE and SIGXFSZ, which end a process that writes to a pipe that nobody reads, or beyond the
 * largest size of a file. That suits commands that only print. Others have more to do: who reads
 * what they say may end by the same Ctrl-C, as tee does, and one file that can't be written leaves
 * the rest.
 */

typedef struct write_signals {
    struct sigaction pipe, size;
} write_signals;

/* From now on such a write fails, and no more. *before, which may be NULL, is what they did. */
void write_signals_ignore(write_signals *before);

#endif
