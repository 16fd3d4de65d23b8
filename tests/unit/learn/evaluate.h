/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_EVALUATE_H
#define TESTS_EVALUATE_H

#include "learn/network.h"

/* The score of the parameters over all samples of the data. */
static inline objective_score evaluate(const objective *model, objective_workspace *work,
                                       const dataset *data, const float *parameters)
{
    objective_tally tally = {0};
    objective_add_tally(model, work, data, parameters, 0, data->rows, NULL, &tally);
    return objective_score_of(model, parameters, &tally, data->rows);
}

#endif
