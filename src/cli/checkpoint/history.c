/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/history.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

static const objective_score unknown = {NAN, NAN};
static const verified_round unverified = {NAN, NAN, NAN};

const history_round history_blank_round = {
    .train = {NAN, NAN},
    .test = {NAN, NAN},
    .verified = {NAN, NAN, NAN},
};

int history_create(uint32_t workers, uint32_t chunks, history **out)
{
    history *past = memory_allocate(NULL, 1, sizeof(*past));
    if (past == NULL)
        return TARRY_ERROR_NO_MEMORY;
    past->worker = memory_allocate(NULL, workers, sizeof(*past->worker));
    past->earlier = memory_allocate(NULL, workers, sizeof(*past->earlier));
    if (past->worker == NULL || past->earlier == NULL) {
        history_free(past);
        return TARRY_ERROR_NO_MEMORY;
    }
    past->workers = workers;
    past->chunks = chunks;
    past->train_end = past->test_end = unknown;
    *out = past;
    return TARRY_OK;
}

void history_free(history *past)
{
    if (past == NULL)
        return;
    memory_release(NULL, past->earlier);
    memory_release(NULL, past->worker);
    memory_release(NULL, past->rounds);
    memory_release(NULL, past);
}

history_round *history_add(history *past)
{
    if (past->count == past->capacity) {
        size_t capacity = past->capacity == 0 ? 128 : past->capacity * 2;
        history_round *rounds = memory_allocate(NULL, capacity, sizeof(*rounds));
        if (rounds == NULL)
            return NULL;
        if (past->count > 0)
            memcpy(rounds, past->rounds, past->count * sizeof(*rounds));
        memory_release(NULL, past->rounds);
        past->rounds = rounds;
        past->capacity = capacity;
    }
    history_round *round = &past->rounds[past->count++];
    *round = history_blank_round;
    return round;
}

objective_score history_train(const history *past, size_t rounds)
{
    return rounds < past->count ? past->rounds[rounds].train : past->train_end;
}

objective_score history_test(const history *past, size_t rounds)
{
    return rounds < past->count ? past->rounds[rounds].test : past->test_end;
}

double history_seconds(const tarry_worker_state *worker)
{
    return worker->chunks > 0 && worker->seconds == 0 ? NAN : worker->seconds;
}

double history_copies_per_chunk(const tarry_round_result *result)
{
    return (double)result->copies_computed * result->parts / (double)result->copies_needed;
}

size_t history_raised_rounds(const history *past, double *conditioning, double *error_bound)
{
    size_t rounds = 0;
    *conditioning = *error_bound = 0;
    for (size_t i = 0; i < past->count; i++) {
        const tarry_round_result *result = &past->rounds[i].result;
        rounds += result->conditioning > 0;
        *conditioning = fmax(*conditioning, result->conditioning);
        *error_bound = fmax(*error_bound, result->error_bound);
    }
    return rounds;
}

verified_round history_worst(const history *past)
{
    verified_round worst = unverified;
    for (size_t i = 0; i < past->count; i++) {
        const verified_round *round = &past->rounds[i].verified;
        worst.error = fmax(worst.error, round->error);
        worst.squared_error = fmax(worst.squared_error, round->squared_error);
        worst.model_rounding = fmax(worst.model_rounding, round->model_rounding);
    }
    return worst;
}
