/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/vectors.h"

#include <string.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "base/random.h"
#include "coding/coefficients.h"
#include "coding/layout.h"
#include "coding/transfer.h"
#include "compress/factors.h"
#include "compress/residuals.h"
#include "protocol/form.h"
#include "sim/span_vector.h"

struct vectors {
    tarry_allocator allocator;
    const tarry_plan *plan;
    size_t dimension, stripe_length;
    size_t room; /* numbers of the longest part */
    const kernel *kernels;
    uint64_t seed;
    uint64_t round;
    float *gradients;     /* chunks x d */
    float *previous;      /* chunks x d, of the round before; NULL: not kept */
    float *parts;         /* workers x room */
    float *estimate;      /* d */
    double *truth;        /* d */
    const float **inputs; /* scratch: max_load */
    float *weights;       /* scratch: parts */
    float *rows;          /* scratch: max_load x parts coefficients */
    coefficients *solver;
    compress_form form, down; /* of parts, and of the sum among workers */
    dense_rounds dense;       /* in which parts have another one */
    uint8_t *packed;          /* scratch: a stripe in one of these; NULL: both are NONE */
    /* With feedback, else NULL: per worker what rounding lost, and its part as the server reads it.
     */
    residuals **lost;
    factors *shared; /* POWERSGD, else NULL: what the server has, and that of the round */
    float *factor;
    bool begun;     /* a round, with a factor */
    float *sent;    /* workers x room */
    void *scratch;  /* of transfer_encode */
    double *bridge; /* scratch of span_vector_add, and a sum: 3 x d; NULL where chunks are whole */
};

/* Room for rows x columns floats; NULL also where the product does not fit. */
static float *allocate_matrix(const tarry_allocator *allocator, size_t rows, size_t columns)
{
    return columns > SIZE_MAX / sizeof(float)
               ? NULL
               : memory_allocate(allocator, rows, columns * sizeof(float));
}

static layout cut_for(const vectors *state, uint32_t parts)
{
    return layout_make(state->dimension, parts, state->stripe_length);
}

static int allocate_lost(vectors *state)
{
    const tarry_allocator *allocator = &state->allocator;
    const uint32_t workers = state->plan->workers;
    if (!compress_feeds_back(state->form.kind))
        return TARRY_OK;
    state->sent = allocate_matrix(allocator, workers, state->room);
    state->lost = memory_allocate(allocator, workers, sizeof(*state->lost));
    int error = state->sent == NULL || state->lost == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    for (uint32_t worker = 0; worker < workers && error == TARRY_OK; worker++)
        error =
            residuals_create(state->room, state->stripe_length, allocator, &state->lost[worker]);
    if (error == TARRY_OK && state->form.kind == TARRY_COMPRESS_POWERSGD) {
        error = factors_create(&state->form.low, state->seed, allocator, &state->shared);
        state->factor =
            memory_allocate(allocator, form_factor_numbers(state->form), sizeof(*state->factor));
        if (state->factor == NULL)
            error = TARRY_ERROR_NO_MEMORY;
    }
    return error;
}

/* False: there is no memory. */
static bool allocate_packed(vectors *state)
{
    const layout cut = cut_for(state, plan_least_parts(state->plan));
    size_t bytes = 0;
    if (state->form.kind != TARRY_COMPRESS_NONE)
        bytes = form_packed_most(state->form, state->dense, &cut);
    if (state->down.kind != TARRY_COMPRESS_NONE && form_packed_bytes(state->down, &cut) > bytes)
        bytes = form_packed_bytes(state->down, &cut);
    if (bytes > 0)
        state->packed = memory_allocate(&state->allocator, bytes, 1);
    return bytes == 0 || state->packed != NULL;
}

int vectors_create(const tarry_plan *plan, const tarry_server_settings *server, uint64_t seed,
                   const tarry_allocator *allocator, vectors **out)
{
    const size_t dimension = server->dimension;
    const bool keeps_previous = server->fill == TARRY_FILL_STALE;
    vectors *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    made->allocator = memory_allocator(allocator);
    made->plan = plan;
    made->dimension = dimension;
    made->stripe_length = server->stripe_length;
    made->form = form_of(server);
    made->dense = dense_rounds_of(server);
    made->down = form_of_sums(server);
    made->room = cut_for(made, plan_least_parts(plan)).part_length;
    made->kernels = kernel_at(0);
    made->seed = seed;
    made->gradients = allocate_matrix(allocator, plan->chunks, dimension);
    if (keeps_previous)
        made->previous = allocate_matrix(allocator, plan->chunks, dimension);
    made->parts = allocate_matrix(allocator, plan->workers, made->room);
    made->estimate = memory_allocate(allocator, dimension, sizeof(float));
    made->truth = memory_allocate(allocator, dimension, sizeof(double));
    made->inputs = memory_allocate(allocator, plan->max_load, sizeof(*made->inputs));
    made->weights = memory_allocate(allocator, plan->parts, sizeof(float));
    made->rows = allocate_matrix(allocator, plan->max_load, plan->parts);
    made->scratch =
        memory_allocate(allocator, transfer_encode_scratch(plan->max_load, plan->parts), 1);
    if (!tarry_plan_is_original(plan))
        made->bridge = memory_allocate(allocator, dimension, 3 * sizeof(double));
    if (allocate_lost(made) != TARRY_OK || !allocate_packed(made) || made->gradients == NULL ||
        (keeps_previous && made->previous == NULL) || made->parts == NULL ||
        made->estimate == NULL || made->truth == NULL || made->inputs == NULL ||
        made->weights == NULL || made->rows == NULL || made->scratch == NULL ||
        (!tarry_plan_is_original(plan) && made->bridge == NULL) ||
        coefficients_create(plan, server->conditioning_limit, allocator, &made->solver) !=
            TARRY_OK) {
        vectors_free(made);
        return TARRY_ERROR_NO_MEMORY;
    }
    *out = made;
    return TARRY_OK;
}

void vectors_free(vectors *state)
{
    if (state == NULL)
        return;
    tarry_allocator allocator = state->allocator;
    coefficients_free(state->solver);
    memory_release(&allocator, state->rows);
    memory_release(&allocator, state->previous);
    memory_release(&allocator, state->gradients);
    memory_release(&allocator, state->parts);
    memory_release(&allocator, state->estimate);
    memory_release(&allocator, state->truth);
    memory_release(&allocator, state->inputs);
    memory_release(&allocator, state->weights);
    for (uint32_t worker = 0; state->lost != NULL && worker < state->plan->workers; worker++)
        residuals_free(state->lost[worker]);
    memory_release(&allocator, state->lost);
    factors_free(state->shared);
    memory_release(&allocator, state->factor);
    memory_release(&allocator, state->sent);
    memory_release(&allocator, state->packed);
    memory_release(&allocator, state->scratch);
    memory_release(&allocator, state->bridge);
    memory_release(&allocator, state);
}

static void draw_spans(vectors *state, uint32_t chunk)
{
    size_t dimension = state->dimension;
    float *gradient = state->gradients + chunk * dimension;
    double *sum = state->bridge + 2 * dimension;
    memset(sum, 0, dimension * sizeof(*sum));
    for (uint32_t i = 0; i < tarry_plan_span_count(state->plan, chunk); i++)
        span_vector_add(state->seed, state->round, tarry_plan_span(state->plan, chunk, i),
                        dimension, state->bridge, sum);
    for (size_t i = 0; i < dimension; i++)
        gradient[i] = (float)sum[i];
}

/* What is left of the estimate of a round before that is learned from; the factor of this one. */
static void begin_factor(vectors *state, uint64_t round)
{
    if (state->shared == NULL)
        return;
    if (state->begun && state->round + 1 == round)
        factors_learn(state->shared, state->round, state->factor, state->estimate);
    memcpy(state->factor, factors_of(state->shared, round),
           form_factor_numbers(state->form) * sizeof(*state->factor));
    state->begun = true;
}

void vectors_begin(vectors *state, uint64_t round)
{
    size_t dimension = state->dimension;
    begin_factor(state, round);
    state->round = round;
    if (state->previous != NULL) {
        float *last = state->gradients;
        state->gradients = state->previous;
        state->previous = last;
    }
    memset(state->truth, 0, dimension * sizeof(*state->truth));
    for (uint32_t origin = 0; origin < state->plan->origins; origin++) {
        bool whole = tarry_plan_is_original(state->plan);
        float *gradient = whole ? state->gradients + origin * dimension : state->estimate;
        span_vector_whole(state->seed, round, origin, dimension, gradient);
        for (size_t i = 0; i < dimension; i++)
            state->truth[i] += gradient[i];
    }
    if (!tarry_plan_is_original(state->plan))
        for (uint32_t chunk = 0; chunk < state->plan->chunks; chunk++)
            draw_spans(state, chunk);
}

static float *stripe_of_part(const vectors *state, const layout *cut, uint32_t worker,
                             uint32_t stripe)
{
    return state->parts + worker * state->room + layout_stripe_start(cut, stripe);
}

void vectors_encode(vectors *state, uint64_t round, uint32_t worker, uint32_t parts,
                    uint32_t stripe, const float *rows, const uint64_t *stale)
{
    if (round != state->round)
        return;
    const tarry_plan *plan = state->plan;
    layout cut = cut_for(state, parts);
    uint32_t first = plan->worker_offset[worker], load = plan->worker_offset[worker + 1] - first;
    for (uint32_t slot = 0; slot < load; slot++) {
        bool before = stale != NULL && bitset_test(stale, slot);
        state->inputs[slot] = (before ? state->previous : state->gradients) +
                              plan->slot_chunk[first + slot] * state->dimension;
    }
    transfer_encode(state->kernels, &cut, stripe, state->inputs, rows, load,
                    stripe_of_part(state, &cut, worker, stripe), state->scratch);
}

void vectors_fold(vectors *state, uint64_t round, uint32_t worker, uint32_t slot, float weight,
                  bool begins)
{
    if (round != state->round)
        return;
    const tarry_plan *plan = state->plan;
    uint32_t chunk = plan->slot_chunk[plan->worker_offset[worker] + slot];
    const float *gradient = state->gradients + chunk * state->dimension;
    layout cut = cut_for(state, 1);
    state->kernels->combine(stripe_of_part(state, &cut, worker, 0), &gradient, &weight, 1,
                            state->dimension, begins ? KERNEL_SET : KERNEL_ADD);
}

int vectors_encode_for(vectors *state, uint64_t round, uint32_t worker, uint32_t parts,
                       uint32_t stripe, const uint64_t *psi, const uint64_t *stale)
{
    int error = coefficients_of_worker(state->solver, parts, worker, psi, state->rows);
    if (error == TARRY_OK)
        vectors_encode(state, round, worker, parts, stripe, state->rows, stale);
    return error;
}

void vectors_clear(vectors *state, uint32_t parts, uint32_t stripe)
{
    layout cut = cut_for(state, parts);
    for (uint32_t part = 0; part < parts; part++) {
        size_t present = layout_present(&cut, part, stripe);
        if (present > 0)
            memset(state->estimate + part * cut.part_length + layout_stripe_start(&cut, stripe), 0,
                   present * sizeof(float));
    }
}

void vectors_send(vectors *state, uint64_t round, uint32_t attempt, uint32_t worker,
                  uint32_t stripe)
{
    if (round != state->round || state->lost == NULL)
        return;
    layout cut = cut_for(state, 1);
    size_t start = layout_stripe_start(&cut, stripe), length = layout_stripe_length(&cut, stripe);
    float *sent = state->sent + worker * state->room + start;
    const compress_form form = form_of_stripe(
        form_with(form_in_round(state->form, state->dense, round), state->factor), &cut, stripe);
    residuals_encode(state->lost[worker], stripe, form, stripe_of_part(state, &cut, worker, stripe),
                     compress_key(state->seed, round, attempt, worker, stripe), state->packed);
    memset(sent, 0, length * sizeof(*sent));
    compress_decode_add(form, state->packed, length, 1, sent);
}

void vectors_settle(vectors *state, uint32_t worker, const uint64_t *stood, const uint64_t *voids)
{
    layout cut = cut_for(state, 1);
    for (uint32_t stripe = 0; state->lost != NULL && stripe < cut.stripes; stripe++) {
        if (bitset_test(stood, stripe))
            residuals_commit(state->lost[worker], stripe);
        if (bitset_test(voids, stripe))
            residuals_void(state->lost[worker], stripe);
    }
}

void vectors_forget(vectors *state, uint32_t worker)
{
    layout cut = cut_for(state, 1);
    for (uint32_t stripe = 0; state->lost != NULL && stripe < cut.stripes; stripe++)
        residuals_void(state->lost[worker], stripe);
}

/* As the worker sent it, and the server reads it. */
static void combine_packed(vectors *state, uint32_t attempt, uint32_t worker, const layout *cut,
                           uint32_t stripe)
{
    size_t length = layout_stripe_length(cut, stripe);
    uint64_t key = compress_key(state->seed, state->round, attempt, worker, stripe);
    const compress_form form = form_of_stripe(state->form, cut, stripe);
    compress_encode(form, stripe_of_part(state, cut, worker, stripe), length, key, state->packed);
    compress_decode_add(form, state->packed, length, state->weights[0],
                        state->estimate + layout_stripe_start(cut, stripe));
}

void vectors_combine(vectors *state, uint32_t attempt, uint32_t worker, uint32_t parts,
                     uint32_t stripe, double scale)
{
    const tarry_plan *plan = state->plan;
    layout cut = cut_for(state, parts);
    const float *z = stripe_of_part(state, &cut, worker, stripe);
    const double *decode = plan_decode(plan, parts);
    for (uint32_t part = 0; part < parts; part++)
        state->weights[part] = (float)(scale * decode[(size_t)part * plan->workers + worker]);
    if (state->lost != NULL)
        z = state->sent + worker * state->room + layout_stripe_start(&cut, stripe);
    if (state->lost == NULL && state->form.kind != TARRY_COMPRESS_NONE)
        combine_packed(state, attempt, worker, &cut, stripe);
    else
        transfer_decode(state->kernels, &cut, stripe, &z, state->weights, 1, true, state->estimate);
}

void vectors_send_sum(vectors *state, uint32_t stripe)
{
    if (state->down.kind == TARRY_COMPRESS_NONE)
        return;
    const layout cut = cut_for(state, 1);
    const size_t length = layout_stripe_length(&cut, stripe);
    const compress_form form = form_of_stripe(state->down, &cut, stripe);
    float *numbers = state->estimate + layout_stripe_start(&cut, stripe);
    const uint32_t nobody = state->plan->workers; /* no worker's part has this key */
    compress_encode(form, numbers, length,
                    compress_key(state->seed, state->round, 0, nobody, stripe), state->packed);
    memset(numbers, 0, length * sizeof(*numbers));
    compress_decode_add(form, state->packed, length, 1, numbers);
}

const float *vectors_estimate(const vectors *state)
{
    return state->estimate;
}

const double *vectors_truth(const vectors *state)
{
    return state->truth;
}
