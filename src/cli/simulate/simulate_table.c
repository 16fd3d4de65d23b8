/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/text/numbers.h"

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
    char parts[16]; /* those that are chosen: -4 for up to 4 */
    snprintf(parts, sizeof(parts), "%s%u", variant->run.settings.plan.adaptive_parts ? "-" : "",
             variant->run.settings.plan.parts);
    printf("%-*s  %2u %2s", width, variant->scheme, variant->stored, parts);
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

static void print_head(int width, bool pieces, bool vectors)
{
    print_sizes_head(width, "scheme", pieces);
    printf(" %8s %8s %8s %8s %9s %8s %8s %7s %6s %8s%s\n", "median", "mean", "sd", "p95",
           "/balanced", "/matched", "/uncoded", "copies", "failed", "error",
           vectors ? " verified" : "");
}

static void print_row(int width, const simulate_variant *variant, const simulate_summary *figures,
                      bool pieces, bool vectors)
{
    print_sizes(width, variant, pieces);
    print_seconds(figures->seconds.all.median);
    print_seconds(figures->seconds.all.mean);
    print_seconds(figures->seconds.all.sd);
    print_seconds(figures->seconds.all.p95);
    print_number(9, "%.3g", figures->balanced_ratio.all.median);
    print_number(8, "%.3g", figures->matched_ratio.all.median);
    print_number(8, "%.3g", figures->uncoded_ratio.all.median);
    print_number(7, "%.2f", figures->copies);
    printf(" %6zu", figures->failed);
    print_number(8, "%.2g", figures->expected_error);
    if (vectors)
        print_number(8, "%.1e", figures->verified_error);
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
            print_number(8, "%.2g", summaries[row].errors[column[i]].all.mean);
        printf("\n");
    }
}

/* What the row of one does not say, and calls for words. */
static void print_notes(const simulate_variant *variant, const simulate_summary *figures,
                        uint32_t rounds)
{
    const char *name = variant->scheme;
    const uint32_t copies = variant->stored, parts = variant->run.settings.plan.parts;
    const size_t ended = figures->trials - figures->failed;
    if (variant->run.settings.plan.adaptive_parts && ended > 0)
        printf("\n%s (r = %u, l up to %u): %.2f parts on average\n", name, copies, parts,
               figures->rounds[rounds - 1].parts);
    if (figures->raised > 0)
        printf("\n%s (r = %u, l = %u): %zu of %zu rounds had a raised conditioning limit: "
               "1/sigma_min up to %.3g, rounding errors up to %.2g of the chunks' sizes\n",
               name, copies, parts, figures->raised, ended * rounds, figures->conditioning,
               figures->error_bound);
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

void simulate_table_print(const simulate_trials *trials, const simulate_summary *summaries)
{
    const simulate_options *options = trials->options;
    const simulate_variants *variants = trials->variants;
    bool vectors = options->vectors != 0, pieces = shows_pieces(variants);
    int width = scheme_width(variants);
    char time[NUMBER_TEXT_SIZE];
    seconds_text(trials->seconds, time);
    printf("%zu trials", trials->done_count);
    if (options->rounds > 1)
        printf(" of %u rounds (the last one shown)", options->rounds);
    printf(" in %s: %u workers, %u chunks, straggler %s, seed %" PRIu64 "\n\n", time,
           options->workers, options->chunks, options->straggler, options->seed);
    print_head(width, pieces, vectors);
    for (size_t i = 0; i < variants->count; i++)
        print_row(width, &variants->items[i], &summaries[i], pieces, vectors);
    print_changes(trials, summaries, width, pieces);
    if (options->waits.mean > 0)
        print_sum_times(variants, summaries, width, pieces);
    if (options->deadlines.count > 0)
        print_errors(trials, summaries, width, pieces);
    for (size_t i = 0; i < variants->count; i++)
        print_notes(&variants->items[i], &summaries[i], options->rounds);
    if (variants->count > 0 && summaries[0].uncoded_failed > 0)
        printf("\n/uncoded: without a code %zu of %zu trials could not end, and are left out\n",
               summaries[0].uncoded_failed, summaries[0].trials);
}
