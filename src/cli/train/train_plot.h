/* SPDX-License-Identifier: Apache-2.0 */
/* The run in three panels: loss over time, time and copies of each round, and who was slow. */
#ifndef CLI_TRAIN_PLOT_H
#define CLI_TRAIN_PLOT_H

#include <stdio.h>

#include <tarry/error.h>

#include "cli/checkpoint/history.h"

/*
 * Writes a script for gnuplot, which draws to its standard output: PNG if `png`, else SVG. `title`
 * stands above the panels. past has at least one round. Errors: as history_round_at.
 */
int train_plot_script(FILE *script, const char *title, bool png, const history *past,
                      tarry_diagnostic *diagnostic);

#endif
