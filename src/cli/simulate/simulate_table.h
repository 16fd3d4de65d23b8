/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SIMULATE_TABLE_H
#define CLI_SIMULATE_TABLE_H

#include "cli/simulate/simulate_summary.h"

/* Prints the schemes' figures to stdout, one line each. */
void simulate_table_print(const simulate_trials *trials, const simulate_summary *summaries);

#endif
