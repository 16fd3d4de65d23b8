/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/advise_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tarry/version.h>

#include "cli/options/run_options.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"

#define MOST_ROWS 12 /* without --all, besides Pareto choices */

void advice_options_text(const advise_options *options, const advice_choice *choice, char *text,
                         size_t size)
{
    snprintf(text, size,
             "--workers %u --chunks %u --replication %u --pieces %u --parts %u --order dynamic "
             "--keep %s",
             options->world.workers, options->world.chunks, choice->replication, choice->pieces,
             choice->parts, run_keep_name(choice->keep));
    size_t used = strlen(text);
    if (choice->keep == TARRY_KEEP_CREDITED && choice->ahead != TARRY_USUAL_AHEAD)
        snprintf(text + used, size - used, " --ahead %u", choice->ahead);
}

static void print_row(const advice_choice *choice, bool recommended)
{
    char first[NUMBER_TEXT_SIZE], learned[NUMBER_TEXT_SIZE], memory[NUMBER_TEXT_SIZE],
        upload[NUMBER_TEXT_SIZE], control[NUMBER_TEXT_SIZE] = "-";
    seconds_text(choice->seconds, learned);
    seconds_text(choice->first_seconds, first);
    bytes_text((double)choice->memory_bytes, memory);
    bytes_text((double)choice->upload_bytes, upload);
    if (isfinite(choice->control_bytes))
        bytes_text(choice->control_bytes, control);
    printf("%c%c %2u %3u %2u %-8s %9s %9s %8s %8s %8s", recommended ? '>' : ' ',
           choice->pareto ? '*' : ' ', choice->replication, choice->pieces, choice->parts,
           run_keep_name(choice->keep), learned, first, memory, upload, control);
    if (isfinite(choice->copies))
        printf(" %7.2f %6" PRIu64 " %6zu\n", choice->copies, choice->trials, choice->failed);
    else
        printf(" %7s %6" PRIu64 " %6zu\n", "-", choice->trials, choice->failed);
}

void advice_print_head(const advise_options *options, const advice *found)
{
    char time[NUMBER_TEXT_SIZE];
    seconds_text(found->run_seconds, time);
    printf("%zu choices in %s: %u workers, %u chunks, ", found->count, time, options->world.workers,
           options->world.chunks);
    if (options->worker_seconds != NULL)
        printf("speeds of %s, ", options->from);
    printf("straggler %s, seed %" PRIu64 "\n", options->world.straggler, options->world.seed);
    if (found->too_large > 0)
        printf("%zu choices need more memory than --memory allows\n", found->too_large);
    if (found->unpromising > 0)
        printf("%zu choices promise less than others and were left out\n", found->unpromising);
}

void advice_print_table(const advise_options *options, const advice *found)
{
    advice_print_head(options, found);
    printf("\n    r   P  l keep         round     first   memory   upload  control  copies trials "
           "failed\n");
    size_t hidden = 0;
    for (size_t i = 0; i < found->count; i++) {
        const advice_choice *choice = &found->choices[i];
        bool recommended = i == found->recommended;
        if (options->all || recommended || choice->pareto || i < MOST_ROWS)
            print_row(choice, recommended);
        else
            hidden++;
    }
    if (hidden > 0)
        printf("   and %zu slower ones (--all)\n", hidden);
    const advice_choice *best = &found->choices[found->recommended];
    char text[160], learned[NUMBER_TEXT_SIZE], memory[NUMBER_TEXT_SIZE], upload[NUMBER_TEXT_SIZE];
    seconds_text(best->seconds, learned);
    bytes_text((double)best->memory_bytes, memory);
    bytes_text((double)best->upload_bytes, upload);
    advice_options_text(options, best, text, sizeof(text));
    printf("\n* no other choice is as good in time, memory and replication\n"
           "> recommended: replication %u, %u piece%s, %u part%s, keep %s: rounds of %s, %s per "
           "worker, %s "
           "up\n\n%s\n",
           best->replication, best->pieces, best->pieces == 1 ? "" : "s", best->parts,
           best->parts == 1 ? "" : "s", run_keep_name(best->keep), learned, memory, upload, text);
}

static json_t *choice_json(const advice_choice *choice)
{
    return json_pack(
        "{s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:I, s:I, s:b}", "replication",
        (json_int_t)choice->replication, "pieces", (json_int_t)choice->pieces, "parts",
        (json_int_t)choice->parts, "keep", run_keep_name(choice->keep), "ahead",
        run_ahead_json(choice->keep, choice->ahead), "seconds", number_json(choice->seconds),
        "first_seconds", number_json(choice->first_seconds), "memory_bytes",
        (json_int_t)choice->memory_bytes, "upload_bytes", (json_int_t)choice->upload_bytes,
        "control_bytes", number_json(choice->control_bytes), "copies", number_json(choice->copies),
        "trials", (json_int_t)choice->trials, "failed", (json_int_t)choice->failed, "pareto",
        choice->pareto);
}

int advice_print_json(const advise_options *options, const advice *found, json_t *config,
                      json_t *pilot)
{
    char text[160];
    const advice_choice *best = &found->choices[found->recommended];
    advice_options_text(options, best, text, sizeof(text));
    json_t *recommended = choice_json(best), *list = json_array();
    if (recommended != NULL &&
        json_object_set_new(recommended, "options", json_string(text)) != 0) {
        json_decref(recommended);
        recommended = NULL;
    }
    for (size_t i = 0; list != NULL && i < found->count; i++)
        list = json_append(list, choice_json(&found->choices[i]));
    json_t *report = json_pack("{s:s, s:s, s:I, s:O, s:o, s:o, s:I, s:I, s:f}", "command", "plan",
                               "version", tarry_version(), "seed", (json_int_t)options->world.seed,
                               "config", config, "recommended", recommended, "choices", list,
                               "too_large", (json_int_t)found->too_large, "unpromising",
                               (json_int_t)found->unpromising, "run_seconds", found->run_seconds);
    if (report == NULL)
        json_decref(pilot);
    else if (pilot != NULL && json_object_set_new(report, "pilot", pilot) != 0) {
        json_decref(report);
        return TARRY_ERROR_NO_MEMORY;
    }
    return json_write(report, stdout);
}
