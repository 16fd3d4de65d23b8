/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker processes on this machine, one for each worker. A thread of its own starts them and takes
 * note when they end: one that was killed is started again, a second after its start at the
 * earliest; one that ended by itself is not. All of them are killed if this process is.
 */
#ifndef CLI_CHILDREN_H
#define CLI_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/error.h>

typedef struct children children;

/*
 * Starts `count` processes of this program, each with the arguments, which end with NULL, and the
 * number of its own, from 0, right behind the last one ("--worker=" becomes "--worker=3"); the
 * arguments are borrowed and must outlive the children. `input` is a descriptor that becomes their
 * standard input, borrowed as well; -1: they have none.
 * They don't see Ctrl-C in the terminal: they end when they are told to. Unless quiet, stderr hears
 * of each that is killed. Errors: NO_MEMORY, SYSTEM, with a diagnostic.
 */
int children_start(uint32_t count, char *const *arguments, int input, bool quiet, children **out,
                   tarry_diagnostic *diagnostic);

/* How many run, or are to be started again. Any thread. */
uint32_t children_left(const children *all);

/* None is started again from now on. */
void children_retire(children *all);
/* Waits a little until all have ended, and kills those that have not. NULL is allowed. */
void children_end(children *all);

#endif
