/* SPDX-License-Identifier: Apache-2.0 */
/* --dp: what makes a training differentially private. */
#ifndef CLI_DP_OPTION_H
#define CLI_DP_OPTION_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/error.h>

typedef struct dp_option {
    double clip;   /* the most that an example adds to a sum; > 0 */
    double noise;  /* standard deviation over clip; > 0 */
    double sample; /* the probability with which an example is in a round, above 0 and up to 1 */
    double delta;  /* above 0 and below 1 */
    double budget; /* the largest epsilon; INFINITY: none */
    bool seeded;   /* the draws and the noise are those of `seed`: nothing is private */
    uint64_t seed;
} dp_option;

/* Reads "clip:C,noise:SIGMA,sample:Q", with delta:D (else 1e-5), budget:EPS and seed:N behind it
 * where they are given, in any order. Errors: FORMAT, with a diagnostic; *out is untouched. */
int dp_option_read(const char *text, dp_option *out, tarry_diagnostic *diagnostic);

#endif
