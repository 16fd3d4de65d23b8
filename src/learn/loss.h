/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of a sample as a function of the model's outputs for it. */
#ifndef LEARN_LOSS_H
#define LEARN_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "learn/objective.h"

/* Puts the loss's derivatives by the `outputs` numbers of `scores` in their place. */
void loss_differentiate(model_kind model, float label, uint32_t outputs, double *scores);

/* The loss; *right: whether the largest score (for one output: its sign) is the label's. Least
 * squares is never right. */
double loss_evaluate(model_kind model, float label, uint32_t outputs, const double *scores,
                     bool *right);

#endif
