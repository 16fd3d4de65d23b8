/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarry/error.h>
#include <tarry/settings.h>
#include <tarry/version.h>

#include "base/diagnostic.h"
#include "base/hex.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "cli/checkpoint/history.h"
#include "cli/job/job.h"
#include "cli/options/data_options.h"
#include "cli/options/run_options.h"
#include "cli/output/event_log.h"
#include "cli/output/interrupt.h"
#include "cli/output/output.h"
#include "cli/runner/runner.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "cli/train/train_job.h"
#include "cli/train/train_options.h"
#include "protocol/server/server_state.h"
#include "runtime/clock.h"
#include "straggler/straggler.h"

/* ---- table ---- */

#define ALL_WORKERS 16  /* up to so many, all workers are shown in their order */
#define FEW_WORKERS 8   /* of more, the slowest ones */
#define SLOW_FACTOR 1.5 /* "slow" is a worker that takes so many medians per chunk */

static void print_row(const char *name, const char *format, ...)
{
    va_list arguments;
    printf("  %-22s", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

static void print_times(history *past)
{
    char median[NUMBER_TEXT_SIZE], late[NUMBER_TEXT_SIZE];
    seconds_text(quantile_of(past->times, past->timed, 0.5), median);
    seconds_text(quantile_of(past->times, past->timed, 0.95), late);
    print_row("round time", "median %s, p95 %s", median, late);
}

static void print_costs(const history_totals *sum)
{
    double rounds = (double)sum->rounds;
    char control[NUMBER_TEXT_SIZE], upload[NUMBER_TEXT_SIZE];
    bytes_text(sum->control_bytes / rounds, control);
    bytes_text(sum->upload_bytes / rounds, upload);
    print_row("copies per chunk", "%.2f computed, %.0f needed", sum->copies / rounds,
              sum->needed / rounds);
    if (sum->moved + sum->split + sum->merged > 0)
        print_row("changes to the plan", "%.0f copies moved, %.0f chunks split, %.0f merged",
                  sum->moved, sum->split, sum->merged);
    print_row("attempts per round", "%.2f", sum->attempts / rounds);
    print_row("control per round", "%s in %.0f messages", control, sum->control_messages / rounds);
    print_row("upload per round", "%s", upload);
}

static void print_privacy(const history_privacy *privacy)
{
    print_row("privacy", "epsilon %.5g with delta %.3g, %" PRIu64 " sums released%s",
              privacy->epsilon, privacy->delta, privacy->releases,
              privacy->spent ? ": one more would exceed the budget" : "");
    if (!privacy->secret)
        print_row("", "NOT PRIVATE: the draws and the noise are those of a seed");
}

static void print_saturation(const history_totals *sum)
{
    if (sum->saturated > 0)
        print_row("beyond --secure-bound",
                  "%.3g %% of numbers in the worst round, %.3g %% on average",
                  100 * sum->saturation_most, 100 * sum->saturation_sum / (double)sum->saturated);
}

static void print_loss(const history *past)
{
    const double begin = history_train_begin(past).loss, end = past->train_end.loss;
    if (isnan(end) && isnan(begin))
        ; /* nobody here has the samples */
    else if (past->first > 0 && isfinite(end))
        print_row("loss", "%.6g at the end", end);
    else if (past->first > 0)
        print_row("loss", "not finite");
    else if (isfinite(end))
        print_row("loss", "%.6g -> %.6g", begin, end);
    else
        print_row("loss", "%.6g -> not finite", begin);
}

static void print_scores(const history *past, const verified_round *worst)
{
    if (past->privacy.counted)
        print_privacy(&past->privacy);
    else
        print_loss(past);
    if (isfinite(past->test_end.loss)) {
        if (isfinite(past->test_end.accuracy))
            print_row("test", "loss %.6g, accuracy %.2f %%", past->test_end.loss,
                      past->test_end.accuracy * 100);
        else
            print_row("test", "loss %.6g", past->test_end.loss);
    }
    if (!isnan(worst->error)) {
        print_row("worst verified error", "%.2g (squared: %.2g)", worst->error,
                  worst->squared_error);
        print_row("float32 of the model", "%.2g", worst->model_rounding);
    }
}

/* Which rounds the rows count, if this process did not do them all. */
static void print_cover(const history *past)
{
    if (past->first > 0)
        print_row("rounds counted", "%zu to %zu: the record of the rounds before them was damaged",
                  past->first, past->count);
    else if (past->resumed)
        print_row("rounds counted", "0 to %zu: the first %zu were done before --resume",
                  past->count, past->resumed_after);
    if (past->totals.lost > 0)
        print_row("", "without %zu that the server did before it was killed", past->totals.lost);
}

/* What a worker spent on its chunks; NaN: not known, since it computes elsewhere. */
static double seconds_of(const tarry_worker_state *worker)
{
    return worker->chunks > 0 && worker->seconds == 0 ? NAN : worker->seconds;
}

/* Of another process, as far as its reports told. */
static double per_chunk(const tarry_worker_state *worker)
{
    double seconds = seconds_of(worker);
    if (worker->chunks > 0 && !isnan(seconds))
        return seconds / (double)worker->chunks;
    return worker->pace > 0 ? worker->pace : INFINITY;
}

typedef struct ranked_worker {
    uint32_t index;
    bool present;
    double per_chunk;
} ranked_worker;

/* Lost ones first, then by seconds per chunk, slowest first. */
static int compare_slowness(const void *a, const void *b)
{
    const ranked_worker *x = a, *y = b;
    if (x->present != y->present)
        return x->present ? 1 : -1;
    if (x->per_chunk != y->per_chunk)
        return x->per_chunk < y->per_chunk ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static void print_worker(const history *past, uint32_t index, double median)
{
    const tarry_worker_state *worker = &past->worker[index];
    double seconds = per_chunk(worker);
    char time[NUMBER_TEXT_SIZE];
    seconds_text(seconds, time);
    const char *remark = !worker->present                                      ? "lost"
                         : worker->chunks == 0                                 ? "finished nothing"
                         : isfinite(seconds) && seconds > SLOW_FACTOR * median ? "slow"
                                                                               : "";
    printf("  %6u %10" PRIu64 " %12s%s%s\n", index, worker->chunks, time,
           *remark != '\0' ? "  " : "", remark);
}

static int print_workers(const history *past)
{
    double *times = memory_allocate(NULL, past->workers, sizeof(*times));
    ranked_worker *ranked = memory_allocate(NULL, past->workers, sizeof(*ranked));
    int error = times == NULL || ranked == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    size_t timed = 0;
    for (uint32_t i = 0; error == TARRY_OK && i < past->workers; i++) {
        ranked[i] = (ranked_worker){i, past->worker[i].present, per_chunk(&past->worker[i])};
        if (isfinite(ranked[i].per_chunk))
            times[timed++] = ranked[i].per_chunk;
    }
    if (error == TARRY_OK) {
        double median = quantile_of(times, timed, 0.5);
        uint32_t shown = past->workers;
        if (past->workers > ALL_WORKERS) {
            qsort(ranked, past->workers, sizeof(*ranked), compare_slowness);
            shown = FEW_WORKERS;
            printf("\n  the slowest %u of %u workers:", shown, past->workers);
        }
        printf("\n  worker     chunks   time/chunk\n");
        for (uint32_t i = 0; i < shown; i++)
            print_worker(past, ranked[i].index, median);
    }
    memory_release(NULL, ranked);
    memory_release(NULL, times);
    return error;
}

static void print_rounds(history *past)
{
    const history_totals *sum = &past->totals;
    char all[NUMBER_TEXT_SIZE];
    seconds_text(sum->seconds, all);
    printf("%zu rounds%s%s: %zu exact, %zu approximate\n", sum->rounds,
           past->privacy.counted ? "" : " in ", past->privacy.counted ? "" : all, sum->exact,
           sum->rounds - sum->exact);
    print_cover(past);
    if (!past->privacy.counted)
        print_times(past);
    print_costs(sum);
    if (sum->exact < sum->rounds)
        print_row("expected error", "%.3g (mean of the rounds)",
                  sum->expected_error / (double)sum->rounds);
    print_saturation(sum);
    print_scores(past, &sum->worst);
}

/* Prints what a run did to stdout: its rounds, then its workers,
 * of many only the slowest. Errors: NO_MEMORY. */
static int train_table_print(history *past)
{
    if (past->totals.rounds > 0)
        print_rounds(past);
    /* How long a worker took tells of how many samples it drew. */
    return past->privacy.counted ? TARRY_OK : print_workers(past);
}

/* ---- report ---- */

/* Writes the text, each line of it `depth` deeper; takes over both. */
static int write_text(json_t *value, char *text, size_t depth, FILE *stream)
{
    json_decref(value);
    if (text == NULL)
        return TARRY_ERROR_NO_MEMORY;
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n') /* behind the last member */
        length--;
    for (size_t i = 0; i < length; i++) {
        fputc(text[i], stream);
        for (size_t k = 0; text[i] == '\n' && k < depth; k++)
            fputc(' ', stream);
    }
    free(text);
    return TARRY_OK;
}

/*
 * Writes a report in parts, for lists that are too long for the memory: members of the outermost
 * object, without its braces and the comma behind the last. Together with json_write_item they are
 * laid out as json_write would.
 */
static int json_write_members(json_t *members, FILE *stream)
{
    return write_text(members,
                      json_dumps(members, JSON_INDENT(1) | JSON_REAL_PRECISION(17) | JSON_EMBED), 0,
                      stream);
}

/* An item of a list that is such a member. */
static int json_write_item(json_t *item, bool first, FILE *stream)
{
    fputs(first ? "\n  " : ",\n  ", stream);
    return write_text(item, json_dumps(item, JSON_INDENT(1) | JSON_REAL_PRECISION(17)), 2, stream);
}

/* Times tell of how many samples were drawn: with --dp there are none. */
static json_t *seconds_json(const history *past, double seconds)
{
    return number_json(past->privacy.counted ? NAN : seconds);
}

static json_t *privacy_json(const tarry_dp_terms *option, const history_privacy *privacy)
{
    if (!privacy->counted)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:o, s:I, s:o, s:b, s:b}", "clip", option->clip, "noise",
                     option->noise, "sample", option->sample, "delta", privacy->delta, "budget",
                     number_json(option->budget), "releases", (json_int_t)privacy->releases,
                     "epsilon", number_json(privacy->epsilon), "spent", privacy->spent, "secret",
                     privacy->secret);
}

/* `train` and `test` are the scores after it. */
static json_t *round_json(const history *past, const history_round *round, objective_score train,
                          objective_score test)
{
    const tarry_round_result *result = &round->result;
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o}",
        "round", (json_int_t)result->round, "seconds", seconds_json(past, round->seconds),
        "signal_seconds", seconds_json(past, round->signal_seconds), "loss",
        number_json(train.loss), "test_loss", number_json(test.loss), "test_accuracy",
        number_json(test.accuracy), "exact", result->exact, "expected_error",
        number_json(result->expected_error), "verified_error", number_json(round->verified.error),
        "verified_squared_error", number_json(round->verified.squared_error), "model_rounding",
        number_json(round->verified.model_rounding), "parts", (json_int_t)result->parts, "attempts",
        (json_int_t)result->attempts, "copies_computed", (json_int_t)result->copies_computed,
        "copies_needed", (json_int_t)result->copies_needed, "workers_heard",
        (json_int_t)result->workers_heard, "workers_lost", (json_int_t)result->workers_lost,
        "upload_bytes", (json_int_t)result->upload_bytes, "control_bytes",
        (json_int_t)result->control_bytes, "control_messages", (json_int_t)result->control_messages,
        "chunks_filled", (json_int_t)result->chunks_filled, "filled_share",
        number_json(result->filled_share), "moved", (json_int_t)round->changes.moved, "moved_data",
        number_json(round->changes.moved_data), "split", (json_int_t)round->changes.split, "merged",
        (json_int_t)round->changes.merged, "chunks",
        (json_int_t)(result->copies_needed / result->parts), "chunks_sampled",
        (json_int_t)result->chunks_sampled, "sampling_error", number_json(result->sampling_error),
        "saturation", number_json(round->saturation), "sum", sum_json(result));
}

typedef struct round_list {
    const history *past;
    FILE *stream;
    bool some;
} round_list;

/* A history_visit. Each round by itself, so that a report of many takes no more memory than one of
 * few. */
static int write_round_json(void *user, const history_round *round, objective_score train,
                            objective_score test)
{
    round_list *its = user;
    if (round->lost)
        return TARRY_OK;
    const bool first = !its->some;
    its->some = true;
    return json_write_item(round_json(its->past, round, train, test), first, its->stream);
}

/* From which round on the report's parts count; `resumed_after` is null for a run of one process.
 */
static json_t *cover_json(const history *past)
{
    const json_int_t own = past->resumed ? (json_int_t)past->resumed_after : 0;
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "resumed_after",
                     past->resumed ? json_integer(own) : json_null(), "rounds",
                     (json_int_t)past->first, "lost", (json_int_t)past->totals.lost, "workers",
                     (json_int_t)0, "network", own, "saturation", (json_int_t)past->first);
}

static json_t *workers_json(const history *past)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < past->workers; i++) {
        const tarry_worker_state *worker = &past->worker[i];
        list =
            json_append(list, json_pack("{s:I, s:I, s:o, s:o, s:b}", "worker", (json_int_t)i,
                                        "chunks", (json_int_t)worker->chunks, "seconds",
                                        seconds_json(past, seconds_of(worker)), "pace",
                                        seconds_json(past, worker->pace > 0 ? worker->pace : NAN),
                                        "present", worker->present));
    }
    return list;
}

static json_t *data_json(const train_inputs *inputs)
{
    const dataset *train = inputs->train;
    json_int_t test = inputs->test != NULL ? (json_int_t)inputs->test->rows : 0;
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:b}", "file",
                     json_text(inputs->options->source.path), "samples", (json_int_t)train->rows,
                     "test_samples", test, "features", (json_int_t)train->features, "classes",
                     (json_int_t)train->classes, "sparse", train->sparse);
}

static json_t *score_json(objective_score train, objective_score test)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "loss", number_json(train.loss), "accuracy",
                     number_json(train.accuracy), "test_loss", number_json(test.loss),
                     "test_accuracy", number_json(test.accuracy));
}

/* The end's scores, and what is known of all rounds together. */
static json_t *final_json(const history *past)
{
    json_t *final = score_json(past->train_end, past->test_end);
    const history_totals *sum = &past->totals;
    json_t *more = json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rounds", (json_int_t)past->count, "seconds",
        seconds_json(past, past->seconds), "round_seconds", seconds_json(past, sum->seconds),
        "expected_error",
        number_json(sum->rounds > 0 ? sum->expected_error / (double)sum->rounds : NAN),
        "verified_error", number_json(sum->worst.error), "verified_squared_error",
        number_json(sum->worst.squared_error), "model_rounding",
        number_json(sum->worst.model_rounding), "saturation", number_json(sum->saturation_most));
    if (json_object_update(final, more) != 0) {
        json_decref(final);
        final = NULL;
    }
    json_decref(more);
    return final;
}

/* The plan, with what its workers keep and what that takes. */
static json_t *kept_plan_json(const train_options *options, const tarry_plan *of,
                              const train_job *job)
{
    json_t *plan = run_plan_json(&options->run, of);
    json_t *more = run_memory_json(of, &job->server, job->dimension);
    if (json_object_update(plan, more) != 0) {
        json_decref(plan);
        plan = NULL;
    }
    json_decref(more);
    return plan;
}

/* The members before the rounds. */
static json_t *head_json(const train_inputs *inputs, const train_job *job, json_t *config,
                         const history *past)
{
    const train_options *options = inputs->options;
    bool adapts = options->run.adapt_rule.every != 0;
    return json_pack("{s:s, s:s, s:I, s:O, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "command",
                     inputs->command, "version", tarry_version(), "seed",
                     (json_int_t)options->run.settings.plan.seed, "config", config, "plan",
                     kept_plan_json(options, inputs->plan, job), "final_plan",
                     adapts ? kept_plan_json(options, train_job_plan(job), job) : json_null(),
                     "data", data_json(inputs), "dimension", (json_int_t)job->dimension,
                     "straggler", json_text(options->straggler), "covers", cover_json(past),
                     "initial", score_json(history_train_begin(past), history_test_begin(past)));
}

/* A tarry_runtime_visit. */
static int copy_settings(void *user, const tarry_server *machine)
{
    *(tarry_server_settings *)user = machine->settings;
    return TARRY_OK;
}

/* The settings that the coordinator works by: what was given has been completed. Written as text,
 * as a tree of JSON has no numbers above INT64_MAX. */
static int write_settings(const train_job *job, FILE *stream)
{
    tarry_server_settings used = job->server;
    tarry_runtime_visit(runner_of(job)->runtime, copy_settings, &used);
    const size_t length = tarry_server_settings_write(&used, &job->rules, NULL, 0);
    char *text = malloc(length + 1);
    if (text == NULL)
        return TARRY_ERROR_NO_MEMORY;
    tarry_server_settings_write(&used, &job->rules, text, length + 1);
    fprintf(stream, ",\n \"settings\": %s", text);
    free(text);
    return TARRY_OK;
}

/* The members behind them. */
static json_t *tail_json(const train_inputs *inputs, const train_job *job, const history *past)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o}", "workers", workers_json(past), "network",
                     runner_describe(runner_of(job)), "final", final_json(past), "privacy",
                     privacy_json(&inputs->options->privacy, &past->privacy), "interrupted",
                     past->interrupted, "error",
                     json_text(past->error[0] != '\0' ? past->error : NULL));
}

/*
 * Writes the report of the job's run as JSON (docs/reports.md): `config` is the object of all
 * options, which is borrowed. Errors: NO_MEMORY, or as history_round_at, with a diagnostic; what
 * the stream refuses shows in the stream.
 */
static int train_report_write(FILE *stream, const train_inputs *inputs, const train_job *job,
                              json_t *config, const history *past, tarry_diagnostic *diagnostic)
{
    *diagnostic = (tarry_diagnostic){""};
    fputs("{", stream);
    int error = json_write_members(head_json(inputs, job, config, past), stream);
    if (error == TARRY_OK)
        error = write_settings(job, stream);
    fputs(",\n \"rounds\": [", stream);
    round_list rounds = {past, stream, false};
    if (error == TARRY_OK)
        error = history_each(past, write_round_json, &rounds, diagnostic);
    fputs(past->count > past->first ? "\n ]," : "],", stream);
    if (error == TARRY_OK)
        error = json_write_members(tail_json(inputs, job, past), stream);
    fputs("\n}\n", stream);
    return error == TARRY_OK || diagnostic->text[0] != '\0'
               ? error
               : diagnose(diagnostic, error, "%s", tarry_error_text(error));
}

/* ---- run ---- */

/* Opened before the training, so that it is not for nothing; NULL where not asked for. */
typedef struct train_outputs {
    output_file *report;
    output_file *save;
} train_outputs;

static int open_outputs(const train_options *options, train_outputs *outputs)
{
    int status = output_begin(options->report, &outputs->report);
    if (status == OPTIONS_PROCEED)
        status = output_begin(options->save, &outputs->save);
    return status;
}

static void discard_outputs(train_outputs *outputs)
{
    output_file_discard(outputs->report);
    output_file_discard(outputs->save);
}

/*
 * Writes values[0..count-1] as a one-dimensional float32 array in NumPy's format 1.0
 * (numpy.lib.format). Errors show in the stream.
 */
static void npy_write(FILE *stream, const float *values, size_t count)
{
    /* Magic, version and header length take 10 bytes; the data begin at a multiple of 64. */
    enum { HEADER = 118 };
    char header[HEADER + 1];
    int length = snprintf(header, sizeof(header),
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu,), }", count);
    memset(header + length, ' ', (size_t)(HEADER - length));
    header[HEADER - 1] = '\n';
    const unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, HEADER, 0};
    fwrite(start, 1, sizeof(start), stream);
    fwrite(header, 1, HEADER, stream);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        const unsigned char bytes[4] = {(unsigned char)bits, (unsigned char)(bits >> 8),
                                        (unsigned char)(bits >> 16), (unsigned char)(bits >> 24)};
        fwrite(bytes, 1, sizeof(bytes), stream);
    }
}

static int write_report(const train_inputs *inputs, const option_command *command,
                        const train_job *job, const history *past, output_file **file)
{
    json_t *config = options_json(command);
    tarry_diagnostic why = {"out of memory"};
    int error = TARRY_ERROR_NO_MEMORY;
    if (config != NULL)
        error = train_report_write(output_file_stream(*file), inputs, job, config, past, &why);
    json_decref(config);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "--report: %s", why.text);
    return output_end(file);
}

/* Writes what there is to write of the rounds done. */
static int write_outputs(const train_inputs *inputs, const option_command *command,
                         const train_job *job, const history *past, train_outputs *outputs)
{
    int status = EXIT_DONE;
    if (outputs->report != NULL)
        status |= write_report(inputs, command, job, past, &outputs->report);
    if (outputs->save != NULL && train_job_is_sound(job)) {
        npy_write(output_file_stream(outputs->save), job->parameters, job->dimension);
        status |= output_end(&outputs->save);
    }
    return status;
}

/* A run may have millions of rounds. Without any file that needs them, totals are enough. */
static void keep_rounds(const train_options *options, history *past)
{
    if (options->checkpoint != NULL)
        return; /* they are in a file of their own from the first checkpoint on */
    if (options->report != NULL)
        history_use_file(past, options->report);
    else
        history_forget_rounds(past);
}

static int run_job(const train_inputs *inputs, const option_command *command,
                   train_outputs *outputs)
{
    const train_options *options = inputs->options;
    train_job *job = NULL;
    history *past = NULL;
    int status = EXIT_FAILED;
    if (history_create(options->run.settings.plan.workers, tarry_plan_chunks(inputs->plan),
                       &past) != TARRY_OK)
        return complain(EXIT_FAILED, "%s: out of memory", command->name);
    keep_rounds(options, past);
    status = train_job_create(inputs, past, &job);
    if (status == OPTIONS_PROCEED) {
        status = train_job_run(job);
        status |= write_outputs(inputs, command, job, past, outputs);
        if (!options->quiet && train_table_print(past) != TARRY_OK)
            status = complain(EXIT_FAILED, "%s: out of memory", command->name);
    }
    train_job_free(job);
    history_free(past);
    return status;
}

static int make_straggler(const train_options *options, tarry_straggler **straggler)
{
    tarry_diagnostic why;
    int error = tarry_straggler_create(options->straggler, options->run.settings.plan.workers,
                                       options->run.settings.plan.seed, NULL, straggler, &why);
    if (error != TARRY_OK) {
        bool usage = error == TARRY_ERROR_FORMAT || error == TARRY_ERROR_ARGUMENT;
        return complain(usage ? EXIT_USAGE : EXIT_FAILED, "--straggler: %s", why.text);
    }
    const char *mortal = straggler_mortal_term(*straggler);
    if (mortal == NULL)
        return OPTIONS_PROCEED;
    tarry_straggler_free(*straggler);
    *straggler = NULL;
    return complain(EXIT_USAGE, "--straggler: term '%s' is for tarry simulate", mortal);
}

/* Leaves *costs NULL where none are given. */
static int read_costs(const train_options *options, chunk_cost **costs)
{
    tarry_diagnostic why;
    if (strcmp(options->run.chunk_cost, "learned") == 0 ||
        strcmp(options->run.chunk_cost, "equal") == 0)
        return OPTIONS_PROCEED;
    int error = chunk_cost_create(options->run.chunk_cost, NULL, costs, &why);
    if (error == TARRY_OK)
        return OPTIONS_PROCEED;
    return complain(error == TARRY_ERROR_FORMAT ? EXIT_USAGE : EXIT_FAILED, "--chunk-cost: %s",
                    why.text);
}

static int open_checkpoint(const option_command *command, const train_options *options,
                           const tarry_plan *plan, const dataset *train, const dataset *test,
                           train_checkpoint **keeper)
{
    if (options->checkpoint == NULL)
        return OPTIONS_PROCEED;
    json_t *config = options_json(command);
    if (config == NULL)
        return complain(EXIT_FAILED, "--checkpoint: out of memory");
    const train_identity identity = {config, plan, train, test};
    int status = train_checkpoint_open(options, &identity, keeper);
    json_decref(config);
    return status;
}

/* There are few samples: the plan is another one. */
static int plan_again(const train_options *options, tarry_plan **plan)
{
    if (tarry_plan_chunks(*plan) == run_options_units(&options->run))
        return OPTIONS_PROCEED;
    tarry_plan_free(*plan);
    *plan = NULL;
    return run_options_plan(&options->run, plan);
}

/* What the inputs are made of. */
typedef struct materials {
    tarry_plan *plan;
    tarry_straggler *straggler;
    chunk_cost *costs;
    dataset *train, *test;
} materials;

/* Before anything is made: a plan for very many workers takes long, and much memory itself. */
static int check_room(const option_command *command, const train_options *options,
                      runner_create *create)
{
    const crew_size crew = train_job_crew(options, create);
    char what[NUMBER_TEXT_SIZE + 32];
    tarry_diagnostic why;
    snprintf(what, sizeof(what), "%" PRIu32 " workers on this machine", crew.workers);
    return crew_room_check(&crew, crew_room_bytes(&crew), what, false, &why) == TARRY_OK
               ? OPTIONS_PROCEED
               : complain(EXIT_FAILED, "%s: %s", command->name, why.text);
}

/* How sums are made, by the options, which are checked here. */
static int make_rules(const option_command *command, train_options *options, runner_create *create,
                      materials *made)
{
    int status = train_options_check(options);
    if (status == OPTIONS_PROCEED)
        status = check_room(command, options, create);
    if (status == OPTIONS_PROCEED)
        status = make_straggler(options, &made->straggler);
    if (status == OPTIONS_PROCEED)
        status = read_costs(options, &made->costs);
    if (status == OPTIONS_PROCEED)
        status = run_options_plan(&options->run, &made->plan);
    return status;
}

static int load_samples(train_options *options, materials *made)
{
    int status = train_data_load(options, &made->train, &made->test);
    return status == OPTIONS_PROCEED ? plan_again(options, &made->plan) : status;
}

static void materials_free(materials *made)
{
    dataset_free(made->train);
    dataset_free(made->test);
    tarry_plan_free(made->plan);
    tarry_straggler_free(made->straggler);
    chunk_cost_free(made->costs);
}

static train_inputs inputs_of(const option_command *command, const train_options *options,
                              const materials *made)
{
    return (train_inputs){
        .command = command->name,
        .options = options,
        .plan = made->plan,
        .straggler = made->straggler,
        .costs = made->costs,
        .train = made->train,
        .test = made->test,
    };
}

int train_run(const option_command *command, train_options *options, runner_create *create,
              void *create_user)
{
    materials made = {0};
    train_checkpoint *keeper = NULL;
    train_outputs outputs = {NULL, NULL};
    /* To the end of the process: events and the last lines come when the job is over. */
    write_signals_ignore(NULL);
    int status = make_rules(command, options, create, &made);
    if (status == OPTIONS_PROCEED)
        status = open_outputs(options, &outputs);
    if (status == OPTIONS_PROCEED)
        status = load_samples(options, &made);
    if (status == OPTIONS_PROCEED)
        status = open_checkpoint(command, options, made.plan, made.train, made.test, &keeper);
    if (status == OPTIONS_PROCEED) {
        train_inputs inputs = inputs_of(command, options, &made);
        inputs.create = create;
        inputs.create_user = create_user;
        inputs.keeper = keeper;
        status = run_job(&inputs, command, &outputs);
    }
    discard_outputs(&outputs);
    train_checkpoint_close(keeper);
    materials_free(&made);
    return status;
}

/* ---- worker processes ---- */

enum { LAST_SIZE = 512, ARGUMENTS_MOST = 48, STACK_BYTES = 1 << 18 };

#define LEAST_LIFE_NS UINT64_C(1000000000) /* from one start to the next */
#define LAST_WAIT_NS UINT64_C(2000000000)  /* for those that were told to end */

/*
 * Worker processes on this machine, one for each worker. A process is killed when the thread ends
 * that started it, and so when this process does: each has a thread that starts it and waits for
 * its end. One that was killed is started again, a second after its start at the earliest; one that
 * ended by itself is not.
 */
typedef struct children children;

typedef struct child {
    children *all;
    uint32_t index;
    pid_t process; /* 0: none runs */
    pthread_t thread;
} child;

struct children {
    uint32_t count; /* of threads */
    char *const *arguments;
    int input;
    bool quiet;
    pid_t parent;
    child *one;
    pthread_mutex_t lock;   /* of what follows, and of the processes */
    pthread_cond_t changed; /* on the monotonic clock */
    bool retired;
    uint32_t left; /* that run, or are to be started again */
};

/* What is left to do between fork and exec, where only few functions may be called. */
static _Noreturn void child_become(const children *all, char *const *arguments)
{
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != all->parent)
        _exit(1);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int input = all->input >= 0 ? all->input : open("/dev/null", O_RDONLY);
    if (input >= 0)
        dup2(input, STDIN_FILENO);
    execv("/proc/self/exe", arguments);
    _exit(127);
}

/* With the lock held. */
static bool child_start(child *one)
{
    const children *all = one->all;
    char last[LAST_SIZE];
    char *arguments[ARGUMENTS_MOST + 1];
    size_t count = 0;
    for (; all->arguments[count] != NULL; count++)
        arguments[count] = all->arguments[count];
    snprintf(last, sizeof(last), "%s%" PRIu32, arguments[count - 1], one->index);
    arguments[count - 1] = last;
    arguments[count] = NULL;
    pid_t process = fork();
    if (process == 0)
        child_become(all, arguments);
    one->process = process > 0 ? process : 0;
    return process > 0;
}

/* Until it ends, with the lock held, which is let go meanwhile; gives back the signal that killed
 * it, or 0. Nobody else may get its number as long as others may send it a signal. */
static int child_wait(child *one)
{
    siginfo_t how = {.si_code = CLD_EXITED};
    const pid_t process = one->process;
    pthread_mutex_unlock(&one->all->lock);
    while (waitid(P_PID, (id_t)process, &how, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    pthread_mutex_lock(&one->all->lock);
    waitpid(process, NULL, 0);
    one->process = 0;
    return how.si_code == CLD_EXITED ? 0 : how.si_status;
}

/* Waits for a change, with the lock held; false once it is that time. */
static bool children_wait(children *all, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                   .tv_nsec = (long)(until_ns % 1000000000)};
    return pthread_cond_timedwait(&all->changed, &all->lock, &until) != ETIMEDOUT;
}

static void *child_look_after(void *user)
{
    child *one = user;
    children *all = one->all;
    pthread_mutex_lock(&all->lock);
    while (!all->retired) {
        const uint64_t started_ns = clock_now_ns();
        const bool runs = child_start(one);
        const pid_t process = one->process;
        const int killed = runs ? child_wait(one) : 0;
        if (all->retired || (runs && killed == 0))
            break;
        if (runs && !all->quiet)
            /* A line that shows how far the run is makes room. */
            fprintf(stderr,
                    "%sworker %" PRIu32 " (process %d): killed by signal %d; it is started again\n",
                    isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", one->index, (int)process, killed);
        while (!all->retired && children_wait(all, started_ns + LEAST_LIFE_NS)) {
        }
    }
    all->left--;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

static uint32_t children_left(children *all)
{
    pthread_mutex_lock(&all->lock);
    const uint32_t left = all->left;
    pthread_mutex_unlock(&all->lock);
    return left;
}

/* None is started again from now on. */
static void children_retire(children *all)
{
    pthread_mutex_lock(&all->lock);
    all->retired = true;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

/* Waits a little until all have ended, and kills those that have not. NULL is allowed. */
static void children_end(children *all)
{
    if (all == NULL)
        return;
    children_retire(all);
    const uint64_t until_ns = clock_now_ns() + LAST_WAIT_NS;
    pthread_mutex_lock(&all->lock);
    while (all->left > 0 && children_wait(all, until_ns)) {
    }
    for (uint32_t i = 0; i < all->count; i++)
        if (all->one[i].process > 0)
            kill(all->one[i].process, SIGKILL);
    pthread_mutex_unlock(&all->lock);
    for (uint32_t i = 0; i < all->count; i++)
        pthread_join(all->one[i].thread, NULL);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    memory_release(NULL, all->one);
    memory_release(NULL, all);
}

/*
 * Starts `count` processes of this program, each with the arguments, which end with NULL, and the
 * number of its own, from 0, right behind the last one ("--worker=" becomes "--worker=3"); the
 * arguments are borrowed and must outlive the children. `input` is a descriptor that becomes their
 * standard input, borrowed as well; -1: they have none.
 * They don't see Ctrl-C in the terminal: they end when they are told to. Unless quiet, stderr hears
 * of each that is killed. Errors: NO_MEMORY, SYSTEM, with a diagnostic.
 */
static int children_start(uint32_t count, char *const *arguments, int input, bool quiet,
                          children **out, tarry_diagnostic *diagnostic)
{
    children *all = memory_allocate(NULL, 1, sizeof(*all));
    child *one = memory_allocate(NULL, count, sizeof(*one));
    if (all == NULL || one == NULL) {
        memory_release(NULL, one);
        memory_release(NULL, all);
        return diagnose_no_memory(diagnostic, "worker processes");
    }
    *all = (children){.arguments = arguments,
                      .input = input,
                      .quiet = quiet,
                      .parent = getpid(),
                      .one = one,
                      .left = count};
    pthread_condattr_t clock;
    pthread_attr_t small;
    pthread_mutex_init(&all->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&all->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    int failed = 0;
    for (; all->count < count && failed == 0; all->count += failed == 0) {
        one[all->count] = (child){.all = all, .index = all->count};
        failed =
            pthread_create(&one[all->count].thread, &small, child_look_after, &one[all->count]);
    }
    pthread_attr_destroy(&small);
    if (failed == 0) {
        *out = all;
        return TARRY_OK;
    }
    pthread_mutex_lock(&all->lock);
    all->left -= count - all->count;
    pthread_mutex_unlock(&all->lock);
    children_end(all);
    return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "worker processes: %s", strerror(failed));
}

/* ---- runner processes ---- */

#define WAIT_NS UINT64_C(60000000000)
/* In which a worker that was killed is there again. */
#define PATIENCE_NS UINT64_C(10000000000)

enum {
    RANDOM_BYTES = 16,
    SOCKET_SIZE = 128,
    ARGUMENTS = 32,
    NUMBER_SIZE = 24,
    FOLDER_SIZE = CREW_KEYS_PATH + 40,
};

typedef struct runner_processes {
    runner_tcp_settings settings;
    runner_crew crew;
    char socket[SOCKET_SIZE]; /* "unix:@...", in no folder; of secure sums an address on loopback */
    const char *listen[1];
    char seed[NUMBER_SIZE], colluders[NUMBER_SIZE], least[NUMBER_SIZE];
    char bits[NUMBER_SIZE], bound[NUMBER_SIZE], chunk_samples[NUMBER_SIZE];
    /* Of secure sums: the folder of all credentials ("": there is none), that of the server, and
     * what those of a worker begin with. */
    char keys[CREW_KEYS_PATH], server_keys[FOLDER_SIZE], worker_keys[FOLDER_SIZE];
    int draws; /* with differential privacy: the key of draws, which workers inherit; else -1 */
    char *arguments[ARGUMENTS];
    children *workers; /* NULL: not started yet */
} runner_processes;

/* A name that nobody else has. It goes with this process, however that ends. */
static int name_socket(runner_processes *own, tarry_diagnostic *diagnostic)
{
    uint8_t random[RANDOM_BYTES];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "worker processes: %s", strerror(errno));
    hex_put(stpcpy(own->socket, "unix:@tarry-"), random, sizeof(random));
    return TARRY_OK;
}

/* Secure sums are made over TLS, by workers with credentials of their own. */
static int make_keys(runner_processes *own, uint32_t workers, tarry_diagnostic *diagnostic)
{
    int error = crew_keys_make(workers, own->keys, diagnostic);
    if (error != TARRY_OK) {
        own->keys[0] = '\0';
        return error;
    }
    snprintf(own->server_keys, sizeof(own->server_keys), "%s/server", own->keys);
    snprintf(own->worker_keys, sizeof(own->worker_keys), "--credentials=%s/worker-", own->keys);
    snprintf(own->socket, sizeof(own->socket), "127.0.0.1:0");
    return TARRY_OK;
}

/* What a worker of secure sums insists on, and who it is. Its owner is the one who runs this, and
 * so wants what the server does. */
static size_t write_secure_arguments(runner_processes *own, const secure_options *options,
                                     const tarry_secure_rules *rules, size_t count)
{
    snprintf(own->bits, sizeof(own->bits), "%" PRIu32, rules->bits);
    snprintf(own->bound, sizeof(own->bound), "%.17g", rules->bound);
    snprintf(own->chunk_samples, sizeof(own->chunk_samples), "%" PRIu64, options->chunk_samples);
    snprintf(own->colluders, sizeof(own->colluders), "%" PRIu32, rules->colluders);
    snprintf(own->least, sizeof(own->least), "%" PRIu64, rules->least);
    const char *const words[] = {
        "--secure", "--secure-colluders",     own->colluders,     "--secure-least",
        own->least, "--secure-bits",          own->bits,          "--secure-bound",
        own->bound, "--secure-chunk-samples", own->chunk_samples, own->worker_keys};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        own->arguments[count++] = (char *)words[i];
    return count;
}

/* The command line of a worker, up to its number. */
static void write_arguments(runner_processes *own, const train_options *options,
                            const tarry_secure_rules *rules)
{
    size_t count = 0;
    snprintf(own->seed, sizeof(own->seed), "%" PRIu64, options->run.settings.plan.seed);
    const char *const always[] = {"tarry",     "work",        "--connect",
                                  own->socket, "--quiet",     "--straggler-seed",
                                  own->seed,   "--straggler", options->straggler};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        own->arguments[count++] = (char *)always[i];
    if (options->source.path != NULL) {
        own->arguments[count++] = "--data";
        own->arguments[count++] = (char *)options->source.path;
    }
    if (options->source.zero_based)
        own->arguments[count++] = "--zero-based";
    if (options->source.labels_path != NULL) {
        own->arguments[count++] = "--labels";
        own->arguments[count++] = (char *)options->source.labels_path;
    }
    if (rules->bits != 0) {
        write_secure_arguments(own, &options->secure, rules, count);
        return;
    }
    if (own->draws >= 0) {
        own->arguments[count++] = "--dp-key";
        own->arguments[count++] = "/dev/stdin";
    }
    own->arguments[count++] = "--insecure";
    own->arguments[count] = "--worker=";
}

static uint32_t expected(void *user)
{
    const runner_processes *own = user;
    return children_left(own->workers);
}

static void retire(void *user)
{
    runner_processes *own = user;
    if (own->workers != NULL)
        children_retire(own->workers);
}

static void release(runner_processes *own)
{
    if (own->draws >= 0)
        close(own->draws);
    if (own->keys[0] != '\0')
        crew_keys_remove(own->keys);
    memory_release(NULL, own);
}

static void end(void *user)
{
    runner_processes *own = user;
    children_end(own->workers);
    release(own);
}

static const char protects_nobody[] =
    "--secure: the workers' credentials are made for this run alone, by this process: secure sums "
    "as they are for trying, which protect nobody here";

int runner_processes_create(void *user, const runner_request *request, runner **out,
                            tarry_diagnostic *diagnostic)
{
    const train_options *options = user;
    runner_processes *own = memory_allocate(NULL, 1, sizeof(*own));
    if (own == NULL)
        return diagnose_no_memory(diagnostic, "worker processes");
    own->draws = -1;
    const bool secure = request->secure.bits != 0;
    int error = secure ? make_keys(own, tarry_plan_workers(request->plan), diagnostic)
                       : name_socket(own, diagnostic);
    if (error == TARRY_OK && request->draws != NULL)
        error = draws_key_share(request->draws, &own->draws, diagnostic);
    if (error != TARRY_OK)
        goto release_own;
    own->listen[0] = own->socket;
    own->settings = (runner_tcp_settings){
        .listen = own->listen,
        .listen_count = 1,
        .security = {.credentials = secure ? own->server_keys : NULL, .insecure = !secure},
        .wait_ns = WAIT_NS,
        .patience_ns = PATIENCE_NS,
        .crew = &own->crew,
    };
    own->crew = (runner_crew){.user = own, .expected = expected, .retire = retire, .end = end};
    runner *server;
    error = runner_tcp_create(&own->settings, request, &server, diagnostic);
    if (error != TARRY_OK)
        goto release_own;
    if (secure) {
        request->say(request->say_user, protects_nobody);
        snprintf(own->socket, sizeof(own->socket), "%s", tarry_runtime_address(server->runtime, 0));
    }
    write_arguments(own, options, &request->secure);
    error = children_start(tarry_plan_workers(request->plan), own->arguments, own->draws,
                           options->quiet, &own->workers, diagnostic);
    if (error == TARRY_OK)
        *out = server;
    else
        runner_free(server, true); /* and its crew */
    return error;

release_own:
    release(own);
    return error;
}
