/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train_job.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/chunk_gradient.h"
#include "cli/clock.h"
#include "cli/complain.h"
#include "cli/interrupt.h"
#include "cli/keep.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/verify.h"

struct train_job {
    train_inputs inputs;
    size_t dimension;
    tarry_keep keep;
    double samples; /* that a round sums */
    objective *model;
    objective_workspace *evaluation;
    optimizer *optimizer;
    chunk_gradient *gradients;
    float *parameters, *sum, *gradient;
    double *truth; /* with --verify */
    double *costs; /* of the round's chunks; NULL: not given */
    interrupt *signals;
    _Atomic(tarry_local *) local;
    tarry_plan *evolved; /* what rounds go by; NULL: still that of the inputs */
    progress progress;
};

static void stop_round(void *user)
{
    train_job *job = user;
    tarry_local *local = atomic_load(&job->local);
    if (local != NULL)
        tarry_local_interrupt(local);
}

static int create_model(train_job *job, tarry_diagnostic *why)
{
    const train_options *options = job->inputs.options;
    objective_settings settings = {
        .model = options->model,
        .features = job->inputs.train->features,
        .classes = job->inputs.train->classes,
        .hidden_layers = options->hidden_layers,
        .intercept = options->intercept,
        .l2 = options->l2,
    };
    memcpy(settings.hidden, options->hidden_widths, sizeof(settings.hidden));
    int error = objective_create(&settings, NULL, &job->model, why);
    if (error != TARRY_OK)
        return error;
    job->dimension = objective_dimension(job->model);
    job->keep = options->keep == KEEP_AUTO
                    ? keep_choose(job->inputs.plan, &options->server, job->dimension)
                    : (tarry_keep)options->keep;
    return TARRY_OK;
}

/*
 * Memory is promised freely and missing only once it is used, when the system kills someone. So
 * what every run takes at least is held against what the machine has: a wrong index in a data file,
 * which makes the parameters many, is then an error like others.
 */
static int check_memory(const train_job *job, tarry_diagnostic *why)
{
    const tarry_plan *plan = job->inputs.plan;
    double copies = job->keep == TARRY_KEEP_ALL
                        ? (double)tarry_plan_chunks(plan) * tarry_plan_least_parts(plan)
                        : 3 * (double)tarry_plan_workers(plan);
    double vectors = 3; /* see create_vectors */
    double needed = (copies + vectors) * (double)job->dimension * sizeof(float);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0 || needed <= (double)pages * (double)page)
        return TARRY_OK;
    char parameters[NUMBER_TEXT_SIZE], need[NUMBER_TEXT_SIZE], have[NUMBER_TEXT_SIZE];
    whole_text(job->dimension, parameters);
    bytes_text(needed, need);
    bytes_text((double)pages * (double)page, have);
    return diagnose(why, TARRY_ERROR_NO_MEMORY,
                    "%s parameters take at least %s, and this machine has %s", parameters, need,
                    have);
}

static int create_vectors(train_job *job)
{
    job->parameters = vector_allocate(NULL, job->dimension);
    job->sum = vector_allocate(NULL, job->dimension);
    job->gradient = vector_allocate(NULL, job->dimension);
    if (job->parameters == NULL || job->sum == NULL || job->gradient == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (job->inputs.costs != NULL) {
        job->costs = memory_allocate(NULL, tarry_plan_chunks(job->inputs.plan), sizeof(double));
        if (job->costs == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    if (job->inputs.options->verify) {
        job->truth = memory_allocate(NULL, job->dimension, sizeof(*job->truth));
        if (job->truth == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    objective_initial(job->model, job->inputs.options->plan.plan.seed, job->parameters);
    return TARRY_OK;
}

static int create_gradients(train_job *job)
{
    const train_options *options = job->inputs.options;
    const batch_settings batch = {
        .rows = job->inputs.train->rows,
        .chunks = tarry_plan_chunks(job->inputs.plan),
        .batch = options->batch,
        .seed = options->plan.plan.seed,
    };
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = options->plan.plan.workers;
    if (cores >= 1 && (unsigned long)cores < threads)
        threads = (uint32_t)cores;
    int error =
        chunk_gradient_create(job->model, job->inputs.train, &batch, threads, &job->gradients);
    if (error == TARRY_OK)
        job->samples = (double)chunk_gradient_samples(job->gradients);
    return error;
}

static int create_local(train_job *job, tarry_diagnostic *why)
{
    tarry_local_settings settings;
    tarry_local_settings_init(&settings);
    /* All that the runtime chooses itself stays as it came. */
    tarry_server_settings chosen = settings.server;
    settings.server = job->inputs.options->server;
    settings.server.pick = job->inputs.options->plan.pick;
    settings.server.learn_costs = strcmp(job->inputs.options->chunk_cost, "equal") != 0;
    settings.server.dimension = chosen.dimension;
    settings.server.stripe_length = chosen.stripe_length;
    settings.server.keep = job->keep;
    settings.parameters = job->dimension;
    settings.dimension = job->dimension;
    settings.compute_spans = chunk_gradient_compute;
    settings.user = job->gradients;
    settings.straggler = job->inputs.straggler;
    tarry_local *local;
    int error = tarry_local_create(job->inputs.plan, &settings, NULL, &local, why);
    if (error == TARRY_OK)
        atomic_store(&job->local, local);
    return error;
}

int train_job_create(const train_inputs *inputs, train_job **out)
{
    const train_options *options = inputs->options;
    train_job *job = memory_allocate(NULL, 1, sizeof(*job));
    if (job == NULL)
        return complain(EXIT_FAILED, "train: out of memory");
    job->inputs = *inputs;
    tarry_diagnostic why = {""};
    int error = create_model(job, &why);
    if (error == TARRY_OK)
        error = check_memory(job, &why);
    if (error == TARRY_OK)
        error = create_vectors(job);
    if (error == TARRY_OK)
        error = objective_workspace_create(job->model, NULL, &job->evaluation);
    if (error == TARRY_OK)
        error = optimizer_create(options->optimizer, options->rate, job->dimension, NULL,
                                 &job->optimizer);
    if (error == TARRY_OK)
        error = create_gradients(job);
    if (error == TARRY_OK)
        error = interrupt_begin(stop_round, job, &job->signals);
    if (error == TARRY_OK)
        error = create_local(job, &why);
    if (error == TARRY_OK) {
        *out = job;
        return OPTIONS_PROCEED;
    }
    train_job_free(job);
    return complain(EXIT_FAILED, "train: %s",
                    why.text[0] != '\0' ? why.text : tarry_error_text(error));
}

void train_job_free(train_job *job)
{
    if (job == NULL)
        return;
    /* The signals' thread uses the runtime, the runtime's threads the gradients. */
    interrupt_end(job->signals);
    tarry_local_free(atomic_load(&job->local));
    tarry_plan_free(job->evolved);
    chunk_gradient_free(job->gradients);
    optimizer_free(job->optimizer);
    objective_workspace_free(job->evaluation);
    memory_release(NULL, job->costs);
    memory_release(NULL, job->truth);
    vector_release(NULL, job->gradient);
    vector_release(NULL, job->sum);
    vector_release(NULL, job->parameters);
    objective_free(job->model);
    memory_release(NULL, job);
}

static void evaluate(train_job *job, objective_score *train, objective_score *test)
{
    *train = objective_evaluate(job->model, job->evaluation, job->inputs.train, job->parameters);
    if (job->inputs.test != NULL)
        *test = objective_evaluate(job->model, job->evaluation, job->inputs.test, job->parameters);
}

__attribute__((format(printf, 2, 3))) static void end_early(history *past, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(past->error, sizeof(past->error), format, arguments);
    va_end(arguments);
}

static void explain_round_error(const train_job *job, history *past, int error,
                                const tarry_diagnostic *why)
{
    const train_options *options = job->inputs.options;
    if (error == TARRY_ERROR_INTERRUPTED) {
        past->interrupted = true;
        end_early(past, "interrupted after %zu of %" PRIu64 " rounds", past->count,
                  options->rounds);
        return;
    }
    const char *advice = "";
    if (error == TARRY_ERROR_COVERAGE)
        advice = "; --stop deadline:SECONDS or --stop error:EPS goes on without them";
    if (why->text[0] != '\0')
        end_early(past, "%s%s", why->text, advice);
    else
        end_early(past, "round %zu: %s%s", past->count, tarry_error_text(error), advice);
}

/* Takes the optimizer's step along the round's estimate, and checks it first if asked to. */
static void use_estimate(train_job *job, history_round *round)
{
    if (job->truth != NULL) {
        chunk_gradient_sum(job->gradients, round->result.round, job->parameters, job->truth);
        verify_estimate(job->truth, job->sum, job->dimension, &round->verified_error,
                        &round->verified_squared_error);
    }
    objective_regularise(job->model, job->parameters, job->sum, job->samples, job->gradient);
    optimizer_step(job->optimizer, job->gradient, job->parameters);
}

static void report_progress(train_job *job, const history *past)
{
    const tarry_round_result *result = &past->rounds[past->count - 1].result;
    char detail[128];
    snprintf(detail, sizeof(detail), "loss %.5g  %.2f copies/chunk  %u/%u heard",
             past->train_end.loss, history_copies_per_chunk(result), result->workers_heard,
             past->workers);
    progress_update(&job->progress, past->count, detail);
}

/* Lets the plan follow what was learned, if it is time to. */
static int adapt(train_job *job, uint64_t round, tarry_plan_changes *changes, tarry_diagnostic *why)
{
    const adapt_rule *rule = &job->inputs.options->adapt_rule;
    tarry_local *local = atomic_load(&job->local);
    tarry_plan *next = NULL;
    if (!adapt_due(rule, round))
        return TARRY_OK;
    int error =
        adapt_plan(rule, tarry_local_server(local), train_job_plan(job), &next, changes, why);
    if (error != TARRY_OK || next == NULL)
        return error;
    error = tarry_local_replan(local, next, why);
    if (error != TARRY_OK) {
        tarry_plan_free(next);
        return error;
    }
    tarry_plan_free(job->evolved);
    job->evolved = next;
    return TARRY_OK;
}

/* What the round's chunks cost, where that is given. */
static int give_costs(train_job *job, uint64_t round)
{
    const plan_options *plan = &job->inputs.options->plan;
    if (job->costs == NULL)
        return TARRY_OK;
    chunk_cost_draw(job->inputs.costs, plan->plan.seed, round, plan->plan.chunks, plan->plan.pieces,
                    job->costs);
    if (job->evolved == NULL)
        return tarry_local_costs(atomic_load(&job->local), job->costs);
    double *carried = memory_allocate(NULL, tarry_plan_chunks(job->evolved), sizeof(*carried));
    if (carried == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = tarry_plan_carry_cost(job->inputs.plan, job->costs, job->evolved, NULL, carried);
    if (error == TARRY_OK)
        error = tarry_local_costs(atomic_load(&job->local), carried);
    memory_release(NULL, carried);
    return error;
}

/* One round; false if the run is to end here. */
static bool run_round(train_job *job, history *past)
{
    const train_options *options = job->inputs.options;
    tarry_diagnostic why = {""};
    tarry_round_result result;
    tarry_plan_changes changes = {0};
    int error = interrupt_seen(job->signals) ? TARRY_ERROR_INTERRUPTED
                                             : adapt(job, past->count, &changes, &why);
    if (error == TARRY_OK)
        error = give_costs(job, past->count);
    if (error == TARRY_OK)
        error =
            tarry_local_round(atomic_load(&job->local), job->parameters, job->sum, &result, &why);
    if (error != TARRY_OK) {
        explain_round_error(job, past, error, &why);
        return false;
    }
    history_round *round = history_add(past);
    if (round == NULL) {
        end_early(past, "out of memory after %zu rounds", past->count);
        return false;
    }
    round->result = result;
    round->changes = changes;
    round->seconds = (double)(result.end_ns - result.start_ns) * 1e-9;
    use_estimate(job, round);
    if (past->count % options->evaluate == 0 || past->count == options->rounds) {
        evaluate(job, &round->train, &round->test);
        past->train_end = round->train;
        past->test_end = round->test;
        if (!isfinite(round->train.loss)) {
            end_early(past, "the loss is not finite after round %zu: try a smaller --rate than %g",
                      past->count, options->rate);
            return false;
        }
    }
    report_progress(job, past);
    return past->count < options->rounds;
}

static void describe_job(const train_job *job, char *text, size_t size)
{
    const train_options *options = job->inputs.options;
    const dataset *train = job->inputs.train;
    char samples[NUMBER_TEXT_SIZE], parameters[NUMBER_TEXT_SIZE];
    whole_text(train->rows, samples);
    whole_text(job->dimension, parameters);
    snprintf(text, size,
             "training %s on %s samples of %u features (%s parameters): %u workers, %u %s, "
             "%" PRIu64 " rounds",
             train_model_name(options->model), samples, train->features, parameters,
             options->plan.plan.workers, tarry_plan_chunks(job->inputs.plan),
             plan_unit_name(&options->plan), options->rounds);
}

int train_job_run(train_job *job, history *past)
{
    const train_options *options = job->inputs.options;
    double start = clock_seconds();
    char what[256];
    describe_job(job, what, sizeof(what));
    evaluate(job, &past->train_start, &past->test_start);
    past->train_end = past->train_start;
    past->test_end = past->test_start;
    progress_begin(&job->progress, 0, options->rounds, "round", options->quiet, what);
    while (run_round(job, past)) {
    }
    progress_end(&job->progress);
    if (past->count > 0 && isnan(past->rounds[past->count - 1].train.loss) &&
        isfinite(past->train_end.loss)) {
        history_round *last = &past->rounds[past->count - 1];
        evaluate(job, &last->train, &last->test);
        past->train_end = last->train;
        past->test_end = last->test;
    }
    for (uint32_t worker = 0; worker < past->workers; worker++)
        past->worker[worker] = tarry_local_worker_state(atomic_load(&job->local), worker);
    past->seconds = clock_seconds() - start;
    return past->error[0] == '\0' ? EXIT_DONE : complain(EXIT_FAILED, "train: %s", past->error);
}

tarry_keep train_job_keep(const train_job *job)
{
    return job->keep;
}

size_t train_job_dimension(const train_job *job)
{
    return job->dimension;
}

const float *train_job_parameters(const train_job *job)
{
    return job->parameters;
}

const tarry_plan *train_job_plan(const train_job *job)
{
    return job->evolved != NULL ? job->evolved : job->inputs.plan;
}
