/* SPDX-License-Identifier: Apache-2.0 */
#include "learn/optimizer.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "base/memory.h"
#include "base/random.h"
#include "learn/network.h"

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

static void optimizer_reset(optimizer *state)
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

/* ---- batch ---- */

/* floor(i total / parts) without overflow of the product. */
static size_t share_start(size_t total, uint32_t parts, uint32_t i)
{
    return total / parts * i + total % parts * i / parts;
}

static size_t share_size(size_t total, uint32_t parts, uint32_t i)
{
    return share_start(total, parts, i + 1) - share_start(total, parts, i);
}

void batch_chunk(const batch_settings *settings, uint32_t chunk, size_t *first, size_t *count)
{
    assert(chunk < settings->chunks);
    *first = share_start(settings->rows, settings->chunks, chunk);
    *count = share_size(settings->rows, settings->chunks, chunk);
}

size_t batch_count(const batch_settings *settings, uint32_t chunk)
{
    assert(chunk < settings->chunks);
    size_t own = share_size(settings->rows, settings->chunks, chunk);
    if (settings->batch == 0 || own == 0)
        return own;
    return share_size(settings->batch, settings->chunks, chunk);
}

size_t batch_samples(const batch_settings *settings)
{
    size_t samples = 0;
    for (uint32_t chunk = 0; chunk < settings->chunks; chunk++)
        samples += batch_count(settings, chunk);
    return samples;
}

random_stream batch_begin(const batch_settings *settings, uint64_t round, uint32_t chunk)
{
    return random_stream_make(settings->seed, RANDOM_BATCH, (uint32_t)round, chunk);
}

/* The high word of 64 random bits times the number of samples: its bias is below count / 2^64. */
void batch_next(const batch_settings *settings, uint32_t chunk, random_stream *stream, size_t *rows)
{
    assert(settings->batch > 0);
    size_t first, own;
    batch_chunk(settings, chunk, &first, &own);
    size_t count = batch_count(settings, chunk);
    for (size_t i = 0; i < count; i++)
        rows[i] = first + (size_t)((unsigned __int128)random_u64(stream) * own >> 64);
}

void batch_draw(const batch_settings *settings, uint64_t round, uint32_t chunk, size_t *rows)
{
    random_stream stream = batch_begin(settings, round, chunk);
    batch_next(settings, chunk, &stream, rows);
}

/* ---- local steps ---- */

struct local_steps {
    tarry_allocator allocator;
    const objective *model;
    size_t dimension;
    const float *from; /* x */
    float *change;     /* y - x */
    float *at;         /* y */
    float *gradient;
    double *exact; /* the sum of gradients in double; NULL where they are in single */
    optimizer *inner;
};

double local_samples(const local_settings *settings, const batch_settings *batch)
{
    return settings->steps > 0 ? (double)batch->rows : (double)batch_samples(batch);
}

void local_mean(const local_settings *settings, const objective *model, const float *parameters,
                const float *sum, double samples, float *gradient)
{
    if (settings->steps == 0) {
        objective_regularise(model, parameters, sum, samples, gradient);
        return;
    }
    const size_t dimension = objective_dimension(model);
    for (size_t i = 0; i < dimension; i++)
        gradient[i] = (float)(sum[i] / samples);
}

int local_steps_create(const objective *model, const local_settings *settings,
                       objective_precision precision, const tarry_allocator *allocator,
                       local_steps **out)
{
    tarry_allocator memory = memory_allocator(allocator);
    local_steps *own = memory_allocate(&memory, 1, sizeof(*own));
    if (own == NULL)
        return TARRY_ERROR_NO_MEMORY;
    own->allocator = memory;
    own->model = model;
    own->dimension = objective_dimension(model);
    own->change = vector_allocate(&memory, own->dimension);
    own->at = vector_allocate(&memory, own->dimension);
    own->gradient = vector_allocate(&memory, own->dimension);
    bool failed = own->change == NULL || own->at == NULL || own->gradient == NULL;
    if (precision == OBJECTIVE_DOUBLE && !failed) {
        own->exact = memory_allocate(&memory, own->dimension, sizeof(*own->exact));
        failed = own->exact == NULL;
    }
    if (failed || optimizer_create(&settings->inner, own->dimension, &memory, &own->inner) != 0) {
        local_steps_free(own);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = own;
    return TARRY_OK;
}

void local_steps_free(local_steps *own)
{
    if (own == NULL)
        return;
    tarry_allocator memory = own->allocator;
    optimizer_free(own->inner);
    memory_release(&memory, own->exact);
    vector_release(&memory, own->gradient);
    vector_release(&memory, own->at);
    vector_release(&memory, own->change);
    memory_release(&memory, own);
}

uint64_t local_steps_bytes(const local_settings *settings, size_t dimension)
{
    enum { OWN = 3 };
    return (uint64_t)(OWN + optimizer_vectors(settings->inner.kind)) * dimension * sizeof(float);
}

void local_steps_begin(local_steps *own, const float *parameters)
{
    own->from = parameters;
    memcpy(own->at, parameters, own->dimension * sizeof(*own->at));
    memset(own->change, 0, own->dimension * sizeof(*own->change));
    optimizer_reset(own->inner);
}

static void add_exact(local_steps *own, objective_workspace *work, const dataset *data,
                      const size_t *rows, size_t first, size_t count)
{
    memset(own->exact, 0, own->dimension * sizeof(*own->exact));
    objective_add_gradient_double(own->model, work, data, own->at, rows, first, count, own->exact);
    for (size_t i = 0; i < own->dimension; i++)
        own->gradient[i] = (float)own->exact[i];
}

void local_steps_take(local_steps *own, objective_workspace *work, const dataset *data,
                      const size_t *rows, size_t first, size_t count, objective_tally *tally)
{
    assert(count >= 1 && (own->exact == NULL || tally == NULL));
    if (own->exact != NULL) {
        add_exact(own, work, data, rows, first, count);
    } else {
        memset(own->gradient, 0, own->dimension * sizeof(*own->gradient));
        objective_add_gradient(own->model, work, data, own->at, rows, first, count, own->gradient,
                               tally);
    }
    objective_regularise(own->model, own->at, own->gradient, (double)count, own->gradient);
    optimizer_step(own->inner, own->gradient, own->change);
    for (size_t i = 0; i < own->dimension; i++)
        own->at[i] = own->from[i] + own->change[i];
}

const float *local_steps_change(const local_steps *own)
{
    return own->change;
}
