/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <tarry/version.h>

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

static json_t *round_json(const history *past, size_t i)
{
    const history_round *round = &past->rounds[i];
    const tarry_round_result *result = &round->result;
    objective_score train = history_train(past, i + 1), test = history_test(past, i + 1);
    double signal = result->signal_ns == TARRY_NEVER
                        ? NAN
                        : (double)(result->signal_ns - result->start_ns) * 1e-9;
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}",
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
        positive_json(result->error_bound), "local_steps", positive_json(round->local_steps), "sum",
        sum_json(result));
}

static json_t *rounds_json(const history *past)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < past->count; i++)
        list = json_append(list, round_json(past, i));
    return list;
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
    double rounds = 0, expected = 0;
    verified_round worst = history_worst(past);
    for (size_t i = 0; i < past->count; i++) {
        rounds += past->rounds[i].seconds;
        expected += past->rounds[i].result.expected_error;
    }
    json_t *more = json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "rounds", (json_int_t)past->count, "seconds",
        seconds_json(past, past->seconds), "round_seconds", seconds_json(past, rounds),
        "expected_error", number_json(past->count > 0 ? expected / (double)past->count : NAN),
        "verified_error", number_json(worst.error), "verified_squared_error",
        number_json(worst.squared_error), "model_rounding", number_json(worst.model_rounding));
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

int train_report_write(FILE *stream, const train_inputs *inputs, const train_job *job,
                       json_t *config, const history *past)
{
    const train_options *options = inputs->options;
    bool adapts = options->run.adapt_rule.every != 0;
    json_t *report = json_pack(
        "{s:s, s:s, s:I, s:O, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}",
        "command", inputs->command, "version", tarry_version(), "seed",
        (json_int_t)options->run.settings.plan.seed, "config", config, "plan",
        kept_plan_json(options, inputs->plan, job), "final_plan",
        adapts ? kept_plan_json(options, train_job_plan(job), job) : json_null(), "data",
        data_json(inputs), "dimension", (json_int_t)train_job_dimension(job), "straggler",
        json_text(options->straggler), "initial",
        score_json(history_train(past, 0), history_test(past, 0)), "rounds", rounds_json(past),
        "workers", workers_json(past), "network", train_job_describe(job), "final",
        final_json(past), "privacy", privacy_json(&options->privacy, &past->privacy), "interrupted",
        past->interrupted, "error", json_text(past->error[0] != '\0' ? past->error : NULL));
    return json_write(report, stream);
}
