/* SPDX-License-Identifier: Apache-2.0 */
/* Advice on standard output, as a table or as JSON (docs/reports.md). */
#ifndef CLI_ADVISE_PRINT_H
#define CLI_ADVISE_PRINT_H

#include <jansson.h>

#include "cli/plan/advise.h"

void advice_print_table(const advise_options *options, const advice *found);
/* The line on what was simulated, with which tables begin. */
void advice_print_head(const advise_options *options, const advice *found);
/* The options of tarry train for a choice. */
void advice_options_text(const advise_options *options, const advice_choice *choice, char *text,
                         size_t size);

/* `config`, the object of all options, is borrowed; `pilot`, an object of the candidates, is taken
 * over, and may be NULL where there are none. Errors: NO_MEMORY. */
int advice_print_json(const advise_options *options, const advice *found, json_t *config,
                      json_t *pilot);

#endif
