/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SIMULATE_REPORT_H
#define CLI_SIMULATE_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/simulate/simulate_summary.h"

/*
 * Writes the results as JSON, see docs/reports.md; what cannot be written is the stream's error.
 * `config` is borrowed. Errors: NO_MEMORY.
 */
int simulate_report_write(FILE *stream, const simulate_trials *trials,
                          const simulate_summary *summaries, json_t *config);

#endif
