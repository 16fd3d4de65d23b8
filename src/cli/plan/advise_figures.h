/* SPDX-License-Identifier: Apache-2.0 */
/* What trials say of a choice. */
#ifndef CLI_ADVISE_FIGURES_H
#define CLI_ADVISE_FIGURES_H

#include "cli/simulate/simulate_trials.h"

typedef double advise_value(const simulate_outcome *outcome);
double advise_whole_seconds(const simulate_outcome *outcome);
/* From start to signal. */
double advise_until_signal(const simulate_outcome *outcome);

/* The median over trials and rounds first..last of the variant `index`; NaN where a trial could not
 * end. values: room for that many. */
double advise_median(const simulate_trials *trials, size_t index, uint32_t first, uint32_t last,
                     advise_value *value, double *values);

#endif
