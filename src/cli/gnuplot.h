/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_GNUPLOT_H
#define CLI_GNUPLOT_H

#include <stdio.h>

#include <tarry/error.h>

/* Whether gnuplot can be started. Errors: SYSTEM, with a diagnostic. */
int gnuplot_find(tarry_diagnostic *diagnostic);

/*
 * Runs gnuplot over the script that write(user, stream) writes; what it draws to its standard
 * output goes to `out`, which must be flushed. Errors: SYSTEM, with gnuplot's own words.
 */
int gnuplot_run(void (*write)(void *user, FILE *script), void *user, FILE *out,
                tarry_diagnostic *diagnostic);

#endif
