/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_GRADIENTS_H
#define CLI_GRADIENTS_H

#include <stddef.h>

#include <tarry/compute.h>
#include <tarry/plan.h>

#include "learn/network.h"
#include "learn/optimizer.h"
#include "privacy/keystream.h"

/*
 * What a round's chunks tell of the loss while their gradients are worked out: a tally for each
 * chunk of the plan, whichever worker was the first to be done with it.
 */

typedef struct round_tally round_tally;

/* For the chunks of `plan`, borrowed for the call. Errors: NO_MEMORY. */
int round_tally_create(const tarry_plan *plan, round_tally **out);
void round_tally_free(round_tally *tallies); /* NULL is allowed */
/* Between rounds: the chunks of the rounds to come. What a late worker notes of chunks that are
 * none any more is dropped. Errors: NO_MEMORY; the old plan's chunks stay then. */
int round_tally_replan(round_tally *tallies, const tarry_plan *plan);

/* A chunk of `round` was worked out, whose first span is `first`. Any thread. */
void round_tally_note(round_tally *tallies, uint64_t round, tarry_span first,
                      const objective_tally *tally);

/* Adds chunk `chunk` to the tally. */
typedef void round_tally_fill(void *user, uint32_t chunk, objective_tally *tally);
/* *tally += the tallies of all chunks in the order of their samples, as they were noted of `round`;
 * `fill` works out those that were not. */
void round_tally_sum(round_tally *tallies, uint64_t round, round_tally_fill *fill, void *user,
                     objective_tally *tally);

/* The gradient of one chunk's samples, or its change after local steps: the function that the
 * workers compute. */

typedef struct chunk_gradient chunk_gradient;

/*
 * For the samples of `data` and the model; both are borrowed. At most `threads` (>= 1) chunks are
 * worked out at a time, as each takes a workspace of its own; more callers wait. Errors: NO_MEMORY.
 */
int chunk_gradient_create(const objective *model, const dataset *data, const batch_settings *batch,
                          uint32_t threads, chunk_gradient **out);

/* Gives the samples of original chunk `origin`, and no others, as the rows of *data, which stay as
 * long as the chunk_gradient does. Any of its callers' threads. Not 0: they can't be had. */
typedef int chunk_fetch(void *user, uint32_t origin, const dataset **data);

/* The same for samples that are fetched when they are first computed with. */
int chunk_gradient_create_fetching(const objective *model, chunk_fetch *fetch, void *user,
                                   const batch_settings *batch, uint32_t threads,
                                   chunk_gradient **out);
void chunk_gradient_free(chunk_gradient *state); /* NULL is allowed */
/* From now on a chunk stands for its change after local steps on a whole of it, or with a batch on
 * one draw of batch_next after the other. Before any is computed. Errors: NO_MEMORY. */
int chunk_gradient_step_locally(chunk_gradient *state, const local_settings *local);
/* From now on a chunk stands for the samples of its own that are drawn in the round, the gradient
 * of each shortened to the length `clip` (> 0): a sum that one sample changes by no more. Nothing
 * is noted of these, and nothing but chunk_gradient_compute works them out. Without a batch or
 * local steps, and before any is computed. Errors: NO_MEMORY. */
int chunk_gradient_sample(chunk_gradient *state, const sampler *draws, double clip);
/* What that takes for each thread. */
static inline uint64_t chunk_gradient_sample_bytes(size_t dimension)
{
    return (uint64_t)dimension * sizeof(double);
}

/* A tarry_compute of the batch's chunks; user is the chunk_gradient. The numbers depend on
 * the arguments alone, and a round's samples on no plan. Not 0: samples can't be had. */
int chunk_gradient_compute(void *user, const tarry_task *task);

#define ROUND_SCORES_NO_ROUND UINT64_MAX

/*
 * Loss and accuracy of the parameters that a round begins with, worked out while it runs. Where
 * workers compute all samples in this process, their passes tell of the training data; the rest has
 * a thread of its own, and what is late is waited for.
 */
typedef struct round_scores round_scores;

typedef struct round_scores_settings {
    const objective *model;
    const dataset *train; /* NULL: its scores are not worked out, and are NaN */
    const dataset *test;  /* NULL: none */
    /* What workers of this process compute all samples of a round with; NULL: they are elsewhere,
     * or draw samples. */
    chunk_gradient *gradients;
    const tarry_plan *plan; /* of `gradients` */
    objective_stop stop;    /* asked by any thread */
} round_scores_settings;

/* All is borrowed, and the model, the data and `gradients` must outlive it. Errors: NO_MEMORY. */
int round_scores_create(const round_scores_settings *settings, round_scores **out);
void round_scores_free(round_scores *state); /* NULL is allowed */

/* Between rounds: rounds go by another plan from now on; borrowed. Errors: NO_MEMORY. */
int round_scores_replan(round_scores *state, const tarry_plan *plan);

/* Before a round: begins with the scores of `parameters`, which are read until round_scores_end. */
void round_scores_begin(round_scores *state, const float *parameters);

/* In place of round_scores_begin, where nobody wants them. */
void round_scores_drop(round_scores *state);

/* After round `round` with these parameters, or ROUND_SCORES_NO_ROUND if none ended. *test stays as
 * it is without test samples. False: `stop` ended it early, and neither is set. */
bool round_scores_end(round_scores *state, uint64_t round, objective_score *train,
                      objective_score *test);

/*
 * How this process works out a model's gradients, to the bit. Libraries choose their kernels by the
 * processor, which add in different orders: so gradients of the same samples differ between kinds
 * of machines, in float32's last digits. A small gradient of samples that are the same everywhere
 * tells the kinds apart. It goes the way of all chunks' gradients.
 */

/* *fingerprint: of that gradient's bits, not 0. Errors: NO_MEMORY. */
int numerics_fingerprint(const objective_settings *settings, bool sparse, uint64_t *fingerprint);

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

/*
 * --verify: how far a round's estimate is from the serial sum, and how much of that is whose. The
 * chunks' gradients are worked out once more, one after the other: in float32, as workers do, and
 * in double. Local steps are those of gradients in double then.
 */

typedef struct verification verification;

/* For a run of `chunks` original chunks, whose samples are not fetched, and for the local steps of
 * `gradients`. model and gradients are borrowed. Errors: NO_MEMORY. */
int verification_create(const objective *model, chunk_gradient *gradients,
                        const local_settings *local, uint32_t chunks, verification **out);
void verification_free(verification *state); /* NULL is allowed */

/* Of the estimate of `round`, at `parameters`. */
void verification_check(verification *state, uint64_t round, const float *parameters,
                        const float *estimate, verified_round *out);

#endif
