/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <tarry/version.h>

#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/simulate.h"

typedef struct simulate_options {
    uint32_t workers; /* 0: the cases */
    bool json;
    bench_simulate_settings settings;
} simulate_options;

static const option_entry entries[] = {
    {.name = "workers",
     .argument = "M",
     .help = "Workers, and chunks (default: 200, then 10000)",
     .kind = OPTION_U32,
     .offset = offsetof(simulate_options, workers),
     .least = 1,
     .most = 1000000},
    {.name = "replication",
     .argument = "R",
     .help = "Workers that hold each chunk (default 8)",
     .kind = OPTION_U32,
     .offset = offsetof(simulate_options, settings.plan.replication),
     .least = 1,
     .most = 1000},
    {.name = "parts",
     .argument = "L",
     .help = "Parts that a gradient is cut into (default 1)",
     .kind = OPTION_U32,
     .offset = offsetof(simulate_options, settings.plan.parts),
     .least = 1,
     .most = 64},
    {.name = "straggler",
     .argument = "SPEC",
     .help = "What makes workers slow, as for tarry train (default exp:1)",
     .kind = OPTION_TEXT,
     .offset = offsetof(simulate_options, settings.straggler)},
    {.name = "reports",
     .argument = "COUNT",
     .help = "Rounds are run until workers have sent so many reports (default 1e6)",
     .kind = OPTION_U64,
     .offset = offsetof(simulate_options, settings.reports),
     .least = 1,
     .most = 1000000000000},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(simulate_options, json)},
};

static const uint32_t cases[] = {200, 10000};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static size_t case_count(const simulate_options *options)
{
    return options->workers > 0 ? 1 : CASES;
}

static uint32_t case_workers(const simulate_options *options, size_t index)
{
    return options->workers > 0 ? options->workers : cases[index];
}

static void print_table(const simulate_options *options, const bench_simulate_row *rows)
{
    printf("Simulated rounds, as many chunks as workers, replication %u, %u part%s, straggler %s; "
           "processor time of one thread:\n",
           options->settings.plan.replication, options->settings.plan.parts,
           options->settings.plan.parts == 1 ? "" : "s", options->settings.straggler);
    printf("workers  rounds   reports  reports/s   events/s  longest round  memory so far\n");
    for (size_t i = 0; i < case_count(options); i++) {
        const bench_simulate_row *row = &rows[i];
        char longest[NUMBER_TEXT_SIZE], memory[NUMBER_TEXT_SIZE];
        seconds_text(row->longest_round, longest);
        bytes_text(row->memory, memory);
        printf("%7u %7llu %9llu %10.3g %10.3g %14s %14s\n", case_workers(options, i),
               (unsigned long long)row->rounds, (unsigned long long)row->reports,
               (double)row->reports / row->seconds, (double)row->events / row->seconds, longest,
               memory);
    }
}

static int print_json(const option_command *command, const simulate_options *options,
                      const bench_simulate_row *rows)
{
    json_t *results = json_array();
    for (size_t i = 0; i < case_count(options); i++) {
        const bench_simulate_row *row = &rows[i];
        results = json_append(
            results,
            json_pack("{s:i, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "workers",
                      (int)case_workers(options, i), "rounds", (json_int_t)row->rounds, "reports",
                      (json_int_t)row->reports, "events", (json_int_t)row->events, "seconds",
                      row->seconds, "reports_per_second", (double)row->reports / row->seconds,
                      "longest_round_seconds", row->longest_round, "virtual_round_seconds",
                      row->virtual_round, "memory_bytes", row->memory));
    }
    json_t *report =
        json_pack("{s:s, s:s, s:o, s:o}", "command", "bench simulate", "version", tarry_version(),
                  "config", options_json(command), "results", results);
    return json_write(report, stdout) == TARRY_OK
               ? EXIT_DONE
               : complain(EXIT_FAILED, "simulate: out of memory");
}

static int run_cases(simulate_options *options, bench_simulate_row *rows)
{
    for (size_t i = 0; i < case_count(options); i++) {
        options->settings.plan.workers = options->settings.plan.chunks = case_workers(options, i);
        tarry_diagnostic why;
        int error = bench_simulate_run(&options->settings, &rows[i], &why);
        if (error != TARRY_OK)
            return complain(error == TARRY_ERROR_ARGUMENT || error == TARRY_ERROR_FORMAT
                                ? EXIT_USAGE
                                : EXIT_FAILED,
                            "simulate: %s", why.text);
    }
    return EXIT_DONE;
}

int command_bench_simulate(int argc, char **argv)
{
    simulate_options options = {.settings = {.straggler = "exp:1", .reports = 1000000}};
    tarry_plan_settings_init(&options.settings.plan);
    options.settings.plan.replication = 8;
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {"simulate",
                                    "Measures how many reports of simulated workers one thread "
                                    "takes in per second of processor "
                                    "time, and the memory of it.",
                                    &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    bench_simulate_row rows[CASES];
    if (status == OPTIONS_PROCEED) {
        status = run_cases(&options, rows);
        if (status == EXIT_DONE && options.json)
            status = print_json(&command, &options, rows);
        else if (status == EXIT_DONE)
            print_table(&options, rows);
    }
    config_free(file);
    return status;
}
