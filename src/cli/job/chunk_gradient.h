/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of one chunk's samples, or its change after local steps: the function that the
 * workers compute. */
#ifndef CLI_CHUNK_GRADIENT_H
#define CLI_CHUNK_GRADIENT_H

#include <tarry/compute.h>

#include "cli/job/round_tally.h"
#include "learn/batch.h"
#include "learn/local_steps.h"
#include "learn/objective.h"
#include "privacy/sampler.h"

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
/* What tells the time, in seconds: any thread. */
typedef double chunk_clock(void *user);
/* With local steps that are limited in time, for workers below `workers`, and before any chunk is
 * computed: a worker's time in a round begins with its first chunk. From now on numbers depend on
 * the clock, and copies of a chunk may differ. Errors: NO_MEMORY. */
int chunk_gradient_limit(chunk_gradient *state, uint32_t workers, chunk_clock *clock, void *user);
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
/* From now on each chunk that is worked out is noted in `tallies`, borrowed; NULL: in none. */
void chunk_gradient_note_in(chunk_gradient *state, round_tally *tallies);

/* A tarry_compute of the batch's chunks; user is the chunk_gradient. The numbers depend on
 * the arguments alone, and a round's samples on no plan. Not 0: samples can't be had. */
int chunk_gradient_compute(void *user, const tarry_task *task);

/* sum[0..dimension-1] += the gradient of original chunk `chunk` in double, with a workspace of that
 * precision; with local steps its change, by ones of that precision. Not of samples that are
 * fetched. */
void chunk_gradient_add_double(chunk_gradient *state, objective_workspace *work, local_steps *local,
                               uint64_t round, const float *parameters, uint32_t chunk,
                               double *sum);

/* Adds the losses of the same samples to the tally, as chunk_gradient_compute notes them: to the
 * bit. Without a batch; not of samples that are fetched. False: as of objective_add_tally. */
bool chunk_gradient_add_tally(chunk_gradient *state, const float *parameters, tarry_span span,
                              const objective_stop *stop, objective_tally *tally);

#endif
