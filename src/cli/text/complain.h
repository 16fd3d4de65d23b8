/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ends: its exit statuses, and the one line that says what went wrong. */
#ifndef CLI_COMPLAIN_H
#define CLI_COMPLAIN_H

typedef enum exit_status {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
} exit_status;

/*
 * Writes "PROGRAM: MESSAGE" as one line to stderr, in one write, and gives back `status`. The
 * message says WHAT: WHY. Control characters in it (of a file's or an argument's text) become '?'.
 */
__attribute__((format(printf, 2, 3))) int complain(int status, const char *format, ...);

/* What the programs share that are made of commands: tarry and tarry-bench. */

/* What messages, usages and versions call the program. Defined beside its main(). */
extern const char program_name[];

/*
 * The whole of a main(): runs `run`, and complains if what it printed could not be written. A
 * standard descriptor that the caller closed is occupied first; BLAS keeps to the calling thread.
 * Gives back the exit status.
 */
int program_main(int (*run)(int argc, char **argv), int argc, char **argv);

#endif
