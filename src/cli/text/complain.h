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

#endif
