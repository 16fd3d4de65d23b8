/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include <stddef.h>

/* What a round's estimate is off, relative as below; NaN where it was not verified. */
typedef struct verified_round {
    double error, squared_error; /* the coding's: against the chunks' float32 gradients, summed in
                                    double */
    double model_rounding; /* the model's: of that sum, against the chunks' gradients in double */
} verified_round;

/*
 * How far estimate[0..count-1] is from truth: *error = max|estimate - truth| / max|truth| and
 * *squared = |estimate - truth|^2 / |truth|^2. Numbers below FLT_MIN, the least that float32 holds
 * with all digits, count as 0. Both are 0 where both vectors are zero, and infinite where the truth
 * alone is, or where a number of the estimate is not finite.
 */
void verify_estimate(const double *truth, const float *estimate, size_t count, double *error,
                     double *squared);

#endif
