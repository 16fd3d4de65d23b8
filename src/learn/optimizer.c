/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/optimizer.h"

#include <math.h>
#include <string.h>
#include <tarry/error.h>

#include "base/memory.h"

static const double square_decay = 0.999;
static const double epsilon = 1e-8;

struct optimizer {
    tarry_allocator allocator;
    optimizer_settings of;
    size_t dimension;
    optimizer_state past;
};

uint32_t optimizer_vectors(optimizer_kind kind)
{
    return kind == OPTIMIZER_GD ? 0 : kind == OPTIMIZER_ADAM ? 2 : 1;
}

int optimizer_create(const optimizer_settings *settings, size_t dimension,
                     const tarry_allocator *allocator, optimizer **out)
{
    const optimizer_kind kind = settings->kind;
    tarry_allocator memory = memory_allocator(allocator);
    optimizer *state = memory_allocate(&memory, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *state = (optimizer){
        .allocator = memory,
        .of = *settings,
        .dimension = dimension,
        .past = {.decayed = 1, .square_decayed = 1},
    };
    if (kind != OPTIMIZER_GD)
        state->past.velocity = vector_allocate(&memory, dimension);
    if (kind == OPTIMIZER_ADAM)
        state->past.square = vector_allocate(&memory, dimension);
    if ((kind != OPTIMIZER_GD && state->past.velocity == NULL) ||
        (kind == OPTIMIZER_ADAM && state->past.square == NULL)) {
        optimizer_free(state);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = state;
    return TARRY_OK;
}

void optimizer_free(optimizer *state)
{
    if (state == NULL)
        return;
    tarry_allocator memory = state->allocator;
    vector_release(&memory, state->past.velocity);
    vector_release(&memory, state->past.square);
    memory_release(&memory, state);
}

static void step_descent(const optimizer *state, const float *gradient, float *parameters)
{
    for (size_t i = 0; i < state->dimension; i++)
        parameters[i] = (float)(parameters[i] - state->of.rate * gradient[i]);
}

/* Momentum steps along the velocity, Nesterov along
 * the velocity as it will be if the gradient stays. */
static void step_velocity(optimizer *state, const float *gradient, float *parameters)
{
    const double decay = state->of.decay;
    for (size_t i = 0; i < state->dimension; i++) {
        double velocity = decay * state->past.velocity[i] + gradient[i];
        double along =
            state->of.kind == OPTIMIZER_NESTEROV ? gradient[i] + decay * velocity : velocity;
        state->past.velocity[i] = (float)velocity;
        parameters[i] = (float)(parameters[i] - state->of.rate * along);
    }
}

static void step_adam(optimizer *state, const float *gradient, float *parameters)
{
    const double decay = state->of.decay;
    state->past.decayed *= decay;
    state->past.square_decayed *= square_decay;
    double mean_scale = 1 / (1 - state->past.decayed);
    double square_scale = 1 / (1 - state->past.square_decayed);
    for (size_t i = 0; i < state->dimension; i++) {
        double g = gradient[i];
        double mean = decay * state->past.velocity[i] + (1 - decay) * g;
        double square = square_decay * state->past.square[i] + (1 - square_decay) * g * g;
        state->past.velocity[i] = (float)mean;
        state->past.square[i] = (float)square;
        double along = mean * mean_scale / (sqrt(square * square_scale) + epsilon);
        parameters[i] = (float)(parameters[i] - state->of.rate * along);
    }
}

void optimizer_step(optimizer *state, const float *gradient, float *parameters)
{
    switch (state->of.kind) {
    case OPTIMIZER_GD:
        step_descent(state, gradient, parameters);
        break;
    case OPTIMIZER_MOMENTUM:
    case OPTIMIZER_NESTEROV:
        step_velocity(state, gradient, parameters);
        break;
    case OPTIMIZER_ADAM:
        step_adam(state, gradient, parameters);
        break;
    }
}

void optimizer_reset(optimizer *state)
{
    optimizer_state *past = &state->past;
    if (past->velocity != NULL)
        memset(past->velocity, 0, state->dimension * sizeof(*past->velocity));
    if (past->square != NULL)
        memset(past->square, 0, state->dimension * sizeof(*past->square));
    past->decayed = past->square_decayed = 1;
}

optimizer_state *optimizer_state_of(optimizer *state)
{
    return &state->past;
}
