/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local steps between sums: a chunk's part of the sum is not its gradient at x but
 *
 *     g_i = n_i (x - y_i),   y_i: x after H steps of the inner optimizer on the chunk's samples
 * alone,
 *
 * n_i of which there are. So the sum over chunks, over all samples, is by how much their mean has
 * moved, and an outer optimizer steps along it: gd with rate 1 is FedAvg (McMahan et al.,
 * Communication-efficient learning of deep networks from decentralized data, AISTATS 2017,
 * algorithm 1), Nesterov with 0.7 and 0.9 is that of DiLoCo (Douillard et al., arXiv 2311.08105,
 * algorithm 1).
 *
 * Partial work: a worker that runs out of time breaks off after tau_i <= H steps. A chunk's part is
 * then, with two numbers more,
 *
 *     n_i (x - y_i) / tau_i,    n_i tau_i,    n_i / tau_i,
 *
 * and from the sums of these, over n samples in all, the optimizer steps along
 *
 *     tau sum_i p_i (x - y_i) / tau_i,    p_i = n_i / n.
 *
 * With tau = tau_eff = sum_i p_i tau_i it is FedNova (Wang et al., Tackling the objective
 * inconsistency problem in heterogeneous federated optimization, NeurIPS 2020, arXiv 2007.07481).
 * With tau_i = H it is the sum above.
 *
 * A chunk that took one step counts there as tau_eff of its steps. The step is W times a weighted
 * mean of the chunks' changes, W = tau sum_i p_i / tau_i, and W has no bound. A step that is
 * much longer than the change of any chunk diverges. So tau is at most as large as makes W
 * LOCAL_REACH. docs/local-steps.md derives that number.
 *
 * The inner optimizer begins anew in every round: a worker computes other chunks in the next one,
 * and copies of a chunk on several workers have to be the same to the bit. DiLoCo keeps it.
 */
#ifndef LEARN_LOCAL_STEPS_H
#define LEARN_LOCAL_STEPS_H

#include "learn/batch.h"
#include "learn/objective.h"
#include "learn/optimizer.h"

typedef struct local_settings {
    uint32_t steps; /* H; 0: there are none, and a chunk's part is its gradient */
    optimizer_settings inner;
    double seconds; /* of a worker's steps in a round, after which each of its chunks has those that
                       it has taken, one at least; 0: each takes all, and no number rides */
} local_settings;

/* How many times a weighted mean of the chunks' changes a step may be at most. */
#define LOCAL_REACH 1.5

/* How many numbers follow those of a gradient. */
static inline size_t local_riding(const local_settings *settings)
{
    return settings->seconds > 0 ? 2 : 0;
}

/* What an average over all chunks is taken over, whether there are local steps or none: samples. */
double local_samples(const local_settings *settings, const batch_settings *batch);

/* From a round's sum, over so many samples, to what the optimizer of `parameters` steps along. The
 * l2 term is in the local steps where there are any. What rides follows in the sum. */
void local_mean(const local_settings *settings, const objective *model, const float *parameters,
                const float *sum, double samples, float *gradient);

/* tau_eff of such a sum; H if no numbers ride. */
double local_mean_steps(const local_settings *settings, size_t dimension, const float *sum,
                        double samples);
/* The tau of the optimizer's step: tau_eff, or less if some chunks took few steps; H if no numbers
 * ride. */
double local_used_steps(const local_settings *settings, size_t dimension, const float *sum,
                        double samples);

typedef struct local_steps local_steps;

/* For workspaces of that precision; settings->steps >= 1, and the model is borrowed. The caller
 * owns *out. Errors: NO_MEMORY. */
int local_steps_create(const objective *model, const local_settings *settings,
                       objective_precision precision, const tarry_allocator *allocator,
                       local_steps **out);
void local_steps_free(local_steps *own); /* NULL is allowed */
/* What one of precision OBJECTIVE_SINGLE takes. */
uint64_t local_steps_bytes(const local_settings *settings, size_t dimension);

/* Goes to x = parameters, borrowed until the last of the steps. */
void local_steps_begin(local_steps *own, const float *parameters);
/* One step along the mean gradient of `count` (>= 1) samples, l2 term included; samples and tally,
 * at the parameters before it, as for objective_add_gradient. In double the gradient is one,
 * rounded once. */
void local_steps_take(local_steps *own, objective_workspace *work, const dataset *data,
                      const size_t *rows, size_t first, size_t count, objective_tally *tally);
/* y - x now: dimension numbers of `own`. They are kept as such, so that small steps from large
 * parameters lose no digits. */
const float *local_steps_change(const local_steps *own);

#endif
