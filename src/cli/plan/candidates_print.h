/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates on standard output, as a table or as JSON (docs/reports.md). */
#ifndef CLI_CANDIDATES_PRINT_H
#define CLI_CANDIDATES_PRINT_H

#include <jansson.h>

#include "cli/plan/candidates.h"

void candidates_print_table(const advise_options *options, const advice *found,
                            const candidates *weighed);

/* The report's "pilot"; NULL if there is no memory. */
json_t *candidates_json(const advise_options *options, const candidates *weighed);

#endif
