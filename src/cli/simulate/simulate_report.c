/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_report.h"

#include <tarry/version.h>

#include "cli/options/run_options.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"

static json_t *spread_json(const spread *values)
{
    const summary *all = &values->all;
    return json_pack("{s:o, s:o, s:o, s:o}", "mean", number_json(all->mean), "sd",
                     number_json(all->sd), "median", number_json(all->median), "p95",
                     number_json(all->p95));
}

/* Each trial's error of a sum that ends at this deadline; paired over schemes. */
static json_t *trial_errors_json(const simulate_trials *trials, size_t variant, size_t deadline)
{
    json_t *list = json_array();
    for (size_t trial = 0; list != NULL && trial < trials->options->trials; trial++) {
        if (trials->done[trial])
            list = json_append(
                list, number_json(simulate_trials_errors(trials, trial, variant)[deadline]));
    }
    return list;
}

static json_t *errors_json(const simulate_trials *trials, size_t variant, const spread *errors)
{
    const real_list *deadlines = &trials->options->deadlines;
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < deadlines->count; i++)
        list = json_append(list, json_pack("{s:f, s:o, s:o, s:o}", "deadline", deadlines->values[i],
                                           "mean", number_json(errors[i].all.mean), "sd",
                                           number_json(errors[i].all.sd), "trials",
                                           trial_errors_json(trials, variant, i)));
    return list;
}

static json_t *round_times_json(const round_times *times)
{
    return json_pack("{s:I, s:o, s:o, s:o}", "rounds", (json_int_t)times->rounds, "p50",
                     number_json(times->p50), "p99", number_json(times->p99), "most",
                     number_json(times->most));
}

/* Bytes that the busiest of each kind carries, in and out. */
static json_t *cards_json(const double *bytes)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "root_in", number_json(bytes[0]), "root_out",
                     number_json(bytes[1]), "leaf_in", number_json(bytes[2]), "leaf_out",
                     number_json(bytes[3]));
}

/* What passed links in a round. */
static json_t *traffic_json(const round_figures *round)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "sum_seconds", number_json(round->sum_seconds),
                     "cards", cards_json(round->cards), "root_messages",
                     number_json(round->root_messages), "root_control_bytes",
                     number_json(round->root_control_bytes));
}

static json_t *round_json(const round_figures *round)
{
    json_t *its = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "seconds",
        number_json(round->seconds), "ratio_to_balanced", number_json(round->balanced_ratio),
        "ratio_to_matched", number_json(round->matched_ratio), "ratio_to_uncoded",
        number_json(round->uncoded_ratio), "copies", number_json(round->copies), "control_bytes",
        number_json(round->control_bytes), "control_messages", number_json(round->control_messages),
        "parts", number_json(round->parts), "moved", number_json(round->moved), "moved_share",
        number_json(round->moved_share), "split", number_json(round->split), "merged",
        number_json(round->merged));
    json_t *traffic = traffic_json(round);
    if (json_object_update(its, traffic) != 0) {
        json_decref(its);
        its = NULL;
    }
    json_decref(traffic);
    return its;
}

static json_t *rounds_json(const round_figures *rounds, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < count; i++)
        list = json_append(list, round_json(&rounds[i]));
    return list;
}

/* Each trial's time, null where it could not end; paired over schemes. */
static json_t *seconds_json(const simulate_trials *trials, size_t variant)
{
    json_t *list = json_array();
    for (size_t trial = 0; list != NULL && trial < trials->options->trials; trial++) {
        if (trials->done[trial])
            list = json_append(
                list, number_json(simulate_trials_outcome(trials, trial, variant)->seconds));
    }
    return list;
}

static json_t *settings_json(const simulate_variant *variant)
{
    return json_pack(
        "{s:o, s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o}", "design",
        json_text(variant->run.design), "order", variant->run.order, "credit",
        run_credit_name(variant->run.settings.server.credit), "keep",
        run_keep_name(variant->run.settings.server.keep), "ahead",
        run_ahead_json(variant->run.settings.server.keep, variant->run.settings.server.ahead),
        "stop", variant->stop, "fill", run_fill_name(variant->run.settings.server.fill), "compress",
        variant->run.compress, "compress_down",
        run_down_name(variant->run.settings.server.compress_down), "upload",
        simulate_upload_name(variant->sim.upload), "sum", simulate_sum_name(variant->sim.way),
        "adapt", (json_int_t)variant->run.adapt_rule.every, "racks",
        variant->run.racks != NULL ? json_text(variant->run.racks) : json_null());
}

static json_t *result_json(const simulate_trials *trials, size_t index,
                           const simulate_summary *figures)
{
    const simulate_options *options = trials->options;
    const simulate_variant *variant = &trials->variants->items[index];
    json_t *result = json_pack(
        "{s:o, s:I, s:b, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:s?}", "scheme",
        json_text(variant->scheme), "parts", (json_int_t)variant->run.settings.plan.parts,
        "adaptive_parts", variant->run.settings.plan.adaptive_parts, "pieces",
        (json_int_t)variant->run.settings.plan.pieces, "replication",
        (json_int_t)variant->run.settings.plan.replication, "stored", (json_int_t)variant->stored,
        "settings", settings_json(variant), "straggler", json_text(options->straggler), "trials",
        (json_int_t)figures->trials, "failed", (json_int_t)figures->failed, "failure",
        figures->failed > 0 ? figures->failure : NULL);
    json_t *times = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "time", spread_json(&figures->seconds),
        "balanced", spread_json(&figures->balanced), "matched", spread_json(&figures->matched),
        "ratio_to_balanced", number_json(figures->balanced_ratio.all.median), "ratio_to_matched",
        number_json(figures->matched_ratio.all.median), "ratio_to_uncoded",
        number_json(figures->uncoded_ratio.all.median), "uncoded_failed",
        (json_int_t)figures->uncoded_failed, "seconds", seconds_json(trials, index));
    json_t *work = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:I, s:o, s:o, s:o}",
        "work_ratio", number_json(figures->work_ratio), "copies", number_json(figures->copies),
        "exact", number_json(figures->exact), "expected_error",
        number_json(figures->expected_error), "chunks_filled", number_json(figures->chunks_filled),
        "filled_share", number_json(figures->filled_share), "verified_error",
        number_json(figures->verified_error), "verified_squared_error",
        number_json(figures->verified_squared_error), "upload_bytes",
        number_json(figures->upload_bytes), "control_bytes", number_json(figures->control_bytes),
        "control_messages", number_json(figures->control_messages), "moved",
        number_json(figures->moved), "moved_share", number_json(figures->moved_share), "split",
        number_json(figures->split), "merged", number_json(figures->merged), "rounds",
        rounds_json(figures->rounds, options->rounds), "error",
        errors_json(trials, index, figures->errors), "raised", (json_int_t)figures->raised,
        "conditioning", positive_json(figures->conditioning), "error_bound",
        positive_json(figures->error_bound), "sum_times", round_times_json(&figures->sums));
    json_t *traffic = traffic_json(&figures->rounds[options->rounds - 1]);
    if (json_object_update(result, times) != 0 || json_object_update(result, work) != 0 ||
        json_object_update(result, traffic) != 0) {
        json_decref(result);
        result = NULL;
    }
    json_decref(times);
    json_decref(work);
    json_decref(traffic);
    return result;
}

static json_t *results_json(const simulate_trials *trials, const simulate_summary *summaries)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < trials->variants->count; i++)
        list = json_append(list, result_json(trials, i, &summaries[i]));
    return list;
}

int simulate_report_write(FILE *stream, const simulate_trials *trials,
                          const simulate_summary *summaries, json_t *config)
{
    json_t *report = json_pack(
        "{s:s, s:s, s:I, s:O, s:I, s:o, s:f, s:b, s:o}", "command", "simulate", "version",
        tarry_version(), "seed", (json_int_t)trials->options->seed, "config", config, "trials",
        (json_int_t)trials->done_count, "results", results_json(trials, summaries), "run_seconds",
        trials->seconds, "interrupted", trials->interrupted, "error",
        json_text(trials->error[0] != '\0' ? trials->error : NULL));
    return json_write(report, stream);
}
