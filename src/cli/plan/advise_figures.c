/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/advise_figures.h"

#include <math.h>

#include "base/quantile.h"

double advise_whole_seconds(const simulate_outcome *outcome)
{
    return outcome->seconds;
}

double advise_until_signal(const simulate_outcome *outcome)
{
    return (double)(outcome->result.signal_ns - outcome->result.start_ns) * 1e-9;
}

double advise_median(const simulate_trials *trials, size_t index, uint32_t first, uint32_t last,
                     advise_value *value, double *values)
{
    size_t count = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++)
        for (uint32_t round = first; round <= last; round++) {
            const simulate_outcome *outcome =
                &simulate_trials_outcomes(trials, trial, index)[round];
            if (isnan(outcome->seconds))
                return NAN;
            values[count++] = value(outcome);
        }
    return quantile_of(values, count, 0.5);
}
