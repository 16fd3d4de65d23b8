/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_trials.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <tarry/sim.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/random.h"
#include "cli/options/options.h"
#include "cli/output/clock.h"
#include "cli/output/event_log.h"
#include "cli/output/interrupt.h"
#include "cli/simulate/simulate_options.h"
#include "cli/text/complain.h"
#include "coding/coefficients.h"
#include "sim/baseline.h"
#include "sim/chunk_cost.h"
#include "straggler/straggler.h"

/* One of the two is there. */
typedef struct simulate_world {
    tarry_sim *sim;
    baseline *model;
} simulate_world;

/* The expected error that a round would end with at each of many deadlines. */

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
        state->errors[state->next++] = coverage_expected_error(state->covered);
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

/*
 * Works out errors[i] for deadlines->values[i] seconds, one to each. What workers compute before a
 * deadline does not depend on it, so that a single round up to the last one gives all of them from
 * the server's reports; only where workers die in the middle of round `round` is each deadline
 * simulated by itself. Stop rule and observer of `settings` are not read. Errors: NO_MEMORY,
 * NUMERICAL. Of a model (own->kind): the pieces that the server knows finished by then; of
 * DropCompute if it had no deadline of its own, as the workers' one is the same.
 */
static int simulate_curve(const tarry_plan *plan, const baseline_settings *own,
                          const tarry_sim_settings *settings, const real_list *deadlines,
                          uint64_t round, double *errors)
{
    if (own->kind != BASELINE_NONE)
        return by_model(plan, own, settings, deadlines, errors);
    tarry_sim_settings ends = *settings;
    ends.server.stop = TARRY_STOP_DEADLINE;
    /* What was there by then, without what stands in for more. */
    ends.server.fill = TARRY_FILL_NONE;
    /* At a deadline workers are asked for what they have. */
    if (ends.upload == TARRY_SIM_UPLOAD_WHOLE && ends.server.credit == TARRY_CREDIT_CHUNK)
        ends.upload = TARRY_SIM_UPLOAD_CODED;
    if (any_dies(plan, ends.straggler, round))
        return one_by_one(plan, &ends, deadlines, errors);
    return by_reports(plan, &ends, deadlines, errors);
}

/* What runs the rounds of a variant: the machines of tarry/sim.h, or a model of sim/baseline.h. */

/* As tarry_sim_create and baseline_create; own->kind says which. */
static int simulate_world_create(const tarry_plan *plan, const baseline_settings *own,
                                 const tarry_sim_settings *settings, simulate_world *world,
                                 tarry_diagnostic *diagnostic)
{
    *world = (simulate_world){NULL, NULL};
    return own->kind == BASELINE_NONE
               ? tarry_sim_create(plan, settings, NULL, &world->sim, diagnostic)
               : baseline_create(plan, own, settings, NULL, &world->model, diagnostic);
}

static void simulate_world_free(simulate_world *world)
{
    tarry_sim_free(world->sim);
    baseline_free(world->model);
}

/* As tarry_sim_costs. */
static int simulate_world_costs(simulate_world *world, const double *costs,
                                tarry_diagnostic *diagnostic)
{
    return world->sim != NULL ? tarry_sim_costs(world->sim, costs, diagnostic)
                              : baseline_costs(world->model, costs, diagnostic);
}

/* As tarry_sim_round. */
static int simulate_world_round(simulate_world *world, tarry_round_result *result)
{
    return world->sim != NULL ? tarry_sim_round(world->sim, result)
                              : baseline_round(world->model, result);
}

/* ---- trials ---- */

/* What the threads share. */
typedef struct crew {
    simulate_trials *trials;
    atomic_size_t next; /* trial to be taken */
    atomic_bool stop;
    pthread_mutex_t lock; /* for all below, and for trials->done_count and ->error */
    uint64_t runs;        /* trials of single variants that are done */
    progress progress;
} crew;

/* Of 63 bits, so that --seed takes it. */
static uint64_t trial_seed(uint64_t seed, size_t trial)
{
    random_stream stream = random_stream_make(seed, RANDOM_TRIAL, (uint32_t)trial, 0);
    return random_u64(&stream) >> 1;
}

static int make_plan(const simulate_variant *variant, uint64_t seed, tarry_plan **plan,
                     tarry_diagnostic *diagnostic)
{
    tarry_plan_settings settings = variant->run.settings.plan;
    settings.seed = seed;
    return tarry_plan_create(&settings, NULL, plan, diagnostic);
}

/* What all variants meet in one trial. */
typedef struct trial_draws {
    size_t trial;
    uint64_t seed;
    tarry_straggler *straggler;
    /* By piece, of one round after the other, with room for any variant's; NULL: all 1. */
    double *costs;
    double *uncoded; /* by round: what it takes without a code; NULL: not asked for */
} trial_draws;

static tarry_sim_settings make_settings(const simulate_trials *trials,
                                        const simulate_variant *variant, const trial_draws *draws)
{
    tarry_sim_settings settings = variant->sim;
    settings.straggler = draws->straggler;
    settings.chunk_cost = draws->costs;
    settings.seed = draws->seed;
    settings.first_round = (uint64_t)draws->trial * trials->options->rounds;
    return settings;
}

static double bound_seconds(uint64_t time_ns)
{
    return time_ns == TARRY_NEVER ? INFINITY : (double)time_ns * 1e-9;
}

/* The last step before a round: its chunk costs, for the world and for the bounds. */
static int draw_costs(const simulate_trials *trials, const trial_draws *draws, uint32_t pieces,
                      uint64_t round, simulate_world *world, tarry_diagnostic *diagnostic)
{
    if (draws->costs == NULL)
        return TARRY_OK;
    chunk_cost_draw(trials->costs, draws->seed, round, trials->options->chunks, pieces,
                    draws->costs);
    return simulate_world_costs(world, draws->costs, diagnostic);
}

static int run_round(simulate_world *world, simulate_outcome *outcome, tarry_diagnostic *diagnostic)
{
    const tarry_round_result *result = &outcome->result;
    int error = simulate_world_round(world, &outcome->result);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "round: %s", tarry_error_text(error));
    if (result->error == TARRY_OK) {
        outcome->seconds = (double)(result->end_ns - result->start_ns) * 1e-9;
        if (world->sim != NULL)
            outcome->traffic = tarry_sim_last_traffic(world->sim);
    }
    return TARRY_OK;
}

static int find_bounds(const tarry_plan *plan, const tarry_sim_settings *settings, uint64_t round,
                       simulate_outcome *outcome, tarry_diagnostic *diagnostic)
{
    tarry_sim_bounds bounds;
    int error = tarry_sim_bound(plan, settings, round, tarry_plan_parts(plan), NULL, &bounds);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error, "%s", tarry_error_text(error));
    outcome->balanced = bound_seconds(bounds.balanced_ns);
    outcome->matched = bound_seconds(bounds.matched_ns);
    return TARRY_OK;
}

/* With one of its rounds the whole trial fails. */
static void fail_rounds(simulate_outcome *outcomes, uint32_t rounds, tarry_round_result result)
{
    for (uint32_t round = 0; round < rounds; round++) {
        outcomes[round].result = result;
        outcomes[round].seconds = NAN;
    }
}

/* The plan before the round, which becomes *plan and *own if it changes. */
static int adapt(const adapt_rule *rule, uint32_t round, tarry_sim *sim, const tarry_plan **plan,
                 tarry_plan **own, tarry_plan_changes *changes, tarry_diagnostic *diagnostic)
{
    tarry_plan *next = NULL;
    if (!adapt_due(rule, round))
        return TARRY_OK;
    int error = tarry_server_adapt(tarry_sim_server(sim), rule->share, NULL, NULL, &next, changes,
                                   diagnostic);
    if (error != TARRY_OK || next == NULL)
        return error;
    error = tarry_sim_replan(sim, next, diagnostic);
    if (error != TARRY_OK) {
        tarry_plan_free(next);
        return error;
    }
    tarry_plan_free(*own);
    *plan = *own = next;
    return TARRY_OK;
}

/* All data everywhere: no assignment is there to be matched. */
static void forget_matched(const simulate_variant *variant, simulate_outcome *outcome)
{
    if (variant->model.kind == BASELINE_QUEUE)
        outcome->matched = NAN;
}

/* One world for all rounds. After a failed one there are only bounds to be worked out.
 * TARRY_ERROR_INTERRUPTED if the crew is to stop. */
static int run_rounds(const crew *all, const trial_draws *draws, const simulate_variant *variant,
                      const tarry_plan *plan, const tarry_sim_settings *settings, bool bounds,
                      simulate_outcome *outcomes, tarry_diagnostic *diagnostic)
{
    const uint32_t pieces = tarry_plan_pieces(plan);
    tarry_plan *evolved = NULL;
    const uint32_t rounds = all->trials->options->rounds;
    bool failed = false;
    simulate_world world;
    int error = simulate_world_create(plan, &variant->model, settings, &world, diagnostic);
    if (error != TARRY_OK)
        return error;
    for (uint32_t round = 0; round < rounds && error == TARRY_OK; round++) {
        simulate_outcome *outcome = &outcomes[round];
        uint64_t number = settings->first_round + round;
        error = atomic_load(&all->stop)
                    ? TARRY_ERROR_INTERRUPTED
                    : draw_costs(all->trials, draws, pieces, number, &world, diagnostic);
        if (error == TARRY_OK && !failed) {
            *outcome = (simulate_outcome){.seconds = NAN};
            error = adapt(&variant->run.adapt_rule, round, world.sim, &plan, &evolved,
                          &outcome->changes, diagnostic);
            if (error == TARRY_OK)
                error = run_round(&world, outcome, diagnostic);
            failed = error == TARRY_OK && outcome->result.error != TARRY_OK;
            if (failed)
                fail_rounds(outcomes, rounds, outcome->result);
        }
        if (error == TARRY_OK && bounds)
            error = find_bounds(plan, settings, number, outcome, diagnostic);
        forget_matched(variant, outcome);
    }
    simulate_world_free(&world);
    tarry_plan_free(evolved);
    return error;
}

/* The time of each round without a code; NaN in all if the workers that are needed are lost. */
static int run_uncoded(const crew *all, const trial_draws *draws, double *seconds,
                       tarry_diagnostic *diagnostic)
{
    const simulate_trials *trials = all->trials;
    const uint32_t rounds = trials->options->rounds;
    const simulate_variant *uncoded = trials->uncoded.items;
    simulate_outcome *outcomes = memory_allocate(NULL, rounds, sizeof(*outcomes));
    if (outcomes == NULL)
        return diagnose_no_memory(diagnostic, "rounds");
    tarry_sim_settings settings = make_settings(trials, uncoded, draws);
    int error = run_rounds(all, draws, uncoded, trials->uncoded_plan, &settings, false, outcomes,
                           diagnostic);
    for (uint32_t round = 0; error == TARRY_OK && round < rounds; round++)
        seconds[round] = outcomes[round].seconds;
    memory_release(NULL, outcomes);
    return error;
}

static int run_variant(const crew *all, const trial_draws *draws, size_t index,
                       tarry_diagnostic *diagnostic)
{
    const simulate_trials *trials = all->trials;
    const simulate_variant *variant = &trials->variants->items[index];
    const real_list *deadlines = &trials->options->deadlines;
    size_t place = draws->trial * trials->variants->count + index;
    simulate_outcome *outcomes = &trials->outcomes[place * trials->options->rounds];
    tarry_plan *own = NULL;
    const tarry_plan *plan = trials->plans[index];
    int error = TARRY_OK;
    if (plan == NULL) {
        error = make_plan(variant, draws->seed, &own, diagnostic);
        plan = own;
    }
    tarry_sim_settings settings = make_settings(trials, variant, draws);
    if (error == TARRY_OK)
        error = run_rounds(all, draws, variant, plan, &settings, !trials->options->no_bounds,
                           outcomes, diagnostic);
    for (uint32_t round = 0; error == TARRY_OK && round < trials->options->rounds; round++)
        outcomes[round].uncoded = draws->uncoded != NULL ? draws->uncoded[round] : NAN;
    if (error == TARRY_OK && deadlines->count > 0) {
        error = simulate_curve(plan, &variant->model, &settings, deadlines, settings.first_round,
                               &trials->errors[place * deadlines->count]);
        if (error != TARRY_OK)
            diagnose(diagnostic, error, "%s", tarry_error_text(error));
    }
    tarry_plan_free(own);
    return error;
}

static int draw(const simulate_trials *trials, size_t trial, trial_draws *draws,
                tarry_diagnostic *diagnostic)
{
    const simulate_options *options = trials->options;
    *draws = (trial_draws){.trial = trial, .seed = trial_seed(options->seed, trial)};
    int error =
        straggler_create_measured(options->straggler, options->workers, options->worker_seconds,
                                  draws->seed, NULL, &draws->straggler, diagnostic);
    if (error == TARRY_OK && trials->uncoded.count > 0) {
        draws->uncoded = memory_allocate(NULL, options->rounds, sizeof(*draws->uncoded));
        if (draws->uncoded == NULL)
            error = diagnose_no_memory(diagnostic, "rounds");
    }
    if (error != TARRY_OK || chunk_cost_uniform(trials->costs))
        return error;
    size_t pieces = 1;
    for (size_t i = 0; i < trials->variants->count; i++) {
        size_t own = trials->variants->items[i].run.settings.plan.pieces;
        pieces = own > pieces ? own : pieces;
    }
    draws->costs = memory_allocate(NULL, options->chunks * pieces, sizeof(*draws->costs));
    return draws->costs != NULL ? TARRY_OK : diagnose_no_memory(diagnostic, "chunk costs");
}

static void finish_run(crew *all)
{
    pthread_mutex_lock(&all->lock);
    progress_update(&all->progress, ++all->runs, "");
    pthread_mutex_unlock(&all->lock);
}

/* TARRY_ERROR_INTERRUPTED if the crew is to stop. */
static int run_trial(crew *all, size_t trial, tarry_diagnostic *diagnostic)
{
    trial_draws draws;
    int error = draw(all->trials, trial, &draws, diagnostic);
    if (error == TARRY_OK && draws.uncoded != NULL)
        error = run_uncoded(all, &draws, draws.uncoded, diagnostic);
    for (size_t i = 0; i < all->trials->variants->count && error == TARRY_OK; i++) {
        error = run_variant(all, &draws, i, diagnostic);
        if (error == TARRY_OK)
            finish_run(all);
    }
    memory_release(NULL, draws.uncoded);
    memory_release(NULL, draws.costs);
    tarry_straggler_free(draws.straggler);
    return error;
}

static void finish_trial(crew *all, size_t trial, int error, const tarry_diagnostic *why)
{
    simulate_trials *trials = all->trials;
    pthread_mutex_lock(&all->lock);
    if (error == TARRY_OK) {
        trials->done[trial] = true;
        trials->done_count++;
    } else if (error != TARRY_ERROR_INTERRUPTED) {
        if (trials->error[0] == '\0')
            snprintf(trials->error, sizeof(trials->error), "trial %zu: %s", trial, why->text);
        atomic_store(&all->stop, true);
    }
    pthread_mutex_unlock(&all->lock);
}

static void *work(void *user)
{
    crew *all = user;
    for (;;) {
        size_t trial = atomic_fetch_add(&all->next, 1);
        if (trial >= all->trials->options->trials || atomic_load(&all->stop))
            return NULL;
        tarry_diagnostic why = {""};
        int error = run_trial(all, trial, &why);
        finish_trial(all, trial, error, &why);
    }
}

static void stop_crew(void *user)
{
    crew *all = user;
    atomic_store(&all->stop, true);
}

/* This thread works too, so that a machine that grants no other still gets done. */
static void run_crew(crew *all)
{
    const simulate_options *options = all->trials->options;
    pthread_t threads[SIMULATE_MOST_JOBS];
    uint32_t started = 0;
    while (started + 1 < options->jobs && started + 1 < options->trials &&
           pthread_create(&threads[started], NULL, work, all) == 0)
        started++;
    work(all);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

int simulate_trials_run(simulate_trials *trials)
{
    const simulate_options *options = trials->options;
    crew all = {.trials = trials};
    char what[256];
    snprintf(what, sizeof(what),
             "simulating %zu scheme%s: %u workers, %u chunks, straggler %s, %" PRIu64 " trials",
             trials->variants->count, trials->variants->count == 1 ? "" : "s", options->workers,
             options->chunks, options->straggler, options->trials);
    interrupt *signals;
    int error = interrupt_begin(stop_crew, &all, &signals);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "%s: %s", options->command, tarry_error_text(error));
    pthread_mutex_init(&all.lock, NULL);
    double start = clock_seconds();
    progress_begin(&all.progress, 0, options->trials * trials->variants->count, "run",
                   options->quiet, what);
    run_crew(&all);
    progress_end(&all.progress);
    trials->seconds = clock_seconds() - start;
    pthread_mutex_destroy(&all.lock);
    if (trials->error[0] == '\0' && trials->done_count < options->trials) {
        trials->interrupted = true;
        snprintf(trials->error, sizeof(trials->error),
                 "interrupted after %zu of %" PRIu64 " trials", trials->done_count,
                 options->trials);
    }
    interrupt_end(signals);
    return trials->error[0] == '\0'
               ? EXIT_DONE
               : complain(EXIT_FAILED, "%s: %s", options->command, trials->error);
}

/* A fault of a SPEC is wrong usage, one of its file is not. */
static int complain_spec(const char *option, int error, const tarry_diagnostic *why)
{
    bool usage = error == TARRY_ERROR_FORMAT || error == TARRY_ERROR_ARGUMENT;
    return complain(usage ? EXIT_USAGE : EXIT_FAILED, "%s: %s", option, why->text);
}

/* Finds the faults of the SPECs before the trials, which would all meet them. */
static int read_specs(simulate_trials *trials)
{
    const simulate_options *options = trials->options;
    tarry_diagnostic why;
    tarry_straggler *straggler;
    int error =
        straggler_create_measured(options->straggler, options->workers, options->worker_seconds,
                                  options->seed, NULL, &straggler, &why);
    if (error != TARRY_OK)
        return complain_spec("--straggler", error, &why);
    tarry_straggler_free(straggler);
    error = chunk_cost_create(options->chunk_cost, NULL, &trials->costs, &why);
    return error == TARRY_OK ? OPTIONS_PROCEED : complain_spec("--chunk-cost", error, &why);
}

static int make_plans(simulate_trials *trials)
{
    for (size_t i = 0; i < trials->variants->count; i++) {
        const simulate_variant *variant = &trials->variants->items[i];
        tarry_diagnostic why;
        int error = make_plan(variant, trials->options->seed, &trials->plans[i], &why);
        if (error != TARRY_OK)
            return complain(error == TARRY_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED,
                            "plan of %s: %s", variant->scheme, why.text);
        if (trials->options->plan_per_trial &&
            variant->run.settings.plan.design != TARRY_DESIGN_FILE) {
            tarry_plan_free(trials->plans[i]);
            trials->plans[i] = NULL;
        }
    }
    return OPTIONS_PROCEED;
}

/* What all are compared with, whatever the options say that schemes may leave open. */
static int make_uncoded(simulate_trials *trials)
{
    const simulate_options *options = trials->options;
    scheme_frame frame = simulate_options_frame(options);
    frame.last_deadline = NAN;
    scheme_settings settings;
    tarry_diagnostic why;
    scheme_settings_init(&settings);
    int error = simulate_variants_read("uncoded", &settings, &frame, &trials->uncoded, &why);
    if (error == TARRY_OK)
        error = make_plan(trials->uncoded.items, options->seed, &trials->uncoded_plan, &why);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "%s: %s", options->command, why.text);
    return OPTIONS_PROCEED;
}

int simulate_trials_create(const simulate_options *options, const simulate_variants *variants,
                           simulate_trials **out)
{
    int status = OPTIONS_PROCEED;
    simulate_trials *trials = memory_allocate(NULL, 1, sizeof(*trials));
    if (trials == NULL)
        return complain(EXIT_FAILED, "%s: out of memory", options->command);
    trials->options = options;
    trials->variants = variants;
    size_t count = (size_t)options->trials, cells = count * variants->count;
    size_t points = options->deadlines.count;
    trials->plans = memory_allocate(NULL, variants->count, sizeof(tarry_plan *));
    trials->outcomes = memory_allocate(NULL, cells, options->rounds * sizeof(*trials->outcomes));
    trials->done = memory_allocate(NULL, count, sizeof(*trials->done));
    if (points > 0)
        trials->errors = memory_allocate(NULL, cells, points * sizeof(double));
    if (trials->plans == NULL || trials->outcomes == NULL || trials->done == NULL ||
        (points > 0 && trials->errors == NULL))
        status = complain(EXIT_FAILED, "%s: out of memory for %zu trials", options->command, count);
    if (status == OPTIONS_PROCEED)
        status = read_specs(trials);
    if (status == OPTIONS_PROCEED)
        status = make_plans(trials);
    if (status == OPTIONS_PROCEED && !options->no_bounds)
        status = make_uncoded(trials);
    if (status != OPTIONS_PROCEED)
        simulate_trials_free(trials);
    else
        *out = trials;
    return status;
}

void simulate_trials_free(simulate_trials *trials)
{
    if (trials == NULL)
        return;
    for (size_t i = 0; trials->plans != NULL && i < trials->variants->count; i++)
        tarry_plan_free(trials->plans[i]);
    memory_release(NULL, trials->plans);
    tarry_plan_free(trials->uncoded_plan);
    simulate_variants_free(&trials->uncoded);
    chunk_cost_free(trials->costs);
    memory_release(NULL, trials->outcomes);
    memory_release(NULL, trials->errors);
    memory_release(NULL, trials->done);
    memory_release(NULL, trials);
}

const simulate_outcome *simulate_trials_outcomes(const simulate_trials *trials, size_t trial,
                                                 size_t variant)
{
    size_t place = trial * trials->variants->count + variant;
    return &trials->outcomes[place * trials->options->rounds];
}
