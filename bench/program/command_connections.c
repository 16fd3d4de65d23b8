/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>

#include <tarry/version.h>

#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/connections.h"

typedef struct connections_options {
    bool json;
    bench_connections_settings settings;
} connections_options;

static const option_entry entries[] = {
    {.name = "workers",
     .argument = "M",
     .help = "Emulated workers (default 10000)",
     .kind = OPTION_U32,
     .offset = offsetof(connections_options, settings.workers),
     .least = 1,
     .most = 60000},
    {.name = "reports",
     .argument = "COUNT",
     .help = "Reports in a round, as many of each worker (default 1e6)",
     .kind = OPTION_U32,
     .offset = offsetof(connections_options, settings.reports),
     .least = 1,
     .most = 10000000},
    {.name = "batch",
     .argument = "COUNT",
     .help = "Reports of a worker in a frame (default 10)",
     .kind = OPTION_U32,
     .offset = offsetof(connections_options, settings.batch),
     .least = 1,
     .most = 1024},
    {.name = "rounds",
     .argument = "COUNT",
     .help = "Rounds, of which the median counts (default 9)",
     .kind = OPTION_U32,
     .offset = offsetof(connections_options, settings.rounds),
     .least = 1,
     .most = 100000},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(connections_options, json)},
};

static void print_table(const bench_connections_settings *settings,
                        const bench_connections_result *result)
{
    printf("%u emulated workers, %u reports in a round, %u to a frame, medians of %u rounds:\n",
           settings->workers, result->reports, settings->batch, settings->rounds);
    printf("%-44s %10.3f M/s\n", "reports at the server", result->reports_per_second * 1e-6);
    printf("%-44s %10.3f us\n", "processor time of the server for a report",
           result->report_cpu_seconds * 1e6);
    printf("%-44s %10.1f ms\n", "signal to the last worker", result->signal_seconds * 1e3);
    printf("%-44s %10.1f ms\n", "the same, longest", result->worst_signal_seconds * 1e3);
    printf("%-44s %10.1f KiB\n", "memory of the server for a worker", result->server_bytes / 1024);
}

static json_t *report_json(const option_command *command, const bench_connections_result *result)
{
    json_t *measured =
        json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "reports", (json_int_t)result->reports,
                  "reports_per_second", result->reports_per_second, "report_cpu_seconds",
                  result->report_cpu_seconds, "signal_seconds", result->signal_seconds,
                  "worst_signal_seconds", result->worst_signal_seconds, "server_bytes_per_worker",
                  result->server_bytes);
    return json_pack("{s:s, s:s, s:o, s:o}", "command", "bench connections", "version",
                     tarry_version(), "config", options_json(command), "results", measured);
}

static int measure(const option_command *command, const connections_options *options)
{
    tarry_diagnostic why = {{0}};
    bench_connections_result result;
    const bench_connections_settings *settings = &options->settings;
    if (settings->reports < settings->workers)
        return complain(EXIT_USAGE, "connections: fewer reports than workers");
    signal(SIGPIPE, SIG_IGN);
    int error = bench_connections_run(settings, &result, &why);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "connections: %s", why.text);
    if (!options->json) {
        print_table(settings, &result);
        return EXIT_DONE;
    }
    return json_write(report_json(command, &result), stdout) == TARRY_OK
               ? EXIT_DONE
               : complain(EXIT_FAILED, "connections: out of memory");
}

int command_bench_connections(int argc, char **argv)
{
    connections_options options = {
        .settings = {.workers = 10000, .reports = 1000000, .batch = 10, .rounds = 9},
    };
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "connections",
        "Measures a server with many connections, of workers that two processes emulate: reports "
        "per second, the way of a signal to the last worker, and memory for a worker.",
        &group, 1};
    config_file *config;
    int status = options_parse(&command, argc, argv, &config);
    if (status == OPTIONS_PROCEED)
        status = measure(&command, &options);
    config_free(config);
    return status;
}
