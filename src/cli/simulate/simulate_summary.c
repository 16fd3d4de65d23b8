/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_summary.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/quantile.h"

/* values[0..count-1] are reordered, and those that are not finite left out. */
static spread spread_of(double *values, size_t count)
{
    size_t finite = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i]))
            values[finite++] = values[i];
    }
    return (spread){
        .all = summary_of(values, finite),
        .p5 = quantile_of(values, finite, 0.05),
        .p25 = quantile_of(values, finite, 0.25),
        .p75 = quantile_of(values, finite, 0.75),
    };
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

static spread spread_over(const simulate_trials *trials, size_t variant, uint32_t round,
                          outcome_value *value, double *values)
{
    size_t count = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        if (trials->done[trial])
            values[count++] = value(&simulate_trials_outcomes(trials, trial, variant)[round]);
    }
    return spread_of(values, count);
}

static spread spread_at(const simulate_trials *trials, size_t variant, size_t deadline,
                        double *values)
{
    size_t count = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        if (trials->done[trial])
            values[count++] = simulate_trials_errors(trials, trial, variant)[deadline];
    }
    return spread_of(values, count);
}

static void explain(const simulate_variant *variant, const tarry_round_result *result, char *text,
                    size_t size)
{
    if (variant->run.settings.server.stop == TARRY_STOP_WORKERS)
        snprintf(text, size, "%u of %u workers were lost, and %u must finish", result->workers_lost,
                 variant->run.settings.plan.workers, variant->run.settings.server.workers_needed);
    else
        snprintf(text, size, "%u of %u workers were lost, and some chunk had fewer than %u left",
                 result->workers_lost, variant->run.settings.plan.workers,
                 variant->run.settings.plan.adaptive_parts ? 1 : variant->run.settings.plan.parts);
}

/* The largest error in an exact round of the trial; NaN if there was none. */
static double worst_error(const simulate_trials *trials, const simulate_outcome *outcomes)
{
    double worst = NAN;
    for (uint32_t round = 0; round < trials->options->rounds; round++)
        if (outcomes[round].result.exact)
            worst = fmax(worst, outcomes[round].verified_error);
    return worst;
}

/* Rounds of the trial in which a conditioning limit was raised. */
static void count_raised(const simulate_trials *trials, const simulate_outcome *outcomes,
                         simulate_summary *figures)
{
    for (uint32_t round = 0; round < trials->options->rounds; round++) {
        const tarry_round_result *result = &outcomes[round].result;
        figures->raised += result->conditioning > 0;
        figures->conditioning = fmax(figures->conditioning, result->conditioning);
        figures->error_bound = fmax(figures->error_bound, result->error_bound);
    }
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
        .seconds = spread_over(trials, index, round, seconds_of, values).all.median,
        .balanced_ratio = spread_over(trials, index, round, balanced_ratio_of, values).all.median,
        .matched_ratio = spread_over(trials, index, round, matched_ratio_of, values).all.median,
        .uncoded_ratio = spread_over(trials, index, round, uncoded_ratio_of, values).all.median,
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
        figures.parts += result->parts;
        add_traffic(&outcome->traffic, &figures);
    }
    figures.copies /= ended;
    figures.control_bytes /= ended;
    figures.control_messages /= ended;
    figures.parts /= ended;
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
    double copies = 0, needed = 0, squares = 0, worst = NAN;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        const simulate_outcome *outcome = simulate_trials_outcome(trials, trial, index);
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
        squares += outcome->verified_squared_error;
        count_raised(trials, simulate_trials_outcomes(trials, trial, index), figures);
        worst = fmax(worst, worst_error(trials, simulate_trials_outcomes(trials, trial, index)));
    }
    double ended = (double)(figures->trials - figures->failed);
    figures->work_ratio = copies / needed;
    figures->exact /= (double)figures->trials;
    figures->expected_error /= ended;
    figures->chunks_filled /= ended;
    figures->filled_share /= ended;
    figures->upload_bytes /= ended;
    figures->verified_error = worst;
    figures->verified_squared_error = squares / ended;
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
    figures->seconds = spread_over(trials, index, last, seconds_of, values);
    figures->balanced = spread_over(trials, index, last, balanced_of, values);
    figures->matched = spread_over(trials, index, last, matched_of, values);
    figures->balanced_ratio = spread_over(trials, index, last, balanced_ratio_of, values);
    figures->matched_ratio = spread_over(trials, index, last, matched_ratio_of, values);
    figures->uncoded_ratio = spread_over(trials, index, last, uncoded_ratio_of, values);
    if (deadlines == 0)
        return TARRY_OK;
    figures->errors = memory_allocate(NULL, deadlines, sizeof(*figures->errors));
    if (figures->errors == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t i = 0; i < deadlines; i++)
        figures->errors[i] = spread_at(trials, index, i, values);
    return TARRY_OK;
}

int simulate_summaries_create(const simulate_trials *trials, simulate_summary **out)
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

void simulate_summaries_free(simulate_summary *summaries, size_t count)
{
    for (size_t i = 0; summaries != NULL && i < count; i++) {
        memory_release(NULL, summaries[i].rounds);
        memory_release(NULL, summaries[i].errors);
    }
    memory_release(NULL, summaries);
}
