/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_scores.h"

#include <math.h>
#include <pthread.h>

#include "base/memory.h"

struct train_scores {
    train_scores_settings of;
    round_tally *tallies; /* of `gradients` */
    objective_workspace *work;
    const float *parameters;
    objective_score train, test;
    pthread_t thread;
    bool beside;  /* the thread is at work */
    bool stopped; /* before the scores were complete */
};

int train_scores_create(const train_scores_settings *settings, train_scores **out)
{
    train_scores *state = memory_allocate(NULL, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->of = *settings;
    state->train = (objective_score){NAN, NAN};
    int error = objective_workspace_create(settings->model, OBJECTIVE_SINGLE, NULL, &state->work);
    if (error == TARRY_OK && settings->gradients != NULL) {
        error = round_tally_create(settings->plan, &state->tallies);
        chunk_gradient_note_in(settings->gradients, state->tallies);
    }
    if (error == TARRY_OK)
        *out = state;
    else
        train_scores_free(state);
    return error;
}

void train_scores_free(train_scores *state)
{
    if (state == NULL)
        return;
    if (state->of.gradients != NULL)
        chunk_gradient_note_in(state->of.gradients, NULL);
    round_tally_free(state->tallies);
    objective_workspace_free(state->work);
    memory_release(NULL, state);
}

int train_scores_replan(train_scores *state, const tarry_plan *plan)
{
    state->of.plan = plan;
    return state->tallies == NULL ? TARRY_OK : round_tally_replan(state->tallies, plan);
}

static void evaluate_on(train_scores *state, const dataset *data, objective_score *score)
{
    const train_scores_settings *of = &state->of;
    objective_tally tally = {0};
    state->stopped =
        state->stopped || !objective_add_tally(of->model, state->work, data, state->parameters, 0,
                                               data->rows, &of->stop, &tally);
    if (!state->stopped)
        *score = objective_score_of(of->model, state->parameters, &tally, data->rows);
}

static void *evaluate(void *user)
{
    train_scores *state = user;
    const train_scores_settings *of = &state->of;
    if (of->gradients == NULL && of->train != NULL)
        evaluate_on(state, of->train, &state->train);
    if (of->test != NULL)
        evaluate_on(state, of->test, &state->test);
    return NULL;
}

void train_scores_begin(train_scores *state, const float *parameters)
{
    state->parameters = parameters;
    state->stopped = false;
    if ((state->of.gradients != NULL || state->of.train == NULL) && state->of.test == NULL)
        return;
    state->beside = pthread_create(&state->thread, NULL, evaluate, state) == 0;
    if (!state->beside)
        evaluate(state);
}

/* A round_tally_fill. */
static void add_chunk(void *user, uint32_t chunk, objective_tally *tally)
{
    train_scores *state = user;
    const train_scores_settings *of = &state->of;
    for (uint32_t i = 0; i < tarry_plan_span_count(of->plan, chunk) && !state->stopped; i++)
        state->stopped =
            !chunk_gradient_add_tally(of->gradients, state->parameters,
                                      tarry_plan_span(of->plan, chunk, i), &of->stop, tally);
}

void train_scores_drop(train_scores *state)
{
    if (state->beside)
        pthread_join(state->thread, NULL);
    state->beside = false;
}

bool train_scores_end(train_scores *state, uint64_t round, objective_score *train,
                      objective_score *test)
{
    train_scores_drop(state);
    if (state->of.gradients != NULL) {
        objective_tally tally = {0};
        round_tally_sum(state->tallies, round, add_chunk, state, &tally);
        state->train =
            objective_score_of(state->of.model, state->parameters, &tally, state->of.train->rows);
    }
    if (state->stopped)
        return false;
    *train = state->train;
    if (state->of.test != NULL)
        *test = state->test;
    return true;
}
