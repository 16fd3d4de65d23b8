/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <tarry/version.h>

#include "base/diagnostic.h"
#include "cli/options/run_report.h"
#include "cli/output/event_log.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"

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
    double signal = result->signal_ns == TARRY_NEVER
                        ? NAN
                        : (double)(result->signal_ns - result->start_ns) * 1e-9;
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "round", (json_int_t)result->round, "seconds", seconds_json(past, round->seconds),
        "signal_seconds", seconds_json(past, signal), "loss", number_json(train.loss), "test_loss",
        number_json(test.loss), "test_accuracy", number_json(test.accuracy), "exact", result->exact,
        "expected_error", number_json(result->expected_error), "verified_error",
        number_json(round->verified.error), "verified_squared_error",
        number_json(round->verified.squared_error), "model_rounding",
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
        "conditioning", positive_json(result->conditioning), "error_bound",
        positive_json(result->error_bound), "local_steps", positive_json(round->local_steps),
        "local_steps_used", positive_json(round->local_steps_used), "saturation",
        number_json(round->saturation), "sum", sum_json(result));
}

/* Each by itself, so that a report of many rounds takes no more memory than one of few. */
static int write_rounds(FILE *stream, const history *past, tarry_diagnostic *diagnostic)
{
    bool first = true;
    for (size_t i = past->first; i < past->count; i++) {
        history_round round;
        objective_score train, test;
        int error = history_round_at(past, i, &round, diagnostic);
        if (error == TARRY_OK && round.lost)
            continue;
        if (error == TARRY_OK)
            error = history_scores_after(past, i, &train, &test, diagnostic);
        if (error == TARRY_OK)
            error = json_write_item(round_json(past, &round, train, test), first, stream);
        first = false;
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/* From which round on the report's parts count; `resumed_after` is null for a run of one process.
 */
static json_t *cover_json(const history *past)
{
    const json_int_t own = past->resumed ? (json_int_t)past->resumed_after : 0;
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "resumed_after",
                     past->resumed ? json_integer(own) : json_null(), "rounds",
                     (json_int_t)past->first, "lost", (json_int_t)history_total(past).lost,
                     "workers", (json_int_t)0, "network", own, "saturation", own);
}

static json_t *workers_json(const history *past)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < past->workers; i++) {
        const tarry_worker_state *worker = &past->worker[i];
        list =
            json_append(list, json_pack("{s:I, s:I, s:o, s:o, s:b}", "worker", (json_int_t)i,
                                        "chunks", (json_int_t)worker->chunks, "seconds",
                                        seconds_json(past, history_seconds(worker)), "pace",
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
    const history_totals sum = history_total(past);
    json_t *more = json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rounds", (json_int_t)past->count, "seconds",
        seconds_json(past, past->seconds), "round_seconds", seconds_json(past, sum.seconds),
        "expected_error",
        number_json(sum.rounds > 0 ? sum.expected_error / (double)sum.rounds : NAN),
        "verified_error", number_json(sum.worst.error), "verified_squared_error",
        number_json(sum.worst.squared_error), "model_rounding",
        number_json(sum.worst.model_rounding), "saturation", number_json(sum.saturation_most));
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
    json_t *more = run_memory_json(of, train_job_server(job), train_job_dimension(job));
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
                     "data", data_json(inputs), "dimension", (json_int_t)train_job_dimension(job),
                     "straggler", json_text(options->straggler), "covers", cover_json(past),
                     "initial", score_json(history_train_begin(past), history_test_begin(past)));
}

/* The members behind them. */
static json_t *tail_json(const train_inputs *inputs, const train_job *job, const history *past)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o}", "workers", workers_json(past), "network",
                     train_job_describe(job), "final", final_json(past), "privacy",
                     privacy_json(&inputs->options->privacy, &past->privacy), "interrupted",
                     past->interrupted, "error",
                     json_text(past->error[0] != '\0' ? past->error : NULL));
}

int train_report_write(FILE *stream, const train_inputs *inputs, const train_job *job,
                       json_t *config, const history *past, tarry_diagnostic *diagnostic)
{
    *diagnostic = (tarry_diagnostic){""};
    fputs("{", stream);
    int error = json_write_members(head_json(inputs, job, config, past), stream);
    fputs(",\n \"rounds\": [", stream);
    if (error == TARRY_OK)
        error = write_rounds(stream, past, diagnostic);
    fputs(past->count > past->first ? "\n ]," : "],", stream);
    if (error == TARRY_OK)
        error = json_write_members(tail_json(inputs, job, past), stream);
    fputs("\n}\n", stream);
    return error == TARRY_OK || diagnostic->text[0] != '\0'
               ? error
               : diagnose(diagnostic, error, "%s", tarry_error_text(error));
}
