/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C, SIGTERM and SIGHUP: the first asks for an end
 * after the round, the second ends at once. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

typedef struct interrupt interrupt;

/*
 * From now on the first SIGINT, SIGTERM or SIGHUP calls stop(user) once, in a thread of its own,
 * and the second one ends the process as if it had not been caught. Those that were ignored stay
 * so. To be called before other threads are started, which then do not see these signals; at most
 * one interrupt exists at a time. Errors: SYSTEM, NO_MEMORY.
 */
int interrupt_begin(void (*stop)(void *user), void *user, interrupt **out);

/* Whether a signal has come. */
bool interrupt_seen(const interrupt *state);

/* The signals do again what they did before; stop is not called any more. NULL is allowed. */
void interrupt_end(interrupt *state);

#endif
