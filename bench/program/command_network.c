/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>

#include <tarry/version.h>

#include "cli/options/options.h"
#include "cli/output/output.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/network.h"

typedef enum network_what { ALL, PARTS, REPORTS, IDLE } network_what;

typedef struct network_options {
    uint64_t dimension;
    uint64_t stripe; /* 0: the runtime's choice */
    network_what only;
    bool json;
    const char *report;
    bench_network_settings settings;
} network_options;

static const option_choice choices[] = {
    {"all", ALL}, {"parts", PARTS}, {"reports", REPORTS}, {"idle", IDLE}, {NULL, 0}};

static const option_entry entries[] = {
    {.name = "only",
     .argument = "WHAT",
     .help = "parts, reports or idle; default all",
     .kind = OPTION_CHOICE,
     .offset = offsetof(network_options, only),
     .choices = choices},
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a gradient (default 1e7)",
     .kind = OPTION_U64,
     .offset = offsetof(network_options, dimension),
     .least = 1,
     .most = 1000000000},
    {.name = "workers",
     .argument = "M",
     .help = "Workers, and connections (default 8)",
     .kind = OPTION_U32,
     .offset = offsetof(network_options, settings.workers),
     .least = 1,
     .most = 1000},
    {.name = "stripe",
     .argument = "LENGTH",
     .help = "Numbers in a stripe (default: as the runtime chooses)",
     .kind = OPTION_U64,
     .offset = offsetof(network_options, stripe),
     .least = 1,
     .most = 4194304},
    {.name = "rounds",
     .argument = "COUNT",
     .help = "Rounds, of which the median counts (default 15)",
     .kind = OPTION_U32,
     .offset = offsetof(network_options, settings.rounds),
     .least = 1,
     .most = 100000},
    {.name = "reports",
     .argument = "COUNT",
     .help = "Reports in a round (default 65536)",
     .kind = OPTION_U32,
     .offset = offsetof(network_options, settings.reports),
     .least = 1000,
     .most = 10000000},
    {.name = "idle",
     .argument = "COUNT",
     .help = "Workers that are idle (default 1000)",
     .kind = OPTION_U32,
     .offset = offsetof(network_options, settings.idle),
     .least = 1,
     .most = 60000},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(network_options, json)},
    {.name = "report",
     .argument = "FILE",
     .help = "Write them as JSON to this file, too",
     .kind = OPTION_TEXT,
     .offset = offsetof(network_options, report)},
};

/* A line of the table. */
typedef struct row {
    const char *what;  /* in reports */
    const char *link;  /* the same */
    const char *title; /* in the table */
    const char *unit;
    double scale;
    bench_network_pair pair;
} row;

enum { ROWS_MOST = 7, BATCH = 64 };

typedef struct rows {
    row items[ROWS_MOST];
    size_t count;
} rows;

static row *add(rows *list, const char *what, const char *link, const char *title, const char *unit,
                double scale)
{
    row *its = &list->items[list->count++];
    *its = (row){.what = what, .link = link, .title = title, .unit = unit, .scale = scale};
    return its;
}

static int measure_parts(const network_options *options, const bench_cluster *cluster, rows *list,
                         tarry_diagnostic *why)
{
    row *its = add(list, "parts", "plain", "coded parts, plain", "GB/s", 1e-9);
    int error = bench_network_parts(&options->settings, NULL, &its->pair, why);
    if (error != TARRY_OK)
        return error;
    its = add(list, "parts", "tls", "coded parts, TLS", "GB/s", 1e-9);
    return bench_network_parts(&options->settings, cluster, &its->pair, why);
}

static int measure_reports(const network_options *options, rows *list, tarry_diagnostic *why)
{
    row *its = add(list, "reports", "plain", "reports, one by one", "M/s", 1e-6);
    int error = bench_network_reports(&options->settings, 1, &its->pair, why);
    if (error != TARRY_OK)
        return error;
    its = add(list, "batched_reports", "plain", "reports, 64 at a time", "M/s", 1e-6);
    return bench_network_reports(&options->settings, BATCH, &its->pair, why);
}

static int measure_idle(const network_options *options, const bench_cluster *cluster, rows *list,
                        tarry_diagnostic *why)
{
    row *its = add(list, "idle", "plain", "idle workers, plain", "KiB", 1.0 / 1024);
    int error = bench_network_idle(&options->settings, NULL, &its->pair.ours, why);
    if (error != TARRY_OK)
        return error;
    its = add(list, "idle", "tls", "idle workers, TLS", "KiB", 1.0 / 1024);
    return bench_network_idle(&options->settings, cluster, &its->pair.ours, why);
}

static int measure(const network_options *options, rows *list, tarry_diagnostic *why)
{
    network_what only = options->only;
    bench_cluster *cluster;
    int error = bench_cluster_create(&cluster, why);
    if (error != TARRY_OK)
        return error;
    /* First, while this process has the least memory. */
    if (only == ALL || only == IDLE)
        error = measure_idle(options, cluster, list, why);
    if (error == TARRY_OK && (only == ALL || only == PARTS))
        error = measure_parts(options, cluster, list, why);
    if (error == TARRY_OK && (only == ALL || only == REPORTS))
        error = measure_reports(options, list, why);
    bench_cluster_free(cluster);
    return error;
}

static void print_table(const network_options *options, const rows *list)
{
    printf("%u workers over loopback, d = %zu, medians of %u rounds:\n", options->settings.workers,
           options->settings.dimension, options->settings.rounds);
    printf("%-24s %10s %10s %-5s %6s\n", "", "bare", "Tarry", "", "ratio");
    for (size_t i = 0; i < list->count; i++) {
        const row *its = &list->items[i];
        const bench_network_pair *pair = &its->pair;
        if (pair->bare > 0)
            printf("%-24s %10.3f %10.3f %-5s %6.2f\n", its->title, pair->bare * its->scale,
                   pair->ours * its->scale, its->unit, pair->ratio);
        else
            printf("%-24s %10s %10.1f %-5s for each\n", its->title, "", pair->ours * its->scale,
                   its->unit);
    }
}

static json_t *row_json(const row *its)
{
    const bench_network_pair *pair = &its->pair;
    if (pair->bare > 0)
        return json_pack("{s:s, s:s, s:f, s:f, s:f}", "what", its->what, "link", its->link, "bare",
                         pair->bare, "tarry", pair->ours, "ratio", pair->ratio);
    return json_pack("{s:s, s:s, s:f}", "what", its->what, "link", its->link, "bytes", pair->ours);
}

static json_t *report_json(const option_command *command, const rows *list)
{
    json_t *results = json_array();
    for (size_t i = 0; i < list->count; i++)
        results = json_append(results, row_json(&list->items[i]));
    return json_pack("{s:s, s:s, s:o, s:o}", "command", "bench network", "version", tarry_version(),
                     "config", options_json(command), "results", results);
}

static int tell(const option_command *command, const network_options *options, const rows *list,
                output_file **file)
{
    int error = TARRY_OK;
    if (options->json)
        error = json_write(report_json(command, list), stdout);
    else
        print_table(options, list);
    if (error == TARRY_OK && *file != NULL)
        error = json_write(report_json(command, list), output_file_stream(*file));
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "network: out of memory");
    return *file != NULL ? output_end(file) : EXIT_DONE;
}

int command_bench_network(int argc, char **argv)
{
    network_options options = {
        .dimension = 10000000,
        .settings = {.workers = 8, .rounds = 15, .reports = 65536, .idle = 1000},
    };
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "network",
        "Measures the network runtime over loopback against bare calls of the system, and of "
        "OpenSSL, that move the same bytes: how fast coded parts come in and are summed, how fast "
        "reports are taken in, and what memory an idle worker costs.",
        &group, 1};
    config_file *config;
    output_file *file = NULL;
    rows list = {.count = 0};
    int status = options_parse(&command, argc, argv, &config);
    options.settings.dimension = (size_t)options.dimension;
    options.settings.stripe_length = (size_t)options.stripe;
    if (status == OPTIONS_PROCEED)
        status = output_begin(options.report, &file);
    if (status == OPTIONS_PROCEED) {
        tarry_diagnostic why = {{0}};
        signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to bare connections */
        int error = measure(&options, &list, &why);
        status = error == TARRY_OK ? tell(&command, &options, &list, &file)
                                   : complain(EXIT_FAILED, "network: %s", why.text);
    }
    if (file != NULL)
        output_file_discard(file);
    config_free(config);
    return status;
}
