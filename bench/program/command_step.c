/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/version.h>

#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/step.h"

typedef enum way {
    WAY_SHARED,
    WAY_TCP,
    WAY_TLS,
} way;

typedef struct step_options {
    uint64_t dimension;
    bool json;
    way way;
    uint32_t stop, kill, join;
    bench_step_settings settings;
} step_options;

static const option_choice ways[] = {
    {"shared", WAY_SHARED}, {"tcp", WAY_TCP}, {"tls", WAY_TLS}, {NULL, 0}};

#define COUNT(flag, member, highest, text)                                                         \
    {                                                                                              \
        .name = flag, .argument = "N", .help = text, .kind = OPTION_U32,                           \
        .offset = offsetof(step_options, settings.member), .least = 1, .most = highest             \
    }

#define UPSET(flag, member, text)                                                                  \
    {                                                                                              \
        .name = flag, .argument = "STEP", .help = text, .kind = OPTION_U32,                        \
        .offset = offsetof(step_options, member), .least = 1, .most = STEP_TIMES_MOST              \
    }

static const option_entry entries[] = {
    {.name = "over",
     .argument = "WAY",
     .help = "What numbers pass through: shared (memory; words pass a Unix socket), tcp (the "
             "default) or tls (loopback)",
     .kind = OPTION_CHOICE,
     .choices = ways,
     .offset = offsetof(step_options, way)},
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a gradient (default 1e6)",
     .kind = OPTION_U64,
     .offset = offsetof(step_options, dimension),
     .least = 1,
     .most = 1000000000},
    COUNT("workers", workers, STEP_WORKERS_MOST, "Processes that work (default 8)"),
    COUNT("chunks", chunks, 4096, "Shares of the data (default 8)"),
    COUNT("pieces", pieces, 4096, "Pieces that each chunk is cut into (default 16)"),
    COUNT("replication", replication, STEP_WORKERS_MOST,
          "Workers that hold each piece (default 3)"),
    COUNT("times", times, STEP_TIMES_MOST, "Steps, of which the median counts (default 10)"),
    {.name = "seconds",
     .argument = "SECONDS",
     .help = "What each worker takes for its equal share of all chunks, asleep for the most of it "
             "(default 0.3)",
     .kind = OPTION_REAL,
     .offset = offsetof(step_options, settings.seconds),
     .low = 0,
     .high = 3600},
    {.name = "slow",
     .argument = "FACTOR",
     .help = "How many times as long the last worker takes for anything (default 1)",
     .kind = OPTION_REAL,
     .offset = offsetof(step_options, settings.slow),
     .low = 1,
     .high = 1000},
    UPSET("stop", stop,
          "Stop the last worker by SIGSTOP in the middle of this step, counted from 1"),
    UPSET("kill", kill, "Kill the last worker by SIGKILL in the middle of this step's sum"),
    UPSET("join", join, "Let the last worker join in the middle of this step, and none before"),
    {.name = "vectors",
     .argument = "N",
     .help = "Vectors of D numbers in a worker's state (default 0: it has a few bytes)",
     .kind = OPTION_U32,
     .offset = offsetof(step_options, settings.vectors),
     .most = 16},
    {.name = "silence",
     .argument = "SECONDS",
     .help = "After which who says nothing is given up (default 2)",
     .kind = OPTION_REAL,
     .offset = offsetof(step_options, settings.silence),
     .low = 0.01,
     .high = 3600},
    {.name = "keep-all",
     .help = "Workers keep all gradients until the sum, and no running sums",
     .kind = OPTION_FLAG,
     .offset = offsetof(step_options, settings.keep_all)},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(step_options, json)},
};

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(const double *values, uint32_t count)
{
    double sorted[STEP_TIMES_MOST];
    memcpy(sorted, values, count * sizeof(*values));
    qsort(sorted, count, sizeof(*sorted), compare);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static void print_table(const step_options *options, const bench_step_row *row)
{
    const bench_step_settings *settings = &options->settings;
    double most = row->seconds[0];
    for (uint32_t i = 1; i < settings->times; i++)
        most = row->seconds[i] > most ? row->seconds[i] : most;
    printf("%s, %u workers, d = %zu, %u chunks of %u pieces on %u workers each, %u steps:\n",
           option_choice_name(ways, (int)options->way), settings->workers, settings->dimension,
           settings->chunks, settings->pieces, settings->replication, settings->times);
    printf("median ms   most ms  added ms  busy %%  sums\n");
    printf("%9.3f %9.3f %9.3f %7.2f  %s\n", median(row->seconds, settings->times) * 1e3, most * 1e3,
           median(row->added, settings->times) * 1e3, row->busy * 100,
           row->all_good ? "right" : "WRONG");
}

static json_t *json_of(const double *values, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        list = json_append(list, json_real(values[i]));
    return list;
}

/* With no upset: null. */
static json_t *json_of_upset(const bench_step_settings *settings, const bench_step_upset *upset)
{
    if (settings->upset == BENCH_UPSET_KILL)
        return json_pack("{s:I, s:I, s:f, s:f, s:f}", "attempts", (json_int_t)upset->attempts,
                         "computed", (json_int_t)upset->computed, "known_seconds", upset->known,
                         "again_seconds", upset->again, "repaired_seconds", upset->repaired);
    if (settings->upset == BENCH_UPSET_JOIN)
        return json_pack("{s:I, s:f, s:f, s:f}", "first", (json_int_t)upset->first,
                         "loaded_seconds", upset->loaded, "joined_seconds", upset->joined,
                         "alone_seconds", upset->alone);
    return json_null();
}

static int print_json(const option_command *command, const step_options *options,
                      const bench_step_row *row)
{
    uint32_t times = options->settings.times;
    json_t *report =
        json_pack("{s:s, s:s, s:o, s:f, s:o, s:f, s:o, s:f, s:b, s:o}", "command", "bench step",
                  "version", tarry_version(), "config", options_json(command), "median_seconds",
                  median(row->seconds, times), "seconds", json_of(row->seconds, times),
                  "median_added_seconds", median(row->added, times), "added_seconds",
                  json_of(row->added, times), "busy", row->busy, "right", (int)row->all_good,
                  "upset", json_of_upset(&options->settings, &row->upset));
    return json_write(report, stdout) == TARRY_OK ? EXIT_DONE
                                                  : complain(EXIT_FAILED, "step: out of memory");
}

/* What befalls the last worker: one thing, in a step that there is. */
static int settle_upset(step_options *options)
{
    const uint32_t at[] = {
        [BENCH_UPSET_NONE] = 0,
        [BENCH_UPSET_STOP] = options->stop,
        [BENCH_UPSET_KILL] = options->kill,
        [BENCH_UPSET_JOIN] = options->join,
    };
    bench_step_settings *settings = &options->settings;
    for (uint32_t kind = BENCH_UPSET_STOP; kind <= BENCH_UPSET_JOIN; kind++) {
        if (at[kind] == 0)
            continue;
        if (settings->upset != BENCH_UPSET_NONE)
            return complain(EXIT_USAGE, "step: --stop, --kill and --join exclude each other");
        settings->upset = (bench_upset)kind;
        settings->upset_at = at[kind];
    }
    if (settings->upset_at > settings->times)
        return complain(EXIT_USAGE, "step: there are %u steps, and no step %u", settings->times,
                        settings->upset_at);
    if (settings->upset != BENCH_UPSET_NONE && settings->workers < 2)
        return complain(EXIT_USAGE, "step: --stop, --kill and --join need two workers");
    return OPTIONS_PROCEED;
}

/* Certificates are made for TLS alone. */
static int measure(step_options *options, bench_step_row *row, tarry_diagnostic *why)
{
    bench_cluster *cluster = NULL;
    int error = options->way == WAY_TLS ? bench_cluster_create(&cluster, why) : TARRY_OK;
    options->settings.cluster = cluster;
    options->settings.share = options->way == WAY_SHARED;
    if (error == TARRY_OK)
        error = bench_step_run(&options->settings, row, why);
    bench_cluster_free(cluster);
    return error;
}

int command_bench_step(int argc, char **argv)
{
    step_options options = {
        .dimension = 1000000,
        .way = WAY_TCP,
        .settings = {.workers = 8,
                     .chunks = 8,
                     .pieces = 16,
                     .replication = 3,
                     .seconds = 0.3,
                     .slow = 1,
                     .times = 10,
                     .silence = 2},
    };
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "step",
        "Measures steps of workers that all get the sum: a server and a process per worker, on "
        "this "
        "machine, from a round's begin until all have stepped.\v"
        "'added' is the time from when the last gradient is there until all have stepped, 'busy' "
        "what a process takes of a core, the last worker's left out.",
        &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = settle_upset(&options);
    if (status == OPTIONS_PROCEED) {
        bench_step_row row;
        tarry_diagnostic why = {""};
        options.settings.dimension = (size_t)options.dimension;
        int error = measure(&options, &row, &why);
        if (error != TARRY_OK)
            status = complain(EXIT_FAILED, "step: %s", why.text);
        else if (options.json)
            status = print_json(&command, &options, &row);
        else
            print_table(&options, &row);
        if (status == OPTIONS_PROCEED)
            status = error == TARRY_OK && row.all_good ? EXIT_DONE : EXIT_FAILED;
    }
    config_free(file);
    return status;
}
