/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_GNUPLOT_H
#define CLI_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>

#include <tarry/error.h>

/* Whether `path` ends in .svg or .png, and whether in the latter. */
bool gnuplot_draws(const char *path);
bool gnuplot_is_png(const char *path);

/* Writes `text` as a string of a script, which interprets nothing in it but a line's end. */
void gnuplot_quote(FILE *script, const char *text);
/* Writes a blank and the number; NaN if it is not finite. */
void gnuplot_number(FILE *script, double number);

/* Whether gnuplot can be started. Errors: SYSTEM, with a diagnostic. */
int gnuplot_find(tarry_diagnostic *diagnostic);

/*
 * Runs gnuplot over the script that write(user, stream) writes, and copies the picture to `out`,
 * which is flushed. Errors: SYSTEM, with gnuplot's own words; FILE, without the file's name: `out`
 * cannot be written.
 */
int gnuplot_run(void (*write)(void *user, FILE *script), void *user, FILE *out,
                tarry_diagnostic *diagnostic);

#endif
