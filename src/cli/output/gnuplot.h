/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_GNUPLOT_H
#define CLI_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>

#include <tarry/error.h>

#include "cli/output/output.h"

/* Whether `path` ends in .svg or .png, and whether in the latter. */
bool gnuplot_draws(const char *path);
bool gnuplot_is_png(const char *path);

/* Writes `text` as a string of a script, which interprets nothing in it but a line's end. */
void gnuplot_quote(FILE *script, const char *text);
/* Writes a blank and the number; NaN if it is not finite. */
void gnuplot_number(FILE *script, double number);

/* --plot: as output_begin. It also complains if gnuplot cannot be started. */
int plot_begin(const char *path, output_file **file);

/* Writes a script that draws to its standard output. Errors: its own, with a diagnostic. */
typedef int plot_script(void *user, FILE *script, tarry_diagnostic *diagnostic);

/* Runs gnuplot over such a script, and gives *file, which has the picture then, its name.
 * EXIT_DONE, or EXIT_FAILED after a complaint. */
int plot_end(plot_script *write, void *user, output_file **file);

#endif
