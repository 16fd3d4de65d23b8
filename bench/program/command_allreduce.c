/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <tarry/version.h>

#include "base/diagnostic.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/allreduce.h"
#include "program/cluster.h"

typedef enum way {
    WAY_SHARED,
    WAY_TCP,
    WAY_TLS,
} way;

typedef struct allreduce_options {
    uint64_t dimension;
    bool json;
    way way;
    bench_allreduce_settings settings;
} allreduce_options;

static const option_choice ways[] = {
    {"shared", WAY_SHARED}, {"tcp", WAY_TCP}, {"tls", WAY_TLS}, {NULL, 0}};

static const option_entry entries[] = {
    {.name = "over",
     .argument = "WAY",
     .help = "What numbers pass through: shared (memory, the default), tcp or tls (loopback)",
     .kind = OPTION_CHOICE,
     .choices = ways,
     .offset = offsetof(allreduce_options, way)},
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in the sum (default 1e7)",
     .kind = OPTION_U64,
     .offset = offsetof(allreduce_options, dimension),
     .least = 1,
     .most = 1000000000},
    {.name = "members",
     .argument = "N",
     .help = "Processes that sum (default 8)",
     .kind = OPTION_U32,
     .offset = offsetof(allreduce_options, settings.members),
     .least = 1,
     .most = ALLREDUCE_MEMBERS_MOST},
    {.name = "parts",
     .argument = "L",
     .help = "Parts that the sum is cut into (default 1)",
     .kind = OPTION_U32,
     .offset = offsetof(allreduce_options, settings.parts),
     .least = 1,
     .most = 64},
    {.name = "times",
     .argument = "COUNT",
     .help = "Sums, of which the median counts (default 15)",
     .kind = OPTION_U32,
     .offset = offsetof(allreduce_options, settings.times),
     .least = 1,
     .most = ALLREDUCE_TIMES_MOST},
    {.name = "late",
     .argument = "SECONDS",
     .help = "How long after all others the first process begins, from when on a sum is timed "
             "(default 0)",
     .kind = OPTION_REAL,
     .offset = offsetof(allreduce_options, settings.late),
     .low = 0,
     .high = 3600},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(allreduce_options, json)},
};

/* What a member sends: (1 + 1 / l) d (n - 1) / n numbers. */
static double numbers_needed(const bench_allreduce_settings *settings)
{
    double members = settings->members, parts = settings->parts;
    return (1 + 1 / parts) * (double)settings->dimension * (members - 1) / members;
}

static void print_table(const allreduce_options *options, const bench_allreduce_row *row)
{
    const bench_allreduce_settings *settings = &options->settings;
    double least = row->seconds[0], most = row->seconds[0];
    for (uint32_t i = 1; i < settings->times; i++) {
        least = row->seconds[i] < least ? row->seconds[i] : least;
        most = row->seconds[i] > most ? row->seconds[i] : most;
    }
    printf("%s, %u processes, d = %zu, %u part%s, %u sums:\n",
           option_choice_name(ways, (int)options->way), settings->members, settings->dimension,
           settings->parts, settings->parts == 1 ? "" : "s", settings->times);
    printf("median ms  least ms   most ms   GB/s  busy ms  moved / needed\n");
    double needed = numbers_needed(settings);
    printf("%9.3f %9.3f %9.3f %6.2f %8.2f %15.4f\n", row->median * 1e3, least * 1e3, most * 1e3,
           (double)settings->dimension * sizeof(float) * 1e-9 / row->median, row->busy * 1e3,
           needed > 0 ? row->moved / needed : 1);
}

static int print_json(const option_command *command, const allreduce_options *options,
                      const bench_allreduce_row *row)
{
    const bench_allreduce_settings *settings = &options->settings;
    json_t *seconds = json_array();
    for (uint32_t i = 0; i < settings->times; i++)
        seconds = json_append(seconds, json_real(row->seconds[i]));
    json_t *report =
        json_pack("{s:s, s:s, s:o, s:f, s:o, s:f, s:f, s:f}", "command", "bench allreduce",
                  "version", tarry_version(), "config", options_json(command), "median_seconds",
                  row->median, "seconds", seconds, "busy_seconds", row->busy, "moved_numbers",
                  row->moved, "needed_numbers", numbers_needed(settings));
    return json_write(report, stdout) == TARRY_OK
               ? EXIT_DONE
               : complain(EXIT_FAILED, "allreduce: out of memory");
}

/* Certificates are made for TLS alone. Errors: those of the bench's cluster and of the sums. */
static int measure(allreduce_options *options, bench_allreduce_row *row, tarry_diagnostic *why)
{
    tarry_direct_settings *direct = &options->settings.direct;
    bench_cluster *cluster = NULL;
    tarry_direct_settings_init(direct);
    direct->no_shared_memory = options->way != WAY_SHARED;
    if (options->way == WAY_SHARED)
        direct->listen = NULL;
    int error = options->way == WAY_TLS ? bench_cluster_create(&cluster, why) : TARRY_OK;
    if (cluster != NULL)
        direct->credentials = bench_cluster_worker(cluster).credentials;
    if (error == TARRY_OK)
        error = bench_allreduce_run(&options->settings, row, why);
    bench_cluster_free(cluster);
    return error;
}

int command_bench_allreduce(int argc, char **argv)
{
    allreduce_options options = {
        .dimension = 10000000,
        .settings = {.members = 8, .parts = 1, .times = 15},
    };
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "allreduce",
        "Measures sums among processes of this machine by the engine 'direct' alone, without a "
        "server: from "
        "the first process that begins to the last one that has the sum.\v"
        "'busy' is the processor time of a process in a sum; 'moved / needed' compares what it "
        "sends to others, or reads of them, on average with (1 + 1/L) D (N - 1) / N numbers.",
        &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED) {
        bench_allreduce_row row;
        tarry_diagnostic why;
        options.settings.dimension = (size_t)options.dimension;
        int error = measure(&options, &row, &why);
        if (error != TARRY_OK)
            status = complain(EXIT_FAILED, "allreduce: %s", why.text);
        else if (options.json)
            status = print_json(&command, &options, &row);
        else
            print_table(&options, &row);
        if (status == OPTIONS_PROCEED)
            status = EXIT_DONE;
    }
    config_free(file);
    return status;
}
