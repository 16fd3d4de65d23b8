/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SIMULATE_PLOT_H
#define CLI_SIMULATE_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/simulate/simulate_summary.h"

/*
 * Writes a gnuplot script that draws to its standard output: the completion times of each scheme
 * with the bounds, and, if deadlines were swept, the error over the deadline.
 */
void simulate_plot_script(FILE *script, bool png, const simulate_trials *trials,
                          const simulate_summary *summaries);

#endif
