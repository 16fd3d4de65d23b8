/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/clock.h"
#include "cli/runner/runner_local.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "cli/train/runner_processes.h"
#include "cli/train/train_data.h"
#include "cli/train/train_job_state.h"
#include "cli/train/train_secure.h"
#include "compress/view.h"
#include "protocol/form.h"

/* After an interrupt, in which scores may still be worked out. */
#define SCORES_NS UINT64_C(1000000000)

static void stop_round(void *user)
{
    train_job *job = user;
    atomic_store(&job->interrupted_ns, clock_now_ns());
    pthread_mutex_lock(&job->runs_lock);
    runner *runs = atomic_load(&job->runs);
    if (runs != NULL)
        tarry_runtime_interrupt(runs->runtime);
    pthread_mutex_unlock(&job->runs_lock);
}

/* Scores of a small model are there at once; those of a large one are not worth waiting for once
 * the user wants the end. Any thread. */
static bool is_late_for_scores(void *user)
{
    train_job *job = user;
    const uint64_t since = atomic_load(&job->interrupted_ns);
    return since != 0 && clock_now_ns() - since > SCORES_NS;
}

static objective_settings model_settings(const train_job *job)
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
    return settings;
}

static batch_settings batch_of(const train_job *job)
{
    return (batch_settings){
        .rows = job->inputs.train->rows,
        .chunks = tarry_plan_chunks(job->inputs.plan),
        .batch = job->inputs.options->batch,
        .seed = job->inputs.options->run.settings.plan.seed,
    };
}

/* --compress powersgd goes by the model's. */
static int find_matrices(train_job *job, tarry_diagnostic *why)
{
    tarry_server_settings *server = &job->server;
    if (server->compress != TARRY_COMPRESS_POWERSGD)
        return TARRY_OK;
    server->compress_matrix_count = objective_matrices(job->model, job->matrices);
    server->compress_matrices = job->matrices;
    tarry_server_settings whole = *server;
    whole.stripe_length = form_stripe_length(&whole);
    const compress_lowrank low = lowrank_of(&whole);
    return lowrank_factor_numbers(&low) > 0
               ? TARRY_OK
               : diagnose(why, TARRY_ERROR_ARGUMENT,
                          "--compress powersgd:%u: the model has no matrix that is worth it: %u of "
                          "its rows and %u of its columns are more numbers than it has",
                          server->compress_rank, server->compress_rank, server->compress_rank);
}

static int create_model(train_job *job, tarry_diagnostic *why)
{
    const train_options *options = job->inputs.options;
    const objective_settings settings = model_settings(job);
    int error = objective_create(&settings, NULL, &job->model, why);
    if (error != TARRY_OK)
        return error;
    job->dimension = objective_dimension(job->model);
    job->server = run_options_server(&options->run, job->inputs.plan, job->dimension);
    job->server.compress_exact = (uint32_t)local_riding(&options->local);
    return find_matrices(job, why);
}

crew_size train_job_crew(const train_options *options, runner_create *create)
{
    const bool here = create == runner_local_create || create == runner_processes_create;
    return (crew_size){
        .workers = here ? options->run.settings.plan.workers : 0,
        .processes = create == runner_processes_create,
        .everywhere = options->run.settings.server.sum == TARRY_SUM_EVERYWHERE,
    };
}

static crew_size crew_of(const train_job *job)
{
    return train_job_crew(job->inputs.options, job->inputs.create);
}

/* What the vectors of workers on this machine take at least. */
static double bytes_of_workers(const train_job *job)
{
    const tarry_plan *plan = job->inputs.plan;
    double vector = (double)job->dimension * sizeof(float), workers = tarry_plan_workers(plan);
    double bytes = 0;
    tarry_server_settings least = job->server;
    least.ahead = least.ahead > 1 ? 1 : least.ahead; /* unused places take no memory */
    if (crew_of(job).workers == 0)
        return 0;
    if (job->server.keep == TARRY_KEEP_CREDITED)
        bytes = (double)tarry_memory_of(plan, &least, job->dimension).total;
    else
        bytes = vector * (double)tarry_plan_chunks(plan) * tarry_plan_least_parts(plan);
    if (!sums_everywhere(job))
        return bytes;
    if (job->server.keep == TARRY_KEEP_ALL)
        bytes += workers * vector; /* for the sum */
    return bytes +
           workers * (double)job_replicas_bytes(job->inputs.options->step.kind, job->dimension);
}

/* How many chunks this process works out at a time. */
static uint32_t computing_threads(const train_job *job)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t workers = job->inputs.options->run.settings.plan.workers;
    return cores >= 1 && (unsigned long)cores < workers ? (uint32_t)cores : workers;
}

/*
 * Memory is promised freely and missing only once it is used, when the system kills someone. So
 * what every run takes at least is held against what is free: a wrong index in a data file, which
 * makes the parameters many, is then an error like others.
 */
static int check_memory(const train_job *job, tarry_diagnostic *why)
{
    enum { OWN = 3 }; /* see create_vectors */
    const local_settings *local = &job->inputs.options->local;
    double needed = OWN * (double)job->dimension * sizeof(float) + bytes_of_workers(job);
    const tarry_compress seen = form_of_view(&job->server);
    if (seen != TARRY_COMPRESS_NONE)
        needed += (double)view_bytes(seen, job->dimension);
    if (job->privacy != NULL)
        needed += computing_threads(job) * (double)chunk_gradient_sample_bytes(job->dimension);
    if (local->steps > 0)
        needed += computing_threads(job) * (double)local_steps_bytes(local, job->dimension);
    const crew_size crew = crew_of(job);
    char parameters[NUMBER_TEXT_SIZE], what[2 * NUMBER_TEXT_SIZE + 64];
    whole_text(job->dimension, parameters);
    snprintf(what, sizeof(what), "%s parameters", parameters);
    if (crew.workers > 0)
        snprintf(what, sizeof(what), "%s parameters for %u workers", parameters, crew.workers);
    return crew_room_check(&crew, needed + crew_room_bytes(&crew), what,
                           !job->inputs.options->quiet && !job->inputs.silent, why);
}

static int create_vectors(train_job *job)
{
    job->parameters = vector_allocate(NULL, job->dimension);
    job->sum = vector_allocate(NULL, job->dimension + local_riding(&job->inputs.options->local));
    job->gradient = vector_allocate(NULL, job->dimension);
    if (job->parameters == NULL || job->sum == NULL || job->gradient == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (job->inputs.costs != NULL) {
        job->costs = memory_allocate(NULL, tarry_plan_chunks(job->inputs.plan), sizeof(double));
        if (job->costs == NULL)
            return TARRY_ERROR_NO_MEMORY;
    }
    objective_initial(job->model, job->inputs.options->run.settings.plan.seed, job->parameters);
    return TARRY_OK;
}

static int create_gradients(train_job *job)
{
    const train_options *options = job->inputs.options;
    const batch_settings batch = batch_of(job);
    const uint32_t threads = computing_threads(job);
    int error =
        chunk_gradient_create(job->model, job->inputs.train, &batch, threads, &job->gradients);
    if (error != TARRY_OK)
        return error;
    job->samples = local_samples(&options->local, &batch);
    if (options->local.steps > 0)
        error = chunk_gradient_step_locally(job->gradients, &options->local);
    if (error == TARRY_OK && options->local.seconds > 0)
        error = chunk_gradient_limit(job->gradients, tarry_plan_workers(job->inputs.plan),
                                     clock_of_user, NULL);
    if (error == TARRY_OK && job->privacy != NULL) {
        const tarry_dp_terms *privacy = &options->privacy;
        job->samples = privacy->sample * (double)batch.rows;
        error = chunk_gradient_sample(job->gradients, dp_draws(job->privacy), privacy->clip);
    }
    if (error == TARRY_OK && options->verify)
        error = verification_create(job->model, job->gradients, &options->local, batch.chunks,
                                    &job->verify);
    return error;
}

bool train_job_is_scored(const train_job *job)
{
    return job->privacy == NULL && !train_data_is_elsewhere(job->inputs.train);
}

void train_job_say(void *user, const char *line)
{
    train_job *job = user;
    if (job->inputs.options->quiet)
        return;
    progress_end(&job->progress);
    fprintf(stderr, "%s\n", line);
}

/* Where the rounds begin. */
static int restore_vectors(train_job *job)
{
    const train_checkpoint *keeper = job->inputs.keeper;
    if (!train_checkpoint_resumes(keeper))
        return OPTIONS_PROCEED;
    int status = train_checkpoint_vectors(keeper, job->dimension, job->parameters,
                                          optimizer_state_of(job->optimizer), &job->first_round);
    job->steps = job->committed = job->first_round;
    return status;
}

/* What a runner is made from, and what it points to. */
typedef struct job_request {
    job_spec spec;
    job_replicas_settings replicas;
    runner_request request;
} job_request;

static void fill_request(train_job *job, const tarry_sum_log *sums, job_request *made)
{
    const train_inputs *inputs = &job->inputs;
    const train_options *options = inputs->options;
    made->spec = (job_spec){
        .model = model_settings(job),
        .batch = batch_of(job),
        .sparse = inputs->train->sparse,
        .holdout = options->test == NULL ? options->holdout : 0,
        .made_samples = options->source.path == NULL ? options->samples : 0,
        .local = options->local,
        .secure = job->server.secure != 0,
        .clip = job->privacy != NULL ? options->privacy.clip : 0,
        .sample = job->privacy != NULL ? options->privacy.sample : 0,
        .everywhere = sums_everywhere(job),
        .optimizer = options->step,
    };
    made->replicas = (job_replicas_settings){
        .model = job->model,
        .optimizer = options->step,
        .local = options->local,
        .samples = job->samples,
        .steps = job->steps,
        .parameters = job->parameters,
        .state = optimizer_state_of(job->optimizer),
    };
    made->request = (runner_request){
        .plan = inputs->plan,
        .dimension = job->dimension,
        .riding = local_riding(&options->local),
        .replicas = sums_everywhere(job) ? &made->replicas : NULL,
        .sums = *sums,
        .server = &job->server,
        .compute = chunk_gradient_compute,
        .user = job->gradients,
        .straggler = inputs->straggler,
        .job = &made->spec,
        .data = train_data_is_elsewhere(inputs->train) ? NULL : inputs->train,
        .secure = job->rules,
        .draws = job->privacy != NULL ? dp_draws(job->privacy)->key : NULL,
        .say = train_job_say,
        .say_user = job,
        .attend = train_job_attend,
        .attend_user = job,
    };
}

static int create_runner(train_job *job, const tarry_sum_log *sums, const tarry_sum_id *after,
                         bool again, tarry_diagnostic *why)
{
    const train_inputs *inputs = &job->inputs;
    job_request made;
    runner *runs;
    fill_request(job, sums, &made);
    made.request.state_after = *after;
    if (again) {
        train_checkpoint_request_again(inputs->keeper, &made.request);
    } else if (train_checkpoint_resumes(inputs->keeper)) {
        job->evolved = train_checkpoint_take_plan(inputs->keeper);
        train_checkpoint_request(inputs->keeper, &made.request);
        if (job->privacy != NULL)
            made.request.job_id = NULL; /* another key of draws: workers are to begin anew */
        made.request.view = train_checkpoint_view(inputs->keeper, job->sum); /* unused so far */
    }
    made.request.plan = train_job_plan(job);
    int error = inputs->create(inputs->create_user, &made.request, &runs, why);
    if (error == TARRY_OK)
        atomic_store(&job->runs, runs);
    return error;
}

static int complain_of(const train_job *job, int error, const tarry_diagnostic *why)
{
    return complain(EXIT_FAILED, "%s: %s", job->inputs.command,
                    why->text[0] != '\0' ? why->text : tarry_error_text(error));
}

int train_job_make_runner(train_job *job, bool again)
{
    tarry_sum_log sums = {.term = 0};
    tarry_sum_id after = {0};
    tarry_diagnostic why = {""};
    int status = OPTIONS_PROCEED;
    if (sums_everywhere(job))
        status = train_checkpoint_sums(job->inputs.keeper, job->sums_most, &sums, &after);
    if (status != OPTIONS_PROCEED)
        return status;
    job->ahead = sums.last[0].step > after.step ? sums.last[0].step : 0;
    int error = create_runner(job, &sums, &after, again, &why);
    return error == TARRY_OK ? OPTIONS_PROCEED : complain_of(job, error, &why);
}

static int create_scores(train_job *job)
{
    /* Where everyone gets the sum, a worker that is behind may compute with parameters of an
     * earlier step; nobody adds that up, but its losses are not those of the round. */
    bool told = runner_of(job)->network == NULL && job->inputs.options->batch == 0 &&
                !sums_everywhere(job) && train_job_is_scored(job);
    const train_scores_settings settings = {
        .model = job->model,
        .train = train_job_is_scored(job) ? job->inputs.train : NULL,
        .test = job->inputs.test,
        .gradients = told ? job->gradients : NULL,
        .plan = train_job_plan(job),
        .stop = {.asked = is_late_for_scores, .user = job},
    };
    return train_scores_create(&settings, &job->scores);
}

int train_job_keep_start(train_job *job)
{
    tarry_diagnostic why = {"out of memory"};
    int error = train_job_mark_checkpoint(job);
    if (error == TARRY_OK)
        error = train_job_write_checkpoint(job, &why);
    return error == TARRY_OK ? OPTIONS_PROCEED
                             : complain(EXIT_FAILED, "--checkpoint: %s", why.text);
}

/* Where the rounds begin; what can't be written then is found out before they do. */
static int begin_checkpoints(train_job *job)
{
    train_checkpoint *keeper = job->inputs.keeper;
    if (keeper == NULL)
        return OPTIONS_PROCEED;
    if (train_checkpoint_resumes(keeper)) {
        int status = train_checkpoint_restore(keeper, job->past);
        if (status != OPTIONS_PROCEED)
            return status;
    }
    return train_job_keep_start(job);
}

/* What a process computes with. */
static int create_parts(train_job *job, tarry_diagnostic *why)
{
    const train_options *options = job->inputs.options;
    int error = create_model(job, why);
    if (error == TARRY_OK)
        error = check_memory(job, why);
    if (error == TARRY_OK)
        error = create_vectors(job);
    if (error == TARRY_OK)
        error = optimizer_create(&options->step, job->dimension, NULL, &job->optimizer);
    if (error == TARRY_OK)
        error = train_secure_choose_rules(job, why);
    return error == TARRY_OK ? create_gradients(job) : error;
}

/* But for the runner and the signals, which are gone. */
static void release(train_job *job)
{
    train_scores_free(job->scores);
    tarry_plan_free(job->evolved);
    chunk_gradient_free(job->gradients);
    optimizer_free(job->optimizer);
    memory_release(NULL, job->costs);
    verification_free(job->verify);
    tarry_dp_free(job->privacy);
    vector_release(NULL, job->gradient);
    vector_release(NULL, job->sum);
    vector_release(NULL, job->parameters);
    objective_free(job->model);
    pthread_mutex_destroy(&job->runs_lock);
    memory_release(NULL, job);
}

/* What stands between sums and all who use them. */
static int create_privacy(train_job *job)
{
    const train_options *options = job->inputs.options;
    const tarry_dp_terms *privacy = &options->privacy;
    const ledger_terms terms = {privacy->clip, privacy->noise, privacy->sample};
    ledger_file *ledger = NULL;
    if (options->dp == NULL)
        return OPTIONS_PROCEED;
    int status = train_checkpoint_ledger(job->inputs.keeper, &terms, &ledger);
    if (status == OPTIONS_PROCEED)
        status = train_privacy_create(privacy, job->inputs.train->rows, ledger, &job->privacy);
    return status;
}

int train_job_create(const train_inputs *inputs, history *past, train_job **out)
{
    train_job *job = memory_allocate(NULL, 1, sizeof(*job));
    if (job == NULL)
        return complain(EXIT_FAILED, "%s: out of memory", inputs->command);
    job->inputs = *inputs;
    job->past = past;
    job->start = clock_seconds();
    pthread_mutex_init(&job->runs_lock, NULL);
    tarry_diagnostic why = {""};
    int status = create_privacy(job);
    int error = status == OPTIONS_PROCEED ? create_parts(job, &why) : TARRY_OK;
    if (error == TARRY_OK && status == OPTIONS_PROCEED)
        error = interrupt_begin(stop_round, job, &job->signals);
    if (error == TARRY_OK && status == OPTIONS_PROCEED)
        status = restore_vectors(job);
    job->sums_most = train_job_most_ahead(job);
    if (error == TARRY_OK && status == OPTIONS_PROCEED)
        status = train_job_make_runner(job, false);
    if (error == TARRY_OK && status == OPTIONS_PROCEED)
        error = create_scores(job);
    if (error != TARRY_OK)
        status = complain_of(job, error, &why);
    else if (status == OPTIONS_PROCEED)
        status = begin_checkpoints(job);
    if (status == OPTIONS_PROCEED)
        *out = job;
    else
        train_job_free(job);
    return status;
}

/* Whether no run goes on after this one. */
static bool is_over(const train_job *job)
{
    const history *past = job->past;
    return past->count == job->inputs.options->rounds || past->privacy.spent ||
           job->inputs.keeper == NULL;
}

void train_job_free(train_job *job)
{
    if (job == NULL)
        return;
    /* The signals' thread uses the runtime, the runtime's threads the gradients. Workers are told
     * that the run is over, which a first signal does not cut short. */
    interrupt_settle(job->signals);
    runner_free(runner_of(job), is_over(job));
    interrupt_end(job->signals);
    release(job);
}

int train_job_follow(const train_inputs *inputs, train_follow *follow, void *user)
{
    train_job *job = memory_allocate(NULL, 1, sizeof(*job));
    if (job == NULL)
        return complain(EXIT_FAILED, "%s: out of memory", inputs->command);
    job->inputs = *inputs;
    pthread_mutex_init(&job->runs_lock, NULL);
    tarry_diagnostic why = {""};
    int error = create_parts(job, &why);
    if (error == TARRY_OK) {
        const tarry_sum_log none = {.term = 0};
        job_request made;
        fill_request(job, &none, &made);
        error = follow(user, &made.request, &why);
    }
    release(job);
    return error == TARRY_OK ? EXIT_DONE
                             : complain(EXIT_FAILED, "%s: %s", inputs->command,
                                        why.text[0] != '\0' ? why.text : tarry_error_text(error));
}

const tarry_server_settings *train_job_server(const train_job *job)
{
    return &job->server;
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

json_t *train_job_describe(const train_job *job)
{
    return runner_describe(runner_of(job));
}
