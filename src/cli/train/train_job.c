/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_job.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarry/server.h>
#include <tarry/version.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/checkpoint/history.h"
#include "cli/options/options.h"
#include "cli/options/run_options.h"
#include "cli/output/clock.h"
#include "cli/output/event_log.h"
#include "cli/runner/runner.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "cli/train/train_options.h"
#include "cli/train/train_run.h"
#include "compress/view.h"
#include "privacy/secure/ring.h"
#include "protocol/form.h"
#include "release/dp.h"
#include "runtime/clock.h"
#include "secure/secure_memory.h"

static bool sums_everywhere(const train_job *job)
{
    return job->server.sum == TARRY_SUM_EVERYWHERE;
}

/* ---- privacy ---- */

int train_privacy_create(const tarry_dp_terms *terms, size_t samples, ledger_file *ledger,
                         tarry_dp **out)
{
    tarry_diagnostic why = {""};
    int error = dp_create(terms, samples, ledger, out, &why);
    if (error == TARRY_OK)
        return OPTIONS_PROCEED;
    return complain(error == TARRY_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED, "--dp: %s", why.text);
}

int train_privacy_release(tarry_dp *privacy, const tarry_round_result *result, float *sum,
                          size_t dimension, tarry_diagnostic *diagnostic)
{
    if (!result->exact)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "the sum of round %" PRIu64 " is not exact, and is not released",
                        result->round);
    return dp_release(privacy, result->round, sum, dimension, diagnostic);
}

int train_privacy_account(const tarry_dp *privacy, history_privacy *account,
                          tarry_diagnostic *diagnostic)
{
    double epsilon;
    int error = tarry_dp_epsilon(privacy, &epsilon, diagnostic);
    if (error != TARRY_OK)
        return error;
    account->counted = true;
    account->secret = !dp_terms(privacy)->seeded;
    account->releases = tarry_dp_releases(privacy);
    account->epsilon = epsilon;
    account->delta = dp_terms(privacy)->delta;
    return TARRY_OK;
}

/* ---- secure ---- */

/* Plans that follow what was learned cut chunks, and may have so many times as many. */
enum { FOLLOWING_CHUNKS = 16 };

static held_cut cut_of(const train_job *job)
{
    return (held_cut){.samples = job->inputs.train->rows,
                      .origins = tarry_plan_chunks(job->inputs.plan)};
}

/* Samples that colluders may not hold, of so many in all. */
static uint64_t secure_options_least(const secure_options *options, uint64_t samples)
{
    return options->least != 0 ? options->least : samples / 8 + (samples % 8 != 0);
}

/* Checks what every worker will check. */
static int check_left(const train_job *job, const held_cut *cut, tarry_diagnostic *why)
{
    const secure_options *secure = &job->inputs.options->secure;
    exposure *samples = NULL;
    int error = exposure_create(NULL, &samples);
    if (error == TARRY_OK)
        error = held_add(samples, job->inputs.plan, cut, why);
    const uint64_t least = secure_options_least(secure, cut->samples);
    uint64_t left = least;
    if (error == TARRY_OK)
        error = held_left(samples, cut->samples, secure->colluders, &left);
    exposure_free(samples);
    if (error != TARRY_OK || left >= least)
        return error;
    return diagnose(why, TARRY_ERROR_ARGUMENT,
                    "--secure: %" PRIu32 " colluders may hold all but %" PRIu64 " of %" PRIu64
                    " samples, and %" PRIu64
                    " are to be left (--secure-least): fewer copies, or more workers, leave more",
                    secure->colluders, left, cut->samples, least);
}

static int check_chunks(const train_job *job, const held_cut *cut, tarry_diagnostic *why)
{
    const uint64_t wanted = job->inputs.options->secure.chunk_samples;
    uint32_t chunk = 0;
    const uint64_t fewest = held_smallest(job->inputs.plan, cut, &chunk);
    if (fewest >= wanted)
        return TARRY_OK;
    return diagnose(why, TARRY_ERROR_ARGUMENT,
                    "--secure: chunk %" PRIu32 " has %" PRIu64 " samples, and workers want %" PRIu64
                    " in each at least (--secure-chunk-samples, at the server and at all workers): "
                    "fewer chunks, or fewer --pieces, have more",
                    chunk, fewest, wanted);
}

/* What numbers of a chunk's gradient are held to, of so many samples in chunks of the plan: such a
 * gradient is a sum over the samples of a chunk, each of which is seldom above 4. */
static double secure_options_bound(const secure_options *options, uint64_t samples, uint64_t chunks)
{
    uint64_t largest = samples / chunks + (samples % chunks != 0);
    return options->bound != 0 ? options->bound : TARRY_SECURE_BOUND_PER_SAMPLE * (double)largest;
}

/*
 * Chooses the job's rules: a grid on which sums over the chunks of the plan, and of plans that
 * follow it, can't wrap. Without secure sums nothing happens. Errors: ARGUMENT (too few bits, too
 * few samples in a chunk, or too few that colluders do not hold), NO_MEMORY, with a diagnostic.
 */
static int train_secure_choose_rules(train_job *job, tarry_diagnostic *why)
{
    const train_options *options = job->inputs.options;
    const secure_options *secure = &options->secure;
    const held_cut cut = cut_of(job);
    const uint64_t chunks = cut.origins,
                   most = options->run.settings.adapts ? FOLLOWING_CHUNKS * chunks : chunks;
    ring grid;
    if (job->server.secure == 0)
        return TARRY_OK;
    const double bound = secure_options_bound(secure, cut.samples, chunks);
    if (!ring_choose(job->server.secure, bound, most, &grid))
        return diagnose(why, TARRY_ERROR_ARGUMENT,
                        "--secure-bits: %" PRIu32 " are too few for %" PRIu64
                        " chunks of numbers up to %g (--secure-bound)",
                        job->server.secure, most, bound);
    int error = check_left(job, &cut, why);
    if (error == TARRY_OK)
        error = check_chunks(job, &cut, why);
    if (error != TARRY_OK)
        return error;
    job->rules = (tarry_secure_rules){
        .bits = grid.bits,
        .fraction = grid.fraction,
        .bound = grid.bound,
        .colluders = secure->colluders,
        .least = secure_options_least(secure, cut.samples),
    };
    return TARRY_OK;
}

/* True if workers would take a plan that is to follow: its chunks are large enough, and sums over
 * them can't wrap. Without secure sums they take any. */
static bool train_secure_allows(const train_job *job, const tarry_plan *plan)
{
    const tarry_secure_rules *rules = &job->rules;
    const ring grid = {.bits = rules->bits, .fraction = rules->fraction, .bound = rules->bound};
    const held_cut cut = cut_of(job);
    uint32_t chunk = 0;
    return rules->bits == 0 ||
           (held_smallest(plan, &cut, &chunk) >= job->inputs.options->secure.chunk_samples &&
            ring_fits(&grid, tarry_plan_chunks(plan)));
}

/* Sets round->saturation of a round that was summed. Errors: STATE (it is above
 * TARRY_SECURE_CLAMPED_MOST), with a diagnostic. */
static int train_secure_check_round(const train_job *job, history_round *round,
                                    tarry_diagnostic *why)
{
    const tarry_round_result *result = &round->result;
    if (job->rules.bits == 0)
        return TARRY_OK;
    const double numbers =
        (double)job->dimension * (double)result->copies_needed / (double)result->parts;
    round->saturation = (double)result->clamped / numbers;
    if (round->saturation <= TARRY_SECURE_CLAMPED_MOST)
        return TARRY_OK;
    return diagnose(why, TARRY_ERROR_STATE,
                    "round %" PRIu64 ": %.3g %% of the numbers in chunks' gradients are beyond the "
                    "bound of %g or not finite, and at most %g %% may be: raise --secure-bound at "
                    "the server and at all workers",
                    result->round, 100 * round->saturation, job->rules.bound,
                    100 * TARRY_SECURE_CLAMPED_MOST);
}

/* ---- checkpoints ---- */

#define WAIT_NS UINT64_C(60000000000)
#define SHORT_WAIT_NS UINT64_C(3000000000)

/* What the history has to know of now, with what earlier processes of the run did. */
static void gather(train_job *job)
{
    history *past = job->past;
    const runner *runs = runner_of(job);
    for (uint32_t worker = 0; worker < past->workers; worker++) {
        past->worker[worker] = tarry_runtime_worker(runs->runtime, worker);
        past->worker[worker].chunks += past->earlier[worker].chunks;
        past->worker[worker].seconds += past->earlier[worker].seconds;
    }
    past->seconds = past->earlier_seconds + clock_seconds() - job->start;
}

/* For what workers have; who interrupts a run does not wait for those that are gone. */
static uint64_t patience_ns(const train_job *job)
{
    return interrupt_seen(job->signals) ? SHORT_WAIT_NS : WAIT_NS;
}

/* Between two rounds: the parameters become as they are now, where everyone gets the sum those of
 * the workers. Errors: STATE (the workers are gone). */
static int train_job_catch_up(train_job *job, tarry_diagnostic *why)
{
    if (job->steps == job->committed)
        return TARRY_OK;
    int error = runner_look(runner_of(job), job->committed, patience_ns(job), job->parameters,
                            optimizer_state_of(job->optimizer), why);
    if (error == TARRY_OK)
        job->steps = job->committed;
    return error;
}

static int train_job_write_checkpoint(train_job *job, tarry_diagnostic *why)
{
    if (job->inputs.keeper == NULL)
        return TARRY_OK;
    int error = train_job_catch_up(job, why);
    if (error != TARRY_OK)
        return error;
    gather(job);
    return train_checkpoint_write(job->inputs.keeper, runner_of(job), job->dimension,
                                  job->parameters, optimizer_state_of(job->optimizer), job->past,
                                  why);
}

/* As train_checkpoint_mark and train_checkpoint_write; without checkpoints they do nothing. */
static int train_job_mark_checkpoint(train_job *job)
{
    if (job->inputs.keeper == NULL)
        return TARRY_OK;
    return train_checkpoint_mark(job->inputs.keeper, runner_of(job), train_job_plan(job));
}

static void try_checkpoint(train_job *job)
{
    tarry_diagnostic why;
    bool failed = train_job_write_checkpoint(job, &why) != TARRY_OK;
    if (failed && !job->unwritten) {
        progress_end(&job->progress);
        complain(EXIT_DONE, "--checkpoint: %s; the training goes on", why.text);
    }
    job->unwritten = failed;
}

/* The checkpoint after a round, if it is time for one. */
static void keep_checkpoint(train_job *job)
{
    train_checkpoint *keeper = job->inputs.keeper;
    if (keeper != NULL && train_checkpoint_due(keeper, job->past->count))
        try_checkpoint(job);
}

/* The runner's `attend`, of a train_job: a worker whose connection comes and goes shall not wait
 * for the next checkpoint, nor for the round's end. */
static void train_job_attend(void *user)
{
    train_job *job = user;
    train_checkpoint *keeper = job->inputs.keeper;
    bool known = job->steps == job->committed; /* within a round the workers can't be asked */
    if (keeper != NULL && known && train_checkpoint_urgent(keeper, runner_of(job)) &&
        train_job_mark_checkpoint(job) == TARRY_OK)
        try_checkpoint(job);
}

/* ---- job ---- */

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
    job->server = run_options_server(&options->run, job->dimension);
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
        bytes = vector * (double)tarry_plan_chunks(plan) * tarry_plan_parts(plan);
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
                           !job->inputs.options->quiet, why);
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

/* Whether the workers alone have the samples, of which only the sizes are known here. */
static bool train_data_is_elsewhere(const dataset *data)
{
    return data->label == NULL;
}

/* Whether the loss of the training data is worked out: not with --dp, which would tell it, and not
 * where the workers alone have the samples. */
static bool train_job_is_scored(const train_job *job)
{
    return job->privacy == NULL && !train_data_is_elsewhere(job->inputs.train);
}

/* Prints a line, unless it is to be quiet. */
static void train_job_say(void *user, const char *line)
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
    if (again || train_checkpoint_resumes(inputs->keeper)) {
        float *unused = job->sum; /* so far */
        train_checkpoint_request(inputs->keeper, again, unused, &made.request, &job->evolved);
        if (!again && job->privacy != NULL)
            made.request.job_id = NULL; /* another key of draws: workers are to begin anew */
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

/* Makes the runner of a job whose vectors are there; `again`: in place of one that is gone. Gives
 * back OPTIONS_PROCEED, or the exit status after a complaint; so the next but one. */
static int train_job_make_runner(train_job *job, bool again)
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
    const round_scores_settings settings = {
        .model = job->model,
        .train = train_job_is_scored(job) ? job->inputs.train : NULL,
        .test = job->inputs.test,
        .gradients = told ? job->gradients : NULL,
        .plan = train_job_plan(job),
        .stop = {.asked = is_late_for_scores, .user = job},
    };
    return round_scores_create(&settings, &job->scores);
}

/* Both, of where the run begins or continues. OPTIONS_PROCEED, or the exit status after a
 * complaint.
 */
static int train_job_keep_start(train_job *job)
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
    round_scores_free(job->scores);
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

/* Where the log of sums may go up to, see train_checkpoint_sums. */
/* Differentially private and secure sums have rules of their own on what is summed again. */
static uint64_t train_job_most_ahead(const train_job *job)
{
    const train_options *options = job->inputs.options;
    const bool allowed = options->outlived_ns > 0 && sums_everywhere(job) && job->privacy == NULL &&
                         job->rules.bits == 0 && train_checkpoint_may_be_passed(job->inputs.keeper);
    return allowed ? options->rounds : 0;
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

/* How its server and workers are set; the job's. */
const tarry_plan *train_job_plan(const train_job *job)
{
    return job->evolved != NULL ? job->evolved : job->inputs.plan;
}

/*
 * The start of a run whose server was killed between two checkpoints. Workers that outlived it have
 * the state after the last sum of the log, or hold that sum: the run continues from there, and the
 * server gets the state from them. If none of them comes, the run goes back to the checkpoint, as a
 * start of its own: with another term, so that what workers may still have of later steps is void.
 */

#define SLICE_NS 50000000
#define LEAST_NS UINT64_C(10000000000) /* for workers to find the server again */
#define ALL_NS UINT64_C(3000000000)    /* once all are there, for one to be ready */

__attribute__((format(printf, 2, 3))) static void tell(train_job *job, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    train_job_say(job, line);
}

/* Of the workers: */
typedef struct company {
    uint32_t workers, there, ready;
} company;

static int count_company(void *user, const tarry_server *machine)
{
    company *seen = user;
    for (uint32_t worker = 0; worker < seen->workers; worker++)
        seen->ready += tarry_server_ready(machine, worker);
    return TARRY_OK;
}

static company look_at_workers(const train_job *job)
{
    tarry_runtime *runtime = runner_of(job)->runtime;
    company seen = {.workers = job->past->workers};
    for (uint32_t worker = 0; worker < seen.workers; worker++)
        seen.there += tarry_runtime_worker(runtime, worker).present;
    tarry_runtime_visit(runtime, count_company, &seen);
    return seen;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = SLICE_NS}, NULL);
}

/* Until a worker has stepped on the log's last sum. tarry_runtime_wait would not do: it counts all
 * who are there as soon as none of them has that state. Errors: INTERRUPTED, STATE (none has). */
static int await_state(train_job *job)
{
    const uint64_t patience = job->inputs.options->outlived_ns, begin = clock_now_ns();
    const uint64_t until = begin + (patience > LEAST_NS ? patience : LEAST_NS);
    uint64_t all_ns = 0; /* since when all are there; 0: they are not */
    while (clock_now_ns() < until) {
        const company seen = look_at_workers(job);
        if (seen.ready > 0)
            return TARRY_OK;
        if (interrupt_seen(job->signals))
            return TARRY_ERROR_INTERRUPTED;
        if (seen.there < seen.workers)
            all_ns = 0;
        else if (all_ns == 0)
            all_ns = clock_now_ns();
        else if (clock_now_ns() - all_ns > ALL_NS)
            break;
        pause_briefly();
    }
    return TARRY_ERROR_STATE;
}

static int go_ahead(train_job *job)
{
    history *past = job->past;
    const uint64_t lost = job->ahead - past->count;
    if (history_add_lost(past, (size_t)lost) != TARRY_OK)
        return complain(EXIT_FAILED, "%s: out of memory", job->inputs.command);
    job->first_round = job->ahead;
    past->resumed_after = past->count;
    tell(job,
         "continues after step %" PRIu64 ", which workers have; the report lacks %" PRIu64
         " round%s since the checkpoint",
         job->ahead, lost, lost == 1 ? "" : "s");
    return train_job_keep_start(job);
}

static int go_back(train_job *job)
{
    runner *before = runner_of(job);
    tell(job,
         "no worker has the state after step %" PRIu64 ": continues from the checkpoint, after "
         "step %" PRIu64,
         job->ahead, job->first_round);
    pthread_mutex_lock(&job->runs_lock);
    atomic_store(&job->runs, NULL);
    pthread_mutex_unlock(&job->runs_lock);
    runner_free(before, false);
    job->sums_most = 0;
    int status = train_job_make_runner(job, true);
    if (status == OPTIONS_PROCEED)
        status = train_job_keep_start(job);
    if (status == OPTIONS_PROCEED)
        tarry_runtime_open(runner_of(job)->runtime, NULL); /* what is wrong the round will tell */
    return status;
}

/* Before the first round, once workers may come: if `ahead`, decides from where the run continues.
 */
static int train_job_settle_start(train_job *job)
{
    if (job->ahead == 0)
        return OPTIONS_PROCEED;
    tell(job,
         "the checkpoint is of step %" PRIu64 ", the log of sums of step %" PRIu64
         ": waits for a worker that has the later state",
         job->first_round, job->ahead);
    int error = await_state(job);
    if (error == TARRY_ERROR_INTERRUPTED)
        return OPTIONS_PROCEED; /* no round begins */
    if (error == TARRY_OK) {
        tarry_diagnostic why;
        job->committed = job->ahead;
        if (train_job_catch_up(job, &why) == TARRY_OK)
            return go_ahead(job);
        job->committed = job->steps;
    }
    return go_back(job);
}

/* ---- rounds ---- */

__attribute__((format(printf, 2, 3))) static void end_early(history *past, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(past->error, sizeof(past->error), format, arguments);
    va_end(arguments);
}

/* Whether other stop rules would make do with the workers that are left. */
static bool others_could_go_on(const train_job *job)
{
    const tarry_stop stop = job->inputs.options->run.settings.server.stop;
    const runner *runs = runner_of(job);
    if (stop == TARRY_STOP_DEADLINE || stop == TARRY_STOP_ERROR)
        return false;
    for (uint32_t worker = 0; worker < job->past->workers; worker++)
        if (tarry_runtime_worker(runs->runtime, worker).present)
            return true;
    return false;
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
    if (error == TARRY_ERROR_COVERAGE && job->rules.bits != 0)
        advice =
            "; workers of secure sums end before they send what their owners do not allow, and "
            "print why";
    else if (error == TARRY_ERROR_COVERAGE && others_could_go_on(job))
        advice = "; --stop deadline:SECONDS or --stop error:EPS goes on without them";
    if (why->text[0] != '\0')
        end_early(past, "%s%s", why->text, advice);
    else
        end_early(past, "round %zu: %s%s", past->count, tarry_error_text(error), advice);
}

bool train_job_is_sound(const train_job *job)
{
    /* An interrupt may have kept the loss from being worked out. */
    const bool scored = train_job_is_scored(job) && !job->past->interrupted;
    bool sound = !scored || isfinite(job->past->train_end.loss) != 0;
    for (size_t i = 0; !scored && i < job->dimension; i++)
        sound &= isfinite(job->parameters[i]) != 0;
    return sound;
}

/* NUMERICAL, with a diagnostic, if the loss that was worked out last is not finite. */
static int check_loss(const train_job *job, tarry_diagnostic *why)
{
    if (train_job_is_sound(job))
        return TARRY_OK;
    return diagnose(why, TARRY_ERROR_NUMERICAL,
                    "%s not finite after round %zu: try a smaller --rate than %g",
                    train_job_is_scored(job) ? "the loss is" : "parameters are", job->past->count,
                    job->inputs.options->rate);
}

/* Takes the optimizer's step along the round's estimate, and checks it first if asked to. Where
 * everyone gets the sum, the workers take the step, on the sum that is now committed. */
static int use_estimate(train_job *job, history_round *round, tarry_diagnostic *why)
{
    bool everywhere = sums_everywhere(job);
    if (everywhere)
        job->committed = round->result.sum.step;
    if (everywhere && job->verify != NULL) {
        int error = runner_last_sum(runner_of(job), patience_ns(job), job->sum, why);
        if (error != TARRY_OK)
            return error;
    }
    const tarry_view seen = tarry_runtime_view(runner_of(job)->runtime);
    if (job->verify != NULL)
        verification_check(job->verify, round->result.round,
                           seen.numbers != NULL ? seen.numbers : job->parameters, job->sum,
                           &round->verified);
    if (everywhere)
        return job->verify != NULL ? train_job_catch_up(job, why) : TARRY_OK;
    local_mean(&job->inputs.options->local, job->model, job->parameters, job->sum, job->samples,
               job->gradient);
    optimizer_step(job->optimizer, job->gradient, job->parameters);
    return TARRY_OK;
}

static void note(train_job *job, const char *text)
{
    runner *runs = runner_of(job);
    tarry_runtime_note(runs->runtime, job->past->count, job->inputs.options->rounds, text);
}

static void report_progress(train_job *job, const tarry_round_result *result)
{
    const history *past = job->past;
    char detail[128], loss[48] = "";
    if (job->privacy != NULL)
        snprintf(loss, sizeof(loss), "epsilon <= %.4g  ", tarry_dp_bound(job->privacy));
    else if (!isnan(past->train_end.loss)) /* of a resumed run it may not be known yet */
        snprintf(loss, sizeof(loss), "loss %.5g  ", past->train_end.loss);
    snprintf(detail, sizeof(detail), "%s%.2f copies/chunk  %u/%u heard", loss,
             history_copies_per_chunk(result), result->workers_heard, past->workers);
    progress_update(&job->progress, past->count, detail);
    note(job, detail);
}

/* What the round's chunks cost, where that is given. */
static int give_costs(train_job *job, uint64_t round)
{
    const tarry_plan_settings *plan = &job->inputs.options->run.settings.plan;
    runner *runs = runner_of(job);
    if (job->costs == NULL)
        return TARRY_OK;
    chunk_cost_draw(job->inputs.costs, plan->seed, round, plan->chunks, plan->pieces, job->costs);
    if (job->evolved == NULL)
        return tarry_runtime_costs(runs->runtime, job->costs);
    double *carried = memory_allocate(NULL, tarry_plan_chunks(job->evolved), sizeof(*carried));
    if (carried == NULL)
        return TARRY_ERROR_NO_MEMORY;
    int error = tarry_plan_carry_cost(job->inputs.plan, job->costs, job->evolved, NULL, carried);
    if (error == TARRY_OK)
        error = tarry_runtime_costs(runs->runtime, carried);
    memory_release(NULL, carried);
    return error;
}

/* Where the last parameters are lost the workers go back to earlier ones; the rounds of the history
 * would not be those of the parameters then. */
static int check_step(const train_job *job, const tarry_round_result *result, tarry_diagnostic *why)
{
    if (!sums_everywhere(job) || result->sum.step == job->committed + 1)
        return TARRY_OK;
    return diagnose(why, TARRY_ERROR_STATE,
                    "all workers that had the parameters after step %" PRIu64 " are gone%s",
                    job->committed,
                    job->inputs.keeper != NULL ? "; --resume goes on from the checkpoint" : "");
}

/* Whether the parameters that the next round begins with are to be scored. */
static bool scores_are_due(const train_job *job)
{
    return job->past->count % job->inputs.options->evaluate == 0;
}

/* A round's sum, and beside it, if it is time to, the scores of the parameters that it is at. */
static int sum_and_score(train_job *job, history_round *round, tarry_diagnostic *why)
{
    history *past = job->past;
    runner *runs = runner_of(job);
    bool scored = scores_are_due(job);
    double asked = clock_seconds();
    int error = scored ? train_job_catch_up(job, why) : TARRY_OK;
    if (error != TARRY_OK)
        return error;
    if (scored)
        round_scores_begin(job->scores, job->parameters);
    error = runner_round(runs, job->parameters, job->sum, &round->result, why);
    if (error == TARRY_OK)
        error = train_secure_check_round(job, round, why);
    if (error == TARRY_OK && job->privacy != NULL)
        error = train_privacy_release(job->privacy, &round->result, job->sum, job->dimension, why);
    if (error == TARRY_OK)
        error = check_step(job, &round->result, why);
    if (error == TARRY_OK) {
        const tarry_round_result *result = &round->result;
        round->seconds = (double)(result->end_ns - result->start_ns) * 1e-9;
        if (result->signal_ns != TARRY_NEVER)
            round->signal_seconds = (double)(result->signal_ns - result->start_ns) * 1e-9;
        /* Before it, workers may have been waited for. */
        progress_pass_over(&job->progress, fmax(clock_seconds() - asked - round->seconds, 0));
    }
    if (scored && error != TARRY_OK) {
        round_scores_drop(job->scores);
    } else if (scored &&
               round_scores_end(job->scores, round->result.round, &round->train, &round->test)) {
        past->train_end = round->train;
        past->test_end = round->test;
        error = check_loss(job, why);
    }
    return error;
}

/* Whether the next release would be more than the budget allows: then, or where that can't be told,
 * the run ends here. */
static bool is_spent(train_job *job)
{
    history *past = job->past;
    tarry_diagnostic why;
    if (job->privacy == NULL)
        return false;
    if (tarry_dp_spent(job->privacy, &past->privacy.spent, &why) != TARRY_OK) {
        end_early(past, "%s", why.text);
        return true;
    }
    return past->privacy.spent;
}

static void account(train_job *job)
{
    history *past = job->past;
    tarry_diagnostic why;
    if (job->privacy != NULL &&
        train_privacy_account(job->privacy, &past->privacy, &why) != TARRY_OK &&
        past->error[0] == '\0')
        end_early(past, "%s", why.text);
}

static void describe_job(const train_job *job, char *text, size_t size)
{
    const train_options *options = job->inputs.options;
    const dataset *train = job->inputs.train;
    char samples[NUMBER_TEXT_SIZE], parameters[NUMBER_TEXT_SIZE], begun[64] = "", local[48] = "";
    if (options->local.steps > 0)
        snprintf(local, sizeof(local), " of %" PRIu32 " local steps", options->local.steps);
    if (job->first_round > 0)
        snprintf(begun, sizeof(begun), ", of which %" PRIu64 " are done", job->first_round);
    whole_text(train->rows, samples);
    whole_text(job->dimension, parameters);
    snprintf(text, size,
             "training %s on %s samples of %u features (%s parameters): %u workers, %u %s, "
             "%" PRIu64 " rounds%s%s",
             train_model_name(options->model), samples, train->features, parameters,
             options->run.settings.plan.workers, tarry_plan_chunks(job->inputs.plan),
             run_unit_name(&options->run), options->rounds, local, begun);
}

/* Leaves what --resume goes on from, but for parameters that have no use. */
static int leave_checkpoint(train_job *job)
{
    tarry_diagnostic why;
    if (!train_job_is_sound(job) || train_job_write_checkpoint(job, &why) == TARRY_OK)
        return EXIT_DONE;
    return complain(EXIT_FAILED, "--checkpoint: %s", why.text);
}

/* Workers may come from here on. */
static void open_doors(train_job *job)
{
    tarry_runtime_open(runner_of(job)->runtime, NULL); /* what is wrong will be told by the round */
}

/* The scores of the parameters as they are at the end, which must be finite. */
static void score_end(train_job *job)
{
    history *past = job->past;
    tarry_diagnostic why;
    if (train_job_catch_up(job, &why) != TARRY_OK) {
        if (past->error[0] == '\0')
            end_early(past, "%s", why.text);
        return;
    }
    round_scores_begin(job->scores, job->parameters);
    if (!round_scores_end(job->scores, ROUND_SCORES_NO_ROUND, &past->train_end, &past->test_end) &&
        past->error[0] == '\0') {
        past->interrupted = true;
        end_early(past, "interrupted before the last loss was worked out");
    }
    if (past->error[0] == '\0' && check_loss(job, &why) != TARRY_OK)
        end_early(past, "%s", why.text);
}

/* Says that the loss rose, which a learning rate that is too large does. */
static int check_divergence(const train_job *job)
{
    const train_options *options = job->inputs.options;
    const double begin = history_train_begin(job->past).loss, end = job->past->train_end.loss;
    if (!(end > begin) || (options->quiet && !options->fail_on_divergence))
        return EXIT_DONE; /* a loss that is not known is NaN */
    return complain(options->fail_on_divergence ? EXIT_FAILED : EXIT_DONE,
                    "%s: the loss rose from %.6g to %.6g: try a smaller --rate than %g",
                    job->inputs.command, begin, end, options->rate);
}

/* The plan of a training run, as it follows what the server learns. */

/* A look at what the server has learned, for the plan's sake. */
typedef struct adaptation {
    const adapt_rule *rule;
    const uint32_t *rack;
    tarry_plan *next;
    tarry_plan_changes *changes;
    tarry_diagnostic *why;
} adaptation;

static int look_and_adapt(void *user, const tarry_server *server)
{
    adaptation *look = user;
    return tarry_server_adapt(server, look->rule->share, look->rack, NULL, &look->next,
                              look->changes, look->why);
}

/* Turns to the plan that the rule makes of what is known, unless workers of secure sums would
 * refuse it. rack: NULL for the racks of the plan. */
static int turn(train_job *job, const adapt_rule *rule, const uint32_t *rack,
                tarry_plan_changes *changes, tarry_diagnostic *why)
{
    runner *runs = runner_of(job);
    adaptation look = {rule, rack, NULL, changes, why};
    int error = tarry_runtime_visit(runs->runtime, look_and_adapt, &look);
    if (error != TARRY_OK || look.next == NULL)
        return error;
    if (!train_secure_allows(job, look.next)) {
        tarry_plan_free(look.next);
        *changes = (tarry_plan_changes){0};
        return TARRY_OK;
    }
    error = tarry_runtime_replan(runs->runtime, look.next, why);
    if (error != TARRY_OK) {
        tarry_plan_free(look.next);
        return error;
    }
    error = round_scores_replan(job->scores, look.next);
    tarry_plan_free(job->evolved);
    job->evolved = look.next;
    return error == TARRY_OK ? train_job_mark_checkpoint(job) : error;
}

/* Sets *rack to what the workers say of their racks, which the caller releases; NULL: nothing. */
static int ask_racks(train_job *job, uint32_t **rack)
{
    runner *runs = runner_of(job);
    *rack = NULL;
    bool said = false;
    uint32_t *list = memory_allocate(NULL, job->past->workers, sizeof(*list));
    int error =
        list != NULL ? runner_racks(runs, train_job_plan(job), list, &said) : TARRY_ERROR_NO_MEMORY;
    if (error == TARRY_OK && said)
        *rack = list;
    else
        memory_release(NULL, list);
    return error;
}

/*
 * Lets the plan follow what was learned, if it is time to; *changes: what that changed. A
 * checkpoint holds nothing that was learned: a resumed server first learns for as many rounds as
 * lie between two changes. Workers are asked for their state before: the server of another plan
 * does not know who has it until a round has begun.
 */
static int train_job_adapt(train_job *job, tarry_plan_changes *changes, tarry_diagnostic *why)
{
    const adapt_rule *rule = &job->inputs.options->run.adapt_rule;
    uint64_t round = job->past->count;
    if (!adapt_due(rule, round) || round - job->first_round < rule->every)
        return TARRY_OK;
    uint32_t *rack = NULL;
    int error = scores_are_due(job) ? train_job_catch_up(job, why) : TARRY_OK;
    if (error == TARRY_OK)
        error = ask_racks(job, &rack);
    if (error == TARRY_OK)
        error = turn(job, rule, rack, changes, why);
    memory_release(NULL, rack);
    return error;
}

static bool all_are_there(const train_job *job)
{
    const runner *runs = runner_of(job);
    for (uint32_t worker = 0; worker < job->past->workers; worker++)
        if (!tarry_runtime_worker(runs->runtime, worker).present)
            return false;
    return true;
}

/* How many chunks have two copies in one rack. */
static int count_crowded(const tarry_plan *plan, const uint32_t *rack, uint32_t *crowded)
{
    uint32_t chunks = tarry_plan_chunks(plan);
    uint32_t *seen = memory_allocate(NULL, tarry_plan_workers(plan), sizeof(*seen));
    if (seen == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *crowded = 0;
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        bool shared = false;
        for (uint32_t i = 0; i < tarry_plan_replication(plan, chunk); i++) {
            uint32_t in = rack[tarry_plan_holder(plan, chunk, i)];
            if (in == TARRY_NO_RACK)
                continue;
            shared |= seen[in] == chunk + 1;
            seen[in] = chunk + 1;
        }
        *crowded += shared;
    }
    memory_release(NULL, seen);
    return TARRY_OK;
}

static int warn(train_job *job, const uint32_t *rack)
{
    const tarry_plan *plan = train_job_plan(job);
    uint32_t crowded;
    int error = count_crowded(plan, rack, &crowded);
    if (error == TARRY_OK && crowded > 0)
        complain(EXIT_DONE,
                 "by what the workers say of their racks, %u of %u chunks have two copies in one",
                 crowded, tarry_plan_chunks(plan));
    return error;
}

/*
 * Before the first round: workers may have said in which racks they are. If all are there and the
 * plan is to be adapted, copies are spread over them; a line says so if some still share one.
 */
static int train_job_settle_racks(train_job *job, tarry_plan_changes *changes,
                                  tarry_diagnostic *why)
{
    static const adapt_rule at_once = {.every = 1, .share = 1};
    runner *runs = runner_of(job);
    double asked = clock_seconds();
    uint32_t *rack = NULL;
    int error = runner_gather(runs, why);
    progress_pass_over(&job->progress, fmax(clock_seconds() - asked, 0));
    if (error == TARRY_OK)
        error = ask_racks(job, &rack);
    if (error != TARRY_OK || rack == NULL)
        return error;
    bool anew = job->first_round == 0 && job->inputs.options->run.adapt_rule.every != 0;
    if (anew && all_are_there(job))
        error = turn(job, &at_once, rack, changes, why);
    if (error == TARRY_OK)
        error = warn(job, rack);
    memory_release(NULL, rack);
    return error;
}

/* One round; false if the run is to end here. */
static bool run_round(train_job *job)
{
    history *past = job->past;
    tarry_diagnostic why = {""};
    history_round done = history_blank_round;
    int error = interrupt_seen(job->signals)      ? TARRY_ERROR_INTERRUPTED
                : past->count == job->first_round ? train_job_settle_racks(job, &done.changes, &why)
                                                  : train_job_adapt(job, &done.changes, &why);
    if (error == TARRY_OK)
        error = give_costs(job, past->count);
    if (error == TARRY_OK)
        error = sum_and_score(job, &done, &why);
    if (error != TARRY_OK) {
        explain_round_error(job, past, error, &why);
        return false;
    }
    error = use_estimate(job, &done, &why);
    const int kept = history_add(past, &done);
    if (error == TARRY_OK)
        error = kept;
    if (error == TARRY_OK)
        error = train_job_mark_checkpoint(job);
    if (error != TARRY_OK) {
        end_early(past, "%s after %zu rounds",
                  why.text[0] != '\0' ? why.text : tarry_error_text(error), past->count);
        return false;
    }
    keep_checkpoint(job);
    report_progress(job, &done.result);
    return true;
}

int train_job_run(train_job *job)
{
    const train_options *options = job->inputs.options;
    history *past = job->past;
    char what[256];
    open_doors(job);
    int status = train_job_settle_start(job);
    if (status != OPTIONS_PROCEED)
        return status;
    describe_job(job, what, sizeof(what));
    progress_begin(&job->progress, past->count, options->rounds, "round", options->quiet, what);
    note(job, "");
    while (past->count < options->rounds && !is_spent(job) && run_round(job)) {
    }
    progress_end(&job->progress);
    /* Who interrupts a run shall not wait for scores before it is safe. */
    status = past->interrupted ? leave_checkpoint(job) : EXIT_DONE;
    score_end(job);
    if (status == EXIT_DONE)
        status = leave_checkpoint(job);
    account(job);
    gather(job);
    if (past->error[0] == '\0')
        return status | check_divergence(job);
    return complain(EXIT_FAILED, "%s: %s", job->inputs.command, past->error);
}
