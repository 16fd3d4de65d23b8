/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>

#include <tarry/version.h>

#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/report_json.h"
#include "program/emulated/emulated.h"
#include "program/relays.h"

typedef struct relays_options {
    bool json;
    bool kill;
    bench_relays_settings settings;
} relays_options;

static const option_entry entries[] = {
    {.name = "workers",
     .argument = "M",
     .help = "Emulated workers (default 10000)",
     .kind = OPTION_U32,
     .offset = offsetof(relays_options, settings.workers),
     .least = 1,
     .most = 60000},
    {.name = "relays",
     .argument = "N",
     .help = "Relays, each a process; 0: workers connect to the server (default 4)",
     .kind = OPTION_U32,
     .offset = offsetof(relays_options, settings.relays),
     .least = 0,
     .most = EMULATED_PARENTS_MOST},
    {.name = "reports",
     .argument = "COUNT",
     .help = "Reports in a round, as many of each worker (default 1e6)",
     .kind = OPTION_U32,
     .offset = offsetof(relays_options, settings.reports),
     .least = 1,
     .most = 10000000},
    {.name = "batch",
     .argument = "COUNT",
     .help = "Reports of a worker in a frame (default 10)",
     .kind = OPTION_U32,
     .offset = offsetof(relays_options, settings.batch),
     .least = 1,
     .most = 1024},
    {.name = "rounds",
     .argument = "COUNT",
     .help = "Rounds, of which the median counts (default 9)",
     .kind = OPTION_U32,
     .offset = offsetof(relays_options, settings.rounds),
     .least = 1,
     .most = 100000},
    {.name = "kill",
     .help = "Kill a relay in the middle of a further round, and say when all of its workers were "
             "back (with two relays or more)",
     .kind = OPTION_FLAG,
     .offset = offsetof(relays_options, kill)},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(relays_options, json)},
};

static void print_table(const relays_options *options, const bench_relays_result *result,
                        const bench_relays_repair *repair)
{
    const bench_relays_settings *settings = &options->settings;
    printf("%u emulated workers, %u relay%s, %u reports in a round, %u to a frame, medians of %u "
           "rounds:\n",
           settings->workers, settings->relays, settings->relays == 1 ? "" : "s", result->reports,
           settings->batch, settings->rounds);
    printf("%-44s %10.3f M/s\n", "reports at the server", result->reports_per_second * 1e-6);
    printf("%-44s %10.3f us\n", "processor time of the server for a report",
           result->report_cpu_seconds * 1e6);
    printf("%-44s %10.1f ms\n", "signal to the last worker", result->signal_seconds * 1e3);
    printf("%-44s %10.1f ms\n", "the same, longest", result->worst_signal_seconds * 1e3);
    printf("%-44s %10.1f KiB\n", "memory of the server for a worker", result->server_bytes / 1024);
    if (settings->relays > 0)
        printf("%-44s %10.1f KiB\n", "memory of relays for a worker", result->relay_bytes / 1024);
    if (!options->kill)
        return;
    printf("%-44s %10.1f ms\n", "a relay's death, until a worker knew", repair->detected * 1e3);
    printf("%-44s %10.1f ms\n", "the same, until all of its workers were back",
           repair->repaired * 1e3);
    printf("%-44s %10.1f ms\n", "longest that a worker, once it knew, was out",
           repair->returned * 1e3);
    printf("%-44s %10.1f ms\n", "longest round trip meanwhile", repair->welcomed * 1e3);
    printf("%-44s %10.2f\n", "the former in such round trips", repair->round_trips);
    printf("%-44s %10u\n", "workers that it had", repair->lost);
    printf("%-44s %10llu\n", "orders to others meanwhile", (unsigned long long)repair->disturbed);
}

static json_t *report_json(const option_command *command, const relays_options *options,
                           const bench_relays_result *result, const bench_relays_repair *repair)
{
    json_t *measured =
        json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "reports", (json_int_t)result->reports,
                  "reports_per_second", result->reports_per_second, "report_cpu_seconds",
                  result->report_cpu_seconds, "signal_seconds", result->signal_seconds,
                  "worst_signal_seconds", result->worst_signal_seconds, "server_bytes_per_worker",
                  result->server_bytes, "relay_bytes_per_worker", result->relay_bytes);
    json_t *death =
        options->kill
            ? json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:b}", "workers",
                        (json_int_t)repair->lost, "detected_seconds", repair->detected,
                        "repaired_seconds", repair->repaired, "return_seconds", repair->returned,
                        "round_trip_seconds", repair->welcomed, "round_trips", repair->round_trips,
                        "orders_to_others", (json_int_t)repair->disturbed, "exact", repair->exact)
            : json_null();
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "command", "bench relays", "version",
                     tarry_version(), "config", options_json(command), "results", measured, "death",
                     death);
}

static int measure(const option_command *command, const relays_options *options)
{
    tarry_diagnostic why = {{0}};
    bench_relays_result result;
    bench_relays_repair repair = {0};
    const bench_relays_settings *settings = &options->settings;
    if (settings->reports < settings->workers)
        return complain(EXIT_USAGE, "relays: fewer reports than workers");
    if (options->kill && settings->relays < 2)
        return complain(EXIT_USAGE, "relays: --kill: nobody is left to go to");
    signal(SIGPIPE, SIG_IGN);
    int error = bench_relays_run(settings, &result, &why);
    if (error == TARRY_OK && options->kill)
        error = bench_relays_repair_run(settings, &repair, &why);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "relays: %s", why.text);
    if (!options->json) {
        print_table(options, &result, &repair);
        return EXIT_DONE;
    }
    return json_write(report_json(command, options, &result, &repair), stdout) == TARRY_OK
               ? EXIT_DONE
               : complain(EXIT_FAILED, "relays: out of memory");
}

int command_bench_relays(int argc, char **argv)
{
    relays_options options = {
        .settings = {.workers = 10000, .relays = 4, .reports = 1000000, .batch = 10, .rounds = 9},
    };
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "relays",
        "Measures a server with many workers, emulated by one process, that come to it through "
        "relays: reports per second, the way of a signal to the last worker, memory for a worker, "
        "and what a relay's death costs.",
        &group, 1};
    config_file *config;
    int status = options_parse(&command, argc, argv, &config);
    if (status == OPTIONS_PROCEED)
        status = measure(&command, &options);
    config_free(config);
    return status;
}
