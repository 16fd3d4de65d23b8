/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <tarry/version.h>

#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/round.h"

typedef struct round_options {
    uint64_t dimension;
    uint64_t stripe; /* 0: the runtime's choice */
    bool json;
    bench_round_settings settings;
} round_options;

static const option_entry entries[] = {
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a gradient (default 1e6)",
     .kind = OPTION_U64,
     .offset = offsetof(round_options, dimension),
     .least = 1,
     .most = 1000000000},
    {.name = "workers",
     .argument = "M",
     .help = "Workers, and chunks (default 8)",
     .kind = OPTION_U32,
     .offset = offsetof(round_options, settings.plan.workers),
     .least = 1,
     .most = 1000},
    {.name = "replication",
     .argument = "R",
     .help = "Workers that hold each chunk (default 3)",
     .kind = OPTION_U32,
     .offset = offsetof(round_options, settings.plan.replication),
     .least = 1,
     .most = 1000},
    {.name = "rounds",
     .argument = "COUNT",
     .help = "Rounds, of which the median counts (default 100)",
     .kind = OPTION_U32,
     .offset = offsetof(round_options, settings.rounds),
     .least = 1,
     .most = 1000000},
    {.name = "stripe",
     .argument = "LENGTH",
     .help = "Numbers in a stripe (default: as the runtime chooses)",
     .kind = OPTION_U64,
     .offset = offsetof(round_options, stripe),
     .least = 1,
     .most = 1000000000},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(round_options, json)},
};

/* What is run: one and two parts, when every chunk has its copies and when all workers are done. */
typedef struct round_case {
    uint32_t parts;
    bool all;
} round_case;

static const round_case cases[] = {{1, false}, {1, true}, {2, false}, {2, true}};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static const char *stop_name(const round_case *one)
{
    return one->all ? "workers" : "exact";
}

static void print_table(const round_options *options, const bench_round_row *rows)
{
    printf("%u workers, replication %u, d = %zu, no stragglers, chunk functions that do nothing; "
           "medians of %u rounds:\n",
           options->settings.plan.workers, options->settings.plan.replication,
           options->settings.dimension, options->settings.rounds);
    printf("parts stop    copies  round ms  signal ms  needed MB  copy GB/s  round / needed\n");
    for (size_t i = 0; i < CASES; i++) {
        const bench_round_row *row = &rows[i];
        printf("%5u %-7s %6.0f %9.3f %10.3f %10.1f %10.1f %15.2f\n", cases[i].parts,
               stop_name(&cases[i]), row->copies, row->seconds * 1e3, row->signal * 1e3,
               row->bytes * 1e-6, row->copy * 1e-9, row->ratio);
    }
}

static int print_json(const option_command *command, const bench_round_row *rows)
{
    json_t *results = json_array();
    for (size_t i = 0; i < CASES; i++) {
        const bench_round_row *row = &rows[i];
        results = json_append(results,
                              json_pack("{s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "parts",
                                        (int)cases[i].parts, "stop", stop_name(&cases[i]), "copies",
                                        row->copies, "seconds", row->seconds, "signal_seconds",
                                        row->signal, "needed_bytes", row->bytes,
                                        "copy_bytes_per_second", row->copy, "ratio", row->ratio));
    }
    json_t *report =
        json_pack("{s:s, s:s, s:o, s:o}", "command", "bench round", "version", tarry_version(),
                  "config", options_json(command), "results", results);
    return json_write(report, stdout) == TARRY_OK ? EXIT_DONE
                                                  : complain(EXIT_FAILED, "round: out of memory");
}

int command_bench_round(int argc, char **argv)
{
    round_options options = {.dimension = 1000000, .settings = {.rounds = 100}};
    tarry_plan_settings_init(&options.settings.plan);
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "round",
        "Measures whole rounds of the local runtime, without stragglers and with chunk functions "
        "that do nothing, against the memory traffic that a round needs (coded gradients read "
        "once, parts written and read once) at the speed of memcpy.",
        &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    bench_round_row rows[CASES];
    options.settings.dimension = (size_t)options.dimension;
    options.settings.stripe_length = (size_t)options.stripe;
    options.settings.plan.chunks = options.settings.plan.workers;
    for (size_t i = 0; status == OPTIONS_PROCEED && i < CASES; i++) {
        options.settings.plan.parts = cases[i].parts;
        options.settings.all = cases[i].all;
        tarry_diagnostic why;
        int error = bench_round_run(&options.settings, &rows[i], &why);
        if (error != TARRY_OK)
            status = complain(error == TARRY_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED, "round: %s",
                              why.text);
    }
    if (status == OPTIONS_PROCEED) {
        status = EXIT_DONE;
        if (options.json)
            status = print_json(&command, rows);
        else
            print_table(&options, rows);
    }
    config_free(file);
    return status;
}
