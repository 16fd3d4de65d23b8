/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEARN_OPTIMIZER_H
#define LEARN_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>

#include "base/random.h"
#include "learn/network.h"

typedef enum optimizer_kind {
    OPTIMIZER_GD,       /* w -= rate g */
    OPTIMIZER_MOMENTUM, /* v = decay v + g; w -= rate v (Polyak 1964) */
    OPTIMIZER_NESTEROV, /* v = decay v + g; w -= rate (g + decay v) (Sutskever et al. 2013) */
    OPTIMIZER_ADAM,     /* beta decay, 0.999, epsilon 1e-8, bias-corrected (Kingma and Ba 2015) */
} optimizer_kind;

#define OPTIMIZER_USUAL_DECAY 0.9

typedef struct optimizer_settings {
    optimizer_kind kind;
    double rate;  /* > 0 */
    double decay; /* of the velocity, 0 <= decay < 1; not with OPTIMIZER_GD */
} optimizer_settings;

typedef struct optimizer optimizer;

/* What a step leaves for the next one. Who writes all of it into another optimizer of the same kind
 * and dimension makes that one go on, to the bit. */
typedef struct optimizer_state {
    float *velocity; /* momentum, Nesterov; Adam: mean of the gradients; NULL with OPTIMIZER_GD */
    float *square;   /* Adam: mean of their squares; NULL with others */
    double decayed;  /* Adam: decay and 0.999 to the power of the steps so far */
    double square_decayed;
} optimizer_state;

/* How many vectors of the dimension its state has. */
uint32_t optimizer_vectors(optimizer_kind kind);

/* The caller owns *out. Errors: NO_MEMORY. */
int optimizer_create(const optimizer_settings *settings, size_t dimension,
                     const tarry_allocator *allocator, optimizer **out);
void optimizer_free(optimizer *state);
/* One step of parameters along gradient (of the objective, not of the sum). */
void optimizer_step(optimizer *state, const float *gradient, float *parameters);
/* Its state, to read or to write; the optimizer's. The vectors are of `dimension` numbers. */
optimizer_state *optimizer_state_of(optimizer *state);

/* Which samples a chunk stands for in a round: all of its own,
 * or a draw that is the same for every copy. */

typedef struct batch_settings {
    size_t rows; /* samples in all */
    uint32_t
        chunks;   /* N: chunk i is the samples floor(i rows / N) .. floor((i + 1) rows / N) - 1 */
    size_t batch; /* samples per round over all chunks; 0: every sample of every chunk */
    uint64_t seed;
} batch_settings;

/* The chunk's samples: first and count. */
void batch_chunk(const batch_settings *settings, uint32_t chunk, size_t *first, size_t *count);
/*
 * How many samples the chunk sums in a round: its own count, or its share of the batch (shares
 * differ by at most 1; a chunk without samples has none). A chunk's share is the same in every
 * round, so with batch < chunks some chunks are never drawn from.
 */
size_t batch_count(const batch_settings *settings, uint32_t chunk);
/* The same of all chunks. */
size_t batch_samples(const batch_settings *settings);
/* Draws that many of the chunk's rows, with replacement,
 * from (seed, round, chunk). Not with batch 0. */
void batch_draw(const batch_settings *settings, uint64_t round, uint32_t chunk, size_t *rows);
/* One such draw after the other: what batch_next gives first is batch_draw's. */
random_stream batch_begin(const batch_settings *settings, uint64_t round, uint32_t chunk);
void batch_next(const batch_settings *settings, uint32_t chunk, random_stream *stream,
                size_t *rows);

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
 * The inner optimizer begins anew in every round: a worker computes other chunks in the next one,
 * and copies of a chunk on several workers have to be the same to the bit. DiLoCo keeps it.
 */

typedef struct local_settings {
    uint32_t steps; /* H; 0: there are none, and a chunk's part is its gradient */
    optimizer_settings inner;
} local_settings;

/* What an average over all chunks is taken over, whether there are local steps or none: samples. */
double local_samples(const local_settings *settings, const batch_settings *batch);

/* From a round's sum, over so many samples, to what the optimizer of `parameters` steps along. The
 * l2 term is in the local steps if there are any. */
void local_mean(const local_settings *settings, const objective *model, const float *parameters,
                const float *sum, double samples, float *gradient);

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
