/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_curve.h"

#include <math.h>

#include "base/memory.h"
#include "coding/coverage.h"

typedef struct curve {
    const tarry_plan *plan;
    tarry_credit credit;
    const real_list *deadlines;
    double *errors;
    size_t next; /* the first deadline that is not past */
    coverage *covered;
    uint32_t *finished; /* by worker */
    int error;
} curve;

/* The deadlines before `now` see what is credited by then. */
static void pass(curve *state, uint64_t now)
{
    while (state->next < state->deadlines->count &&
           ceil(state->deadlines->values[state->next] * 1e9) < (double)now)
        state->errors[state->next++] =
            coverage_expected_error(state->covered, tarry_plan_least_parts(state->plan));
}

static int credit(curve *state, uint32_t worker, uint32_t slot)
{
    if (state->credit == TARRY_CREDIT_CHUNK)
        return coverage_add(state->covered, worker, slot);
    uint32_t load = tarry_plan_load(state->plan, worker);
    int error = TARRY_OK;
    if (++state->finished[worker] < load)
        return error;
    for (uint32_t position = 0; position < load && error == TARRY_OK; position++)
        error = coverage_add(state->covered, worker, position);
    return error;
}

static void observe(void *user, uint64_t now, uint32_t node, const tarry_event *event,
                    const tarry_effects *effects)
{
    curve *state = user;
    if (node != TARRY_SIM_SERVER || event->type != TARRY_EVENT_MESSAGE ||
        event->message->type != TARRY_MESSAGE_REPORT || event->message->failed)
        return;
    if (effects->count > 0 && effects->items[0].type == TARRY_EFFECT_REJECT)
        return;
    pass(state, now);
    if (state->error == TARRY_OK)
        state->error = credit(state, event->worker, event->message->slot);
}

static int run(const tarry_plan *plan, const tarry_sim_settings *settings,
               tarry_round_result *result)
{
    tarry_sim *sim;
    int error = tarry_sim_create(plan, settings, NULL, &sim, NULL);
    if (error != TARRY_OK)
        return error;
    error = tarry_sim_round(sim, result);
    tarry_sim_free(sim);
    return error;
}

static int by_reports(const tarry_plan *plan, tarry_sim_settings *settings,
                      const real_list *deadlines, double *errors)
{
    curve state = {
        .plan = plan,
        .credit = settings->server.credit,
        .deadlines = deadlines,
        .errors = errors,
        .finished = memory_allocate(NULL, tarry_plan_workers(plan), sizeof(*state.finished)),
    };
    tarry_round_result result;
    int error = state.finished != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
    if (error == TARRY_OK)
        error = coverage_create(plan, settings->server.conditioning_limit, NULL, &state.covered);
    if (error == TARRY_OK) {
        settings->observer = observe;
        settings->user = &state;
        settings->server.deadline_ns =
            (uint64_t)ceil(deadlines->values[deadlines->count - 1] * 1e9);
        error = run(plan, settings, &result);
    }
    if (error == TARRY_OK)
        error = state.error;
    if (error == TARRY_OK)
        pass(&state, TARRY_NEVER);
    coverage_free(state.covered);
    memory_release(NULL, state.finished);
    return error;
}

static int one_by_one(const tarry_plan *plan, tarry_sim_settings *settings,
                      const real_list *deadlines, double *errors)
{
    settings->observer = NULL;
    for (size_t i = 0; i < deadlines->count; i++) {
        tarry_round_result result;
        settings->server.deadline_ns = (uint64_t)ceil(deadlines->values[i] * 1e9);
        int error = run(plan, settings, &result);
        if (error != TARRY_OK)
            return error;
        errors[i] = result.error == TARRY_OK ? result.expected_error : 1;
    }
    return TARRY_OK;
}

static bool any_dies(const tarry_plan *plan, const tarry_straggler *straggler, uint64_t round)
{
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++) {
        uint32_t position;
        if (tarry_straggler_fails(straggler, round, worker, tarry_plan_load(plan, worker),
                                  &position))
            return true;
    }
    return false;
}

static int by_model(const tarry_plan *plan, const baseline_settings *own,
                    const tarry_sim_settings *settings, const real_list *deadlines, double *errors)
{
    baseline_settings endless = *own;
    baseline *model;
    tarry_round_result result;
    endless.deadline_ns = TARRY_NEVER;
    int error = baseline_create(plan, &endless, settings, NULL, &model, NULL);
    if (error != TARRY_OK)
        return error;
    error = baseline_round(model, &result);
    uint32_t chunks = tarry_plan_chunks(plan);
    for (size_t i = 0; i < deadlines->count && error == TARRY_OK; i++) {
        uint32_t missing = 0;
        for (uint32_t piece = 0; piece < chunks; piece++)
            missing += (double)baseline_known_ns(model)[piece] > ceil(deadlines->values[i] * 1e9);
        errors[i] = (double)missing / chunks;
    }
    baseline_free(model);
    return error;
}

int simulate_curve(const tarry_plan *plan, const baseline_settings *own,
                   const tarry_sim_settings *settings, const real_list *deadlines, uint64_t round,
                   double *errors)
{
    if (own->kind != BASELINE_NONE)
        return by_model(plan, own, settings, deadlines, errors);
    tarry_sim_settings ends = *settings;
    ends.server.stop = TARRY_STOP_DEADLINE;
    /* What was there by then, without what stands in for more. */
    ends.server.fill = TARRY_FILL_NONE;
    ends.vectors = false;
    /* At a deadline workers are asked for what they have. */
    if (ends.upload == TARRY_SIM_UPLOAD_WHOLE && ends.server.credit == TARRY_CREDIT_CHUNK)
        ends.upload = TARRY_SIM_UPLOAD_CODED;
    if (any_dies(plan, ends.straggler, round))
        return one_by_one(plan, &ends, deadlines, errors);
    return by_reports(plan, &ends, deadlines, errors);
}
