/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal that standard output and, for keys, standard input are, as a full-screen program
 * uses it. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

typedef struct terminal {
    bool has_keys; /* standard input is a terminal: keys come one by one, without echo */
    struct termios before;
} terminal;

/* Whether standard output is a terminal that knows of cursors. */
bool terminal_is_there(void);
/* Whether it is to be coloured: it is there, and NO_COLOR (no-color.org) does not forbid it. */
bool terminal_wants_colour(void);
/* Whether the locale's characters are UTF-8; call setlocale before. */
bool terminal_is_utf8(void);
/* Rows and columns; 24 and 80 if it does not say. False, and nothing is set: standard output is no
 * terminal. */
bool terminal_size(unsigned *rows, unsigned *columns);
/* Columns of the terminal that standard error is; 80 if it does not say. */
unsigned terminal_error_columns(void);

/* Remembers how the terminal is set. To be called once, before the others. */
void terminal_begin(terminal *self);
/* Turns to the second screen, without a cursor, and to single keys. */
void terminal_enter(const terminal *self);
/* Turns back, and to the settings from before: the terminal looks as if nothing had been. */
void terminal_leave(const terminal *self);
/* Writes all of it. False: the terminal is gone. */
bool terminal_write(const char *bytes, size_t size);

#endif
