/* SPDX-License-Identifier: Apache-2.0 */
/* Epsilon over the rounds, as a picture. */
#ifndef CLI_PRIVACY_PLOT_H
#define CLI_PRIVACY_PLOT_H

#include <stdio.h>

#include "cli/privacy/privacy_options.h"

enum { PRIVACY_POINTS = 16 };

typedef struct privacy_curve {
    uint64_t rounds[PRIVACY_POINTS];
    double pld[PRIVACY_POINTS], rdp[PRIVACY_POINTS]; /* epsilon by either accountant */
} privacy_curve;

/* With so much noise, for round numbers up to those of the options. Errors: NO_MEMORY, with a
 * diagnostic. */
int privacy_curve_make(const privacy_options *options, double noise, privacy_curve *curve,
                       tarry_diagnostic *diagnostic);

/* Writes a gnuplot script that draws to standard output, as PNG or SVG. */
void privacy_plot_script(FILE *script, const privacy_options *options, double noise,
                         const privacy_curve *curve);

#endif
