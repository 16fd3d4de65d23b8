/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/output/clock.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "cli/train/train_job_state.h"
#include "cli/train/train_secure.h"

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

/* Between two rounds: the parameters are as they are now. */
int train_job_catch_up(train_job *job, tarry_diagnostic *why)
{
    if (job->steps == job->committed)
        return TARRY_OK;
    int error = runner_look(runner_of(job), job->committed, patience_ns(job), job->parameters,
                            optimizer_state_of(job->optimizer), why);
    if (error == TARRY_OK)
        job->steps = job->committed;
    return error;
}

int train_job_write_checkpoint(train_job *job, tarry_diagnostic *why)
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

int train_job_mark_checkpoint(train_job *job)
{
    if (job->inputs.keeper == NULL)
        return TARRY_OK;
    return train_checkpoint_mark(job->inputs.keeper, runner_of(job), train_job_plan(job));
}

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
    const local_settings *local = &job->inputs.options->local;
    if (local->seconds > 0) {
        round->local_steps = local_mean_steps(local, job->dimension, job->sum, job->samples);
        round->local_steps_used = local_used_steps(local, job->dimension, job->sum, job->samples);
        job->past->shortened += round->local_steps_used < round->local_steps;
    }
    optimizer_step(job->optimizer, job->gradient, job->parameters);
    return TARRY_OK;
}

static void note(train_job *job, const char *text)
{
    runner *runs = runner_of(job);
    tarry_runtime_note(runs->runtime, job->past->count, job->inputs.options->rounds, text);
}

static void report_progress(train_job *job, const history *past)
{
    const tarry_round_result *result = &past->last.result;
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

/* A worker whose connection comes and goes shall not wait for the next checkpoint, nor for the
 * round's end. */
void train_job_attend(void *user)
{
    train_job *job = user;
    train_checkpoint *keeper = job->inputs.keeper;
    bool known = job->steps == job->committed; /* within a round the workers can't be asked */
    if (keeper != NULL && known && train_checkpoint_urgent(keeper, runner_of(job)) &&
        train_job_mark_checkpoint(job) == TARRY_OK)
        try_checkpoint(job);
}

/* Once: the report has them all. */
static void warn_of_rounding(train_job *job, const tarry_round_result *result)
{
    if (result->conditioning == 0 || job->raised)
        return;
    job->raised = true;
    progress_end(&job->progress);
    complain(EXIT_DONE,
             "round %" PRIu64 ": the copies that are left give a sum with a larger rounding error: "
             "at most %.2g of the chunks' sizes (1/sigma_min %.3g); the training goes on",
             result->round, result->error_bound, result->conditioning);
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

/* A round's sum, and beside it, if it is time to, the scores of the parameters that it is at. */
static int sum_and_score(train_job *job, history_round *round, tarry_diagnostic *why)
{
    history *past = job->past;
    runner *runs = runner_of(job);
    bool scored = past->count % job->inputs.options->evaluate == 0;
    double asked = clock_seconds();
    int error = scored ? train_job_catch_up(job, why) : TARRY_OK;
    if (error != TARRY_OK)
        return error;
    if (scored)
        train_scores_begin(job->scores, job->parameters);
    error = runner_round(runs, job->parameters, job->sum, &round->result, why);
    if (error == TARRY_OK)
        error = train_secure_check_round(job, round, why);
    if (error == TARRY_OK && job->privacy != NULL)
        error = train_privacy_release(job->privacy, &round->result, job->sum, job->dimension, why);
    if (error == TARRY_OK)
        error = check_step(job, &round->result, why);
    if (error == TARRY_OK) {
        round->seconds = (double)(round->result.end_ns - round->result.start_ns) * 1e-9;
        /* Before it, workers may have been waited for. */
        progress_pass_over(&job->progress, fmax(clock_seconds() - asked - round->seconds, 0));
    }
    if (scored && error != TARRY_OK) {
        train_scores_drop(job->scores);
    } else if (scored &&
               train_scores_end(job->scores, round->result.round, &round->train, &round->test)) {
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
    history_round *round = history_add(past);
    if (round == NULL) {
        end_early(past, "out of memory after %zu rounds", past->count);
        return false;
    }
    *round = done;
    warn_of_rounding(job, &round->result);
    error = use_estimate(job, round, &why);
    if (error == TARRY_OK)
        error = train_job_mark_checkpoint(job);
    if (error != TARRY_OK) {
        end_early(past, "%s after %zu rounds",
                  why.text[0] != '\0' ? why.text : tarry_error_text(error), past->count);
        return false;
    }
    keep_checkpoint(job);
    report_progress(job, past);
    return true;
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
    train_scores_begin(job->scores, job->parameters);
    if (!train_scores_end(job->scores, TRAIN_SCORES_NO_ROUND, &past->train_end, &past->test_end) &&
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
    if (!(end > begin) || job->inputs.silent || (options->quiet && !options->fail_on_divergence))
        return EXIT_DONE; /* a loss that is not known is NaN */
    return complain(options->fail_on_divergence ? EXIT_FAILED : EXIT_DONE,
                    "%s: the loss rose from %.6g to %.6g: try a smaller --rate than %g",
                    job->inputs.command, begin, end, options->rate);
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
    return job->inputs.silent ? EXIT_FAILED
                              : complain(EXIT_FAILED, "%s: %s", job->inputs.command, past->error);
}
