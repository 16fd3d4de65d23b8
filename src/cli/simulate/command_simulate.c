/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <tarry/error.h>
#include <tarry/sim.h>
#include <tarry/version.h>

#include "base/memory.h"
#include "base/quantile.h"
#include "cli/command.h"
#include "cli/options/run_options.h"
#include "cli/output/output.h"
#include "cli/simulate/simulate_trials.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"

/* ---- summary ---- */

/* What a scheme's trials come to: the material of the table and the report. */

enum { SIMULATE_CARDS = 4 };

/* One round of all trials that could end. */
typedef struct round_figures {
    /* Medians; NaN where there are none. */
    double seconds, balanced_ratio, matched_ratio, uncoded_ratio;
    double copies;                            /* computed per chunk, mean */
    double control_bytes, control_messages;   /* mean */
    double sum_seconds;                       /* from the last signal to the end, mean */
    double cards[SIMULATE_CARDS];             /* of tarry_sim_traffic, in its order, mean */
    double root_messages, root_control_bytes; /* the same */
    /* Changes to the plan before it, mean; the data moved is a share of all that is stored. */
    double moved, moved_share, split, merged;
} round_figures;

/* Over those rounds of all trials that could end in which there was such a time. */
typedef struct round_times {
    size_t rounds;
    double p50, p99, most; /* seconds; NaN of none */
} round_times;

/* Of one variant, over the trials that are done; times and errors over those that could end. What
 * is not said to be of all rounds is of the last one. */
typedef struct simulate_summary {
    size_t trials;
    size_t failed;
    char failure[128]; /* why the first of these did; empty if none */
    summary seconds;
    summary balanced, matched; /* in seconds, over all trials */
    summary balanced_ratio, matched_ratio;
    summary uncoded_ratio; /* over the trials that the uncoded scheme could end too */
    size_t uncoded_failed; /* how many it could not */
    double copies;         /* computed per chunk, mean */
    double work_ratio;     /* copies computed over copies needed, mean */
    double exact;          /* share of the trials */
    double expected_error, chunks_filled, filled_share; /* means */
    double upload_bytes, control_bytes, control_messages;
    double moved, moved_share, split, merged; /* of all rounds together, mean */
    /* From the last signal to the last sum, without a trial's first round, in which the server
     * learns who is there, where there are more. */
    round_times sums;
    round_figures *rounds; /* by round */
    summary *errors;       /* by deadline; over all trials */
} simulate_summary;

/* That of the last round. */
static const simulate_outcome *last_outcome(const simulate_trials *trials, size_t trial,
                                            size_t variant)
{
    return &simulate_trials_outcomes(trials, trial, variant)[trials->options->rounds - 1];
}

/* One number per deadline. */
static const double *errors_of(const simulate_trials *trials, size_t trial, size_t variant)
{
    size_t place = trial * trials->variants->count + variant;
    return &trials->errors[place * trials->options->deadlines.count];
}

/* values[0..count-1] are reordered, and those that are not finite left out. */
static summary finite_summary(double *values, size_t count)
{
    size_t finite = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i]))
            values[finite++] = values[i];
    }
    return summary_of(values, finite);
}

typedef double outcome_value(const simulate_outcome *outcome);

static double seconds_of(const simulate_outcome *outcome)
{
    return outcome->seconds;
}

static double balanced_of(const simulate_outcome *outcome)
{
    return outcome->balanced;
}

static double matched_of(const simulate_outcome *outcome)
{
    return outcome->matched;
}

static double balanced_ratio_of(const simulate_outcome *outcome)
{
    return outcome->seconds / outcome->balanced;
}

static double matched_ratio_of(const simulate_outcome *outcome)
{
    return isinf(outcome->matched) ? NAN : outcome->seconds / outcome->matched;
}

static double uncoded_ratio_of(const simulate_outcome *outcome)
{
    return outcome->seconds / outcome->uncoded;
}

static summary summary_over(const simulate_trials *trials, size_t variant, uint32_t round,
                            outcome_value *value, double *values)
{
    size_t count = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        if (trials->done[trial])
            values[count++] = value(&simulate_trials_outcomes(trials, trial, variant)[round]);
    }
    return finite_summary(values, count);
}

static summary summary_at(const simulate_trials *trials, size_t variant, size_t deadline,
                          double *values)
{
    size_t count = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        if (trials->done[trial])
            values[count++] = errors_of(trials, trial, variant)[deadline];
    }
    return finite_summary(values, count);
}

static void explain(const simulate_variant *variant, const tarry_round_result *result, char *text,
                    size_t size)
{
    const tarry_settings *settings = &variant->run.settings;
    const uint32_t lost = result->workers_lost, workers = settings->plan.workers;
    if (settings->server.stop == TARRY_STOP_WORKERS)
        snprintf(text, size, "%u of %u workers were lost, and %u must finish", lost, workers,
                 settings->server.workers_needed);
    else if (settings->plan.parts > 1)
        snprintf(text, size,
                 "%u of %u workers were lost, and the others could not give some chunk in %u parts",
                 lost, workers, settings->plan.parts);
    else
        snprintf(text, size, "%u of %u workers were lost, and some chunk had fewer than 1 left",
                 lost, workers);
}

static void add_traffic(const tarry_sim_traffic *traffic, round_figures *figures)
{
    const uint64_t bytes[] = {traffic->root_in, traffic->root_out, traffic->leaf_in,
                              traffic->leaf_out};
    figures->sum_seconds += (double)traffic->sum_ns * 1e-9;
    figures->root_messages += (double)traffic->root_messages;
    figures->root_control_bytes += (double)traffic->root_control_bytes;
    for (size_t i = 0; i < SIMULATE_CARDS; i++)
        figures->cards[i] += (double)bytes[i];
}

static round_figures round_of(const simulate_trials *trials, size_t index, uint32_t round,
                              double *values)
{
    round_figures figures = {
        .seconds = summary_over(trials, index, round, seconds_of, values).median,
        .balanced_ratio = summary_over(trials, index, round, balanced_ratio_of, values).median,
        .matched_ratio = summary_over(trials, index, round, matched_ratio_of, values).median,
        .uncoded_ratio = summary_over(trials, index, round, uncoded_ratio_of, values).median,
    };
    double ended = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        const simulate_outcome *outcome = &simulate_trials_outcomes(trials, trial, index)[round];
        const tarry_round_result *result = &outcome->result;
        if (!trials->done[trial] || result->error != TARRY_OK)
            continue;
        ended++;
        figures.copies +=
            (double)result->copies_computed * result->parts / (double)result->copies_needed;
        figures.moved += outcome->changes.moved;
        figures.moved_share += outcome->changes.moved_data;
        figures.split += outcome->changes.split;
        figures.merged += outcome->changes.merged;
        figures.control_bytes += (double)result->control_bytes;
        figures.control_messages += (double)result->control_messages;
        add_traffic(&outcome->traffic, &figures);
    }
    figures.copies /= ended;
    figures.control_bytes /= ended;
    figures.control_messages /= ended;
    figures.sum_seconds /= ended;
    figures.root_messages /= ended;
    figures.root_control_bytes /= ended;
    for (size_t i = 0; i < SIMULATE_CARDS; i++)
        figures.cards[i] /= ended;
    figures.moved /= ended;
    const tarry_plan_settings *plan = &trials->variants->items[index].run.settings.plan;
    figures.moved_share /= ended * plan->chunks * plan->pieces * plan->replication;
    figures.split /= ended;
    figures.merged /= ended;
    return figures;
}

/* Counts, and means over the trials that could end. */
static void add_up(const simulate_trials *trials, size_t index, simulate_summary *figures)
{
    const simulate_variant *variant = &trials->variants->items[index];
    double copies = 0, needed = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        const simulate_outcome *outcome = last_outcome(trials, trial, index);
        const tarry_round_result *result = &outcome->result;
        if (!trials->done[trial])
            continue;
        figures->trials++;
        figures->uncoded_failed += isnan(outcome->uncoded) ? 1 : 0;
        if (result->error != TARRY_OK) {
            if (figures->failed++ == 0)
                explain(variant, result, figures->failure, sizeof(figures->failure));
            continue;
        }
        copies += (double)result->copies_computed;
        needed += (double)result->copies_needed;
        figures->exact += result->exact ? 1 : 0;
        figures->expected_error += result->expected_error;
        figures->chunks_filled += result->chunks_filled;
        figures->filled_share += result->filled_share;
        figures->upload_bytes += (double)result->upload_bytes;
    }
    double ended = (double)(figures->trials - figures->failed);
    figures->work_ratio = copies / needed;
    figures->exact /= (double)figures->trials;
    figures->expected_error /= ended;
    figures->chunks_filled /= ended;
    figures->filled_share /= ended;
    figures->upload_bytes /= ended;
}

/* Of rounds that had a signal; not a trial's first round if it has more. */
static round_times sum_times(const simulate_trials *trials, size_t index, double *values)
{
    const uint32_t first = trials->options->rounds > 1 ? 1 : 0;
    size_t count = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        const simulate_outcome *outcomes = simulate_trials_outcomes(trials, trial, index);
        if (!trials->done[trial] || outcomes->result.error != TARRY_OK)
            continue;
        for (uint32_t round = first; round < trials->options->rounds; round++) {
            const uint64_t sum_ns = outcomes[round].traffic.sum_ns;
            if (sum_ns > 0)
                values[count++] = (double)sum_ns * 1e-9;
        }
    }
    return (round_times){.rounds = count,
                         .p50 = quantile_of(values, count, 0.5),
                         .p99 = quantile_of(values, count, 0.99),
                         .most = quantile_of(values, count, 1)};
}

static int summarise(const simulate_trials *trials, size_t index, double *values,
                     simulate_summary *figures)
{
    size_t deadlines = trials->options->deadlines.count;
    uint32_t rounds = trials->options->rounds, last = rounds - 1;
    figures->rounds = memory_allocate(NULL, rounds, sizeof(*figures->rounds));
    if (figures->rounds == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t round = 0; round < rounds; round++) {
        figures->rounds[round] = round_of(trials, index, round, values);
        figures->moved += figures->rounds[round].moved;
        figures->moved_share += figures->rounds[round].moved_share;
        figures->split += figures->rounds[round].split;
        figures->merged += figures->rounds[round].merged;
    }
    figures->copies = figures->rounds[last].copies;
    figures->control_bytes = figures->rounds[last].control_bytes;
    figures->control_messages = figures->rounds[last].control_messages;
    add_up(trials, index, figures);
    figures->sums = sum_times(trials, index, values);
    figures->seconds = summary_over(trials, index, last, seconds_of, values);
    figures->balanced = summary_over(trials, index, last, balanced_of, values);
    figures->matched = summary_over(trials, index, last, matched_of, values);
    figures->balanced_ratio = summary_over(trials, index, last, balanced_ratio_of, values);
    figures->matched_ratio = summary_over(trials, index, last, matched_ratio_of, values);
    figures->uncoded_ratio = summary_over(trials, index, last, uncoded_ratio_of, values);
    if (deadlines == 0)
        return TARRY_OK;
    figures->errors = memory_allocate(NULL, deadlines, sizeof(*figures->errors));
    if (figures->errors == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < deadlines; i++)
        figures->errors[i] = summary_at(trials, index, i, values);
    return TARRY_OK;
}

/* NULL is allowed. */
static void simulate_summaries_free(simulate_summary *summaries, size_t count)
{
    for (size_t i = 0; summaries != NULL && i < count; i++) {
        memory_release(NULL, summaries[i].rounds);
        memory_release(NULL, summaries[i].errors);
    }
    memory_release(NULL, summaries);
}

/* One summary for each variant; the caller frees *out. Errors: NO_MEMORY. */
static int simulate_summaries_create(const simulate_trials *trials, simulate_summary **out)
{
    size_t count = trials->variants->count;
    simulate_summary *summaries = memory_allocate(NULL, count, sizeof(*summaries));
    const size_t rounds = (size_t)trials->options->trials * trials->options->rounds;
    double *values = memory_allocate(NULL, rounds, sizeof(*values));
    int error = summaries == NULL || values == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    for (size_t i = 0; i < count && error == TARRY_OK; i++)
        error = summarise(trials, i, values, &summaries[i]);
    memory_release(NULL, values);
    if (error != TARRY_OK)
        simulate_summaries_free(summaries, count);
    else
        *out = summaries;
    return error;
}

/* ---- table ---- */

#define MOST_COLUMNS 8 /* of deadlines */

static int scheme_width(const simulate_variants *variants)
{
    size_t width = strlen("scheme");
    for (size_t i = 0; i < variants->count; i++) {
        size_t length = strlen(variants->items[i].scheme);
        width = length > width ? length : width;
    }
    return (int)width;
}

static void print_seconds(double seconds)
{
    char text[NUMBER_TEXT_SIZE] = "-";
    if (isfinite(seconds))
        seconds_text(seconds, text);
    printf(" %8s", text);
}

static void print_number(int width, const char *format, double number)
{
    char text[NUMBER_TEXT_SIZE] = "-";
    if (isfinite(number))
        snprintf(text, sizeof(text), format, number);
    printf(" %*s", width, text);
}

/* Whether there is anything to be seen in a column of the pieces. */
static bool shows_pieces(const simulate_variants *variants)
{
    for (size_t i = 0; i < variants->count; i++)
        if (variants->items[i].run.settings.plan.pieces > 1)
            return true;
    return false;
}

static void print_sizes_head(int width, const char *first, bool pieces)
{
    printf("%-*s  %2s %2s", width, first, "r", "l");
    if (pieces)
        printf(" %3s", "P");
}

static void print_sizes(int width, const simulate_variant *variant, bool pieces)
{
    printf("%-*s  %2u %2u", width, variant->scheme, variant->stored,
           variant->run.settings.plan.parts);
    if (pieces)
        printf(" %3u", variant->run.settings.plan.pieces);
}

/* Over all rounds, on average, what the plans changed. */
static void print_changes(const simulate_trials *trials, const simulate_summary *summaries,
                          int width, bool pieces)
{
    bool any = false;
    for (size_t i = 0; i < trials->variants->count; i++)
        any = any || trials->variants->items[i].run.adapt_rule.every != 0;
    if (!any)
        return;
    printf("\nchanges to the plan in all rounds: copies moved and their share of the data stored, "
           "chunks split and merged\n");
    print_sizes_head(width, "", pieces);
    printf(" %8s %8s %8s %8s\n", "moved", "share", "split", "merged");
    for (size_t i = 0; i < trials->variants->count; i++) {
        const simulate_variant *variant = &trials->variants->items[i];
        if (variant->run.adapt_rule.every == 0)
            continue;
        print_sizes(width, variant, pieces);
        print_number(8, "%.1f", summaries[i].moved);
        print_number(8, "%.3f", summaries[i].moved_share);
        print_number(8, "%.1f", summaries[i].split);
        print_number(8, "%.1f", summaries[i].merged);
        printf("\n");
    }
}

static void print_head(int width, bool pieces)
{
    print_sizes_head(width, "scheme", pieces);
    printf(" %8s %8s %8s %8s %9s %8s %8s %7s %6s %8s\n", "median", "mean", "sd", "p95", "/balanced",
           "/matched", "/uncoded", "copies", "failed", "error");
}

static void print_row(int width, const simulate_variant *variant, const simulate_summary *figures,
                      bool pieces)
{
    print_sizes(width, variant, pieces);
    print_seconds(figures->seconds.median);
    print_seconds(figures->seconds.mean);
    print_seconds(figures->seconds.sd);
    print_seconds(figures->seconds.p95);
    print_number(9, "%.3g", figures->balanced_ratio.median);
    print_number(8, "%.3g", figures->matched_ratio.median);
    print_number(8, "%.3g", figures->uncoded_ratio.median);
    print_number(7, "%.2f", figures->copies);
    printf(" %6zu", figures->failed);
    print_number(8, "%.2g", figures->expected_error);
    printf("\n");
}

/* Of many deadlines, the first, the last and some at equal distances between them. */
static void print_errors(const simulate_trials *trials, const simulate_summary *summaries,
                         int width, bool pieces)
{
    const real_list *deadlines = &trials->options->deadlines;
    size_t columns = deadlines->count < MOST_COLUMNS ? deadlines->count : MOST_COLUMNS;
    size_t column[MOST_COLUMNS] = {0};
    for (size_t i = 1; i < columns; i++)
        column[i] = i * (deadlines->count - 1) / (columns - 1);
    printf("\nmean relative squared error of a sum that ends at");
    if (columns < deadlines->count)
        printf(" (%zu of %zu deadlines)", columns, deadlines->count);
    printf("\n");
    print_sizes_head(width, "", pieces);
    for (size_t i = 0; i < columns; i++)
        print_seconds(deadlines->values[column[i]]);
    printf("\n");
    for (size_t row = 0; row < trials->variants->count; row++) {
        print_sizes(width, &trials->variants->items[row], pieces);
        for (size_t i = 0; i < columns; i++)
            print_number(8, "%.2g", summaries[row].errors[column[i]].mean);
        printf("\n");
    }
}

/* What the row of one does not say, and calls for words. */
static void print_notes(const simulate_variant *variant, const simulate_summary *figures)
{
    const char *name = variant->scheme;
    const uint32_t copies = variant->stored, parts = variant->run.settings.plan.parts;
    if (figures->failed > 0)
        printf("\n%s (r = %u, l = %u): %zu of %zu trials could not end; in the first, %s\n", name,
               copies, parts, figures->failed, figures->trials, figures->failure);
}

/* Nothing if no scheme has such a time. */
static void print_sum_times(const simulate_variants *variants, const simulate_summary *summaries,
                            int width, bool pieces)
{
    size_t any = 0;
    for (size_t i = 0; i < variants->count; i++)
        any += summaries[i].sums.rounds;
    if (any == 0)
        return;
    printf("\nfrom the signal to the last sum, over rounds\n");
    print_sizes_head(width, "", pieces);
    printf(" %8s %8s %8s %8s\n", "rounds", "median", "p99", "most");
    for (size_t i = 0; i < variants->count; i++) {
        const round_times *times = &summaries[i].sums;
        if (times->rounds == 0)
            continue;
        print_sizes(width, &variants->items[i], pieces);
        printf(" %8zu", times->rounds);
        print_seconds(times->p50);
        print_seconds(times->p99);
        print_seconds(times->most);
        printf("\n");
    }
}

/* Prints the schemes' figures to stdout, one line each. */
static void simulate_table_print(const simulate_trials *trials, const simulate_summary *summaries)
{
    const simulate_options *options = trials->options;
    const simulate_variants *variants = trials->variants;
    bool pieces = shows_pieces(variants);
    int width = scheme_width(variants);
    char time[NUMBER_TEXT_SIZE];
    seconds_text(trials->seconds, time);
    printf("%zu trials", trials->done_count);
    if (options->rounds > 1)
        printf(" of %u rounds (the last one shown)", options->rounds);
    printf(" in %s: %u workers, %u chunks, straggler %s, seed %" PRIu64 "\n\n", time,
           options->workers, options->chunks, options->straggler, options->seed);
    print_head(width, pieces);
    for (size_t i = 0; i < variants->count; i++)
        print_row(width, &variants->items[i], &summaries[i], pieces);
    print_changes(trials, summaries, width, pieces);
    if (options->waits.mean > 0)
        print_sum_times(variants, summaries, width, pieces);
    if (options->deadlines.count > 0)
        print_errors(trials, summaries, width, pieces);
    for (size_t i = 0; i < variants->count; i++)
        print_notes(&variants->items[i], &summaries[i]);
    if (variants->count > 0 && summaries[0].uncoded_failed > 0)
        printf("\n/uncoded: without a code %zu of %zu trials could not end, and are left out\n",
               summaries[0].uncoded_failed, summaries[0].trials);
}

/* ---- simulate report ---- */

static json_t *summary_json(const summary *values)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "mean", number_json(values->mean), "sd",
                     number_json(values->sd), "median", number_json(values->median), "p95",
                     number_json(values->p95));
}

/* Each trial's error of a sum that ends at this deadline; paired over schemes. */
static json_t *trial_errors_json(const simulate_trials *trials, size_t variant, size_t deadline)
{
    json_t *list = json_array();
    for (size_t trial = 0; list != NULL && trial < trials->options->trials; trial++) {
        if (trials->done[trial])
            list = json_append(list, number_json(errors_of(trials, trial, variant)[deadline]));
    }
    return list;
}

static json_t *errors_json(const simulate_trials *trials, size_t variant, const summary *errors)
{
    const real_list *deadlines = &trials->options->deadlines;
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < deadlines->count; i++)
        list = json_append(list, json_pack("{s:f, s:o, s:o, s:o}", "deadline", deadlines->values[i],
                                           "mean", number_json(errors[i].mean), "sd",
                                           number_json(errors[i].sd), "trials",
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
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "seconds",
        number_json(round->seconds), "ratio_to_balanced", number_json(round->balanced_ratio),
        "ratio_to_matched", number_json(round->matched_ratio), "ratio_to_uncoded",
        number_json(round->uncoded_ratio), "copies", number_json(round->copies), "control_bytes",
        number_json(round->control_bytes), "control_messages", number_json(round->control_messages),
        "moved", number_json(round->moved), "moved_share", number_json(round->moved_share), "split",
        number_json(round->split), "merged", number_json(round->merged));
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
            list = json_append(list, number_json(last_outcome(trials, trial, variant)->seconds));
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
        "{s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:s?}", "scheme", json_text(variant->scheme),
        "parts", (json_int_t)variant->run.settings.plan.parts, "pieces",
        (json_int_t)variant->run.settings.plan.pieces, "replication",
        (json_int_t)variant->run.settings.plan.replication, "stored", (json_int_t)variant->stored,
        "settings", settings_json(variant), "straggler", json_text(options->straggler), "trials",
        (json_int_t)figures->trials, "failed", (json_int_t)figures->failed, "failure",
        figures->failed > 0 ? figures->failure : NULL);
    json_t *times = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "time", summary_json(&figures->seconds),
        "balanced", summary_json(&figures->balanced), "matched", summary_json(&figures->matched),
        "ratio_to_balanced", number_json(figures->balanced_ratio.median), "ratio_to_matched",
        number_json(figures->matched_ratio.median), "ratio_to_uncoded",
        number_json(figures->uncoded_ratio.median), "uncoded_failed",
        (json_int_t)figures->uncoded_failed, "seconds", seconds_json(trials, index));
    json_t *work = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "work_ratio", number_json(figures->work_ratio), "copies", number_json(figures->copies),
        "exact", number_json(figures->exact), "expected_error",
        number_json(figures->expected_error), "chunks_filled", number_json(figures->chunks_filled),
        "filled_share", number_json(figures->filled_share), "upload_bytes",
        number_json(figures->upload_bytes), "control_bytes", number_json(figures->control_bytes),
        "control_messages", number_json(figures->control_messages), "moved",
        number_json(figures->moved), "moved_share", number_json(figures->moved_share), "split",
        number_json(figures->split), "merged", number_json(figures->merged), "rounds",
        rounds_json(figures->rounds, options->rounds), "error",
        errors_json(trials, index, figures->errors), "sum_times", round_times_json(&figures->sums));
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

/*
 * Writes the results as JSON, see docs/reports.md; what cannot be written is the stream's error.
 * `config` is borrowed. Errors: NO_MEMORY.
 */
static int simulate_report_write(FILE *stream, const simulate_trials *trials,
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

/* tarry simulate: options, inputs and outputs around the trials. */

/* ---- command simulate ---- */

/* Workers that were left open are as many as what was given takes. */
static void fit_workers(simulate_options *options)
{
    const scheme_settings *defaults = &options->defaults;
    const whole_list *lists[] = {&defaults->replications, &defaults->part_counts};
    for (size_t i = 0; !options->workers_given && i < sizeof(lists) / sizeof(lists[0]); i++)
        for (size_t k = 0; k < lists[i]->count; k++)
            if (lists[i]->values[k] > options->workers)
                options->workers = lists[i]->values[k];
}

#define IGNORED_SHARE 0.05

/* How many workers are ignored where nothing is said: 5% of them. */
static uint32_t scheme_ignored(uint32_t workers)
{
    return (uint32_t)lround(IGNORED_SHARE * workers);
}

/*
 * Checks the options against each other, sets the defaults that depend on others, and reads the
 * schemes, which the caller frees. Gives back OPTIONS_PROCEED, or EXIT_USAGE or EXIT_FAILED after a
 * complaint.
 */
static int simulate_options_check(simulate_options *options, simulate_variants *variants)
{
    if (options->rounds > 1 && options->deadlines.count > 0)
        return complain(EXIT_USAGE, "--deadline: goes with a single round of each trial only, not "
                                    "with --rounds; a scheme may have a deadline of its own");
    if (options->parameter_bytes == UINT64_MAX)
        options->parameter_bytes = options->dimension * sizeof(float);
    if (options->jobs == 0)
        options->jobs = simulate_usual_jobs();
    fit_workers(options);
    if (options->defaults.ignore == UINT32_MAX)
        options->defaults.ignore = scheme_ignored(options->workers);
    const scheme_frame common = simulate_options_frame(options);
    tarry_diagnostic why;
    int error =
        simulate_variants_read(options->scheme, &options->defaults, &common, variants, &why);
    if (error == TARRY_OK)
        return OPTIONS_PROCEED;
    bool usage = error == TARRY_ERROR_FORMAT || error == TARRY_ERROR_ARGUMENT;
    return complain(usage ? EXIT_USAGE : EXIT_FAILED, "%s", why.text);
}

static int write_report(const option_command *command, const simulate_trials *trials,
                        const simulate_summary *summaries, output_file **file)
{
    json_t *config = options_json(command);
    int error = TARRY_ERROR_NO_MEMORY;
    if (config != NULL)
        error = simulate_report_write(output_file_stream(*file), trials, summaries, config);
    json_decref(config);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "--report: %s", tarry_error_text(error));
    return output_end(file);
}

/* Writes what there is to write of the trials done. */
static int write_outputs(const option_command *command, const simulate_trials *trials,
                         output_file **report)
{
    simulate_summary *summaries;
    if (simulate_summaries_create(trials, &summaries) != TARRY_OK)
        return complain(EXIT_FAILED, "simulate: out of memory");
    int status = EXIT_DONE;
    if (*report != NULL)
        status |= write_report(command, trials, summaries, report);
    if (!trials->options->quiet && trials->done_count > 0)
        simulate_table_print(trials, summaries);
    simulate_summaries_free(summaries, trials->variants->count);
    return status;
}

int command_simulate(int argc, char **argv)
{
    simulate_options options;
    simulate_options_init(&options);
    option_group groups[SIMULATE_GROUPS];
    simulate_options_groups(&options, groups);
    const option_command command = {
        "simulate",
        "Compares schemes of gradient coding over modelled workers and links, in virtual time.",
        groups, SIMULATE_GROUPS};
    config_file *file;
    simulate_variants variants = {0};
    simulate_trials *trials = NULL;
    output_file *report = NULL; /* opened before the trials, so that these are not for nothing */
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = simulate_options_check(&options, &variants);
    if (status == OPTIONS_PROCEED)
        status = simulate_trials_create(&options, &variants, &trials);
    if (status == OPTIONS_PROCEED)
        status = output_begin(options.report, &report);
    if (status == OPTIONS_PROCEED) {
        status = simulate_trials_run(trials);
        status |= write_outputs(&command, trials, &report);
    }
    output_file_discard(report);
    simulate_trials_free(trials);
    simulate_variants_free(&variants);
    config_free(file);
    return status;
}
