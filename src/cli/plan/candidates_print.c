/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/candidates_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/plan/advise_print.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"

enum { OPTIONS_SIZE = 256 };

/* Means over the job's rounds, of which some may be dense. */
static double mean_of(const candidate *one, uint64_t whole, double usual, double dense)
{
    double share = candidate_dense_share(one, whole, whole);
    return share * dense + (1 - share) * usual;
}

/* The options of tarry train for a candidate. */
static void options_text(const advise_options *options, const candidate *one,
                         char text[OPTIONS_SIZE])
{
    const struct {
        const char *flag, *word;
    } more[] = {
        {"compress", one->compress}, {"compress-down", one->down}, {"local-steps", one->steps}};
    advice_options_text(options, one->choice, text, OPTIONS_SIZE);
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        size_t used = strlen(text);
        if (strcmp(more[i].word, "none") != 0)
            snprintf(text + used, OPTIONS_SIZE - used, " --%s %s", more[i].flag, more[i].word);
    }
}

static void loss_text(double over, char text[NUMBER_TEXT_SIZE])
{
    if (isinf(over))
        snprintf(text, NUMBER_TEXT_SIZE, "diverges");
    else
        snprintf(text, NUMBER_TEXT_SIZE, "%+.2f %%", over * 100);
}

static void print_row(const candidate *one, uint64_t whole, bool recommended)
{
    char up[NUMBER_TEXT_SIZE], down[NUMBER_TEXT_SIZE],
        round[NUMBER_TEXT_SIZE] = "-", loss[NUMBER_TEXT_SIZE], rounds[NUMBER_TEXT_SIZE] = "-",
        total[NUMBER_TEXT_SIZE] = "-";
    bytes_text(mean_of(one, whole, one->up_bytes, one->dense_up_bytes), up);
    bytes_text(one->down_bytes, down);
    if (!isnan(one->seconds))
        seconds_text(mean_of(one, whole, one->seconds, one->dense_seconds), round);
    loss_text(one->loss_most, loss);
    if (one->rounds > 0)
        snprintf(rounds, sizeof(rounds), "%" PRIu64, one->rounds);
    if (isfinite(one->total_seconds))
        seconds_text(one->total_seconds, total);
    printf("%c %2u %3u %2u %-16s %-5s %-9s %8s %8s %9s %9s %7s %10s\n", recommended ? '>' : ' ',
           one->choice->replication, one->choice->pieces, one->choice->parts, one->compress,
           one->down, one->steps, up, down, round, loss, rounds, total);
}

static void print_recommended(const advise_options *options, const candidates *weighed)
{
    if (weighed->recommended == weighed->count) {
        printf("> none gets to float32's loss within %" PRIu64 " rounds\n",
               weighed->rounds * CANDIDATE_MORE);
        return;
    }
    const candidate *best = &weighed->items[weighed->recommended];
    char text[OPTIONS_SIZE], total[NUMBER_TEXT_SIZE];
    seconds_text(best->total_seconds, total);
    options_text(options, best, text);
    printf("> recommended: the least time to float32's loss, %s; of those within 2%% of it the "
           "fewest bytes\n\n%s\n",
           total, text);
}

void candidates_print_table(const advise_options *options, const advice *found,
                            const candidates *weighed)
{
    char time[NUMBER_TEXT_SIZE];
    advice_print_head(options, found);
    seconds_text(weighed->run_seconds, time);
    printf("pilot %s: %" PRIu64 " rounds, float32's loss %.6g, %u seed%s, in %s\n\n",
           options->candidates.pilot, weighed->rounds, weighed->loss, options->candidates.seeds,
           options->candidates.seeds == 1 ? "" : "s", time);
    printf("   r   P  l compress         down  steps           up     down     round      loss  "
           "rounds    "
           "    time\n");
    for (size_t i = 0; i < weighed->count; i++)
        print_row(&weighed->items[i], weighed->rounds, i == weighed->recommended);
    printf("\nup, down: bytes of a round, of all workers; loss: over float32's after as many "
           "rounds;\nrounds, time: until it is float32's, within %g%%, and stays there\n",
           CANDIDATE_CLOSE * 100);
    print_recommended(options, weighed);
}

static json_t *candidate_json(const advise_options *options, const candidate *one, uint64_t whole)
{
    char text[OPTIONS_SIZE];
    options_text(options, one, text);
    return json_pack(
        "{s:I, s:I, s:I, s:s, s:s, s:s, s:o, s:o, s:f, s:f, s:o, s:o, s:o, s:o, s:s}",
        "replication", (json_int_t)one->choice->replication, "pieces",
        (json_int_t)one->choice->pieces, "parts", (json_int_t)one->choice->parts, "compress",
        one->compress, "compress_down", one->down, "local_steps", one->steps, "seconds",
        number_json(one->seconds), "dense_seconds", number_json(one->dense_seconds), "up_bytes",
        mean_of(one, whole, one->up_bytes, one->dense_up_bytes), "down_bytes", one->down_bytes,
        "loss_most", number_json(one->loss_most), "loss_least", number_json(one->loss_least),
        "rounds", one->rounds > 0 ? json_integer((json_int_t)one->rounds) : json_null(),
        "total_seconds", number_json(one->total_seconds), "options", text);
}

json_t *candidates_json(const advise_options *options, const candidates *weighed)
{
    json_t *list = json_array(), *recommended = json_null();
    for (size_t i = 0; list != NULL && i < weighed->count; i++)
        list = json_append(list, candidate_json(options, &weighed->items[i], weighed->rounds));
    if (weighed->recommended < weighed->count)
        recommended =
            candidate_json(options, &weighed->items[weighed->recommended], weighed->rounds);
    return json_pack("{s:I, s:f, s:f, s:o, s:o}", "rounds", (json_int_t)weighed->rounds, "loss",
                     weighed->loss, "run_seconds", weighed->run_seconds, "recommended", recommended,
                     "candidates", list);
}
