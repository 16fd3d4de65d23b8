/* SPDX-License-Identifier: Apache-2.0 */
/* Advice on standard output, as a table or as JSON (docs/reports.md). */
#ifndef CLI_ADVISE_PRINT_H
#define CLI_ADVISE_PRINT_H

#include <jansson.h>

#include "cli/plan/advise.h"

void advice_print_table(const advise_options *options, const advice *found);

/* `config`, the object of all options, is borrowed. Errors: NO_MEMORY. */
int advice_print_json(const advise_options *options, const advice *found, json_t *config);

#endif
