/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEARN_OPTIMIZER_H
#define LEARN_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>

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

/* Makes its state that of a new one. */
void optimizer_reset(optimizer *state);
/* Its state, to read or to write; the optimizer's. The vectors are of `dimension` numbers. */
optimizer_state *optimizer_state_of(optimizer *state);

#endif
