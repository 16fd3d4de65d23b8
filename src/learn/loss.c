/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/loss.h"

#include <math.h>

static uint32_t largest(const double *scores, uint32_t outputs)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < outputs; k++)
        if (scores[k] > scores[best])
            best = k;
    return best;
}

/* Exponentials of differences to the largest score are at most 1, so that none overflows. */
static void differentiate_cross_entropy(uint32_t label, uint32_t outputs, double *scores)
{
    double top = scores[largest(scores, outputs)];
    double sum = 0;
    for (uint32_t k = 0; k < outputs; k++) {
        scores[k] = exp(scores[k] - top);
        sum += scores[k];
    }
    for (uint32_t k = 0; k < outputs; k++)
        scores[k] /= sum;
    scores[label] -= 1;
}

static double cross_entropy(uint32_t label, uint32_t outputs, const double *scores, double top)
{
    double sum = 0;
    for (uint32_t k = 0; k < outputs; k++)
        sum += exp(scores[k] - top);
    return log(sum) + (top - scores[label]);
}

void loss_differentiate(model_kind model, float label, uint32_t outputs, double *scores)
{
    switch (model) {
    case MODEL_LEAST_SQUARES:
        scores[0] -= label;
        break;
    case MODEL_LOGISTIC:
        /* An exponential that overflows gives the right limit, -y / infinity = 0. */
        scores[0] = -label / (1 + exp(label * scores[0]));
        break;
    case MODEL_SOFTMAX:
    case MODEL_PERCEPTRON:
        differentiate_cross_entropy((uint32_t)label, outputs, scores);
        break;
    }
}

double loss_evaluate(model_kind model, float label, uint32_t outputs, const double *scores,
                     bool *right)
{
    switch (model) {
    case MODEL_LEAST_SQUARES: {
        double difference = scores[0] - label;
        *right = false;
        return difference * difference / 2;
    }
    case MODEL_LOGISTIC: {
        double margin = label * scores[0];
        *right = (scores[0] >= 0) == (label > 0);
        return fmax(-margin, 0) + log1p(exp(-fabs(margin)));
    }
    case MODEL_SOFTMAX:
    case MODEL_PERCEPTRON:
        break;
    }
    uint32_t best = largest(scores, outputs);
    *right = best == (uint32_t)label;
    return cross_entropy((uint32_t)label, outputs, scores, scores[best]);
}
