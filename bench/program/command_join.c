/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <tarry/version.h>

#include "base/diagnostic.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/join.h"

typedef struct join_options {
    uint64_t dimension;
    bool json;
    bench_join_settings settings;
} join_options;

#define JOIN_REAL(what, word, explained, member, lowest, highest)                                  \
    {                                                                                              \
        .name = what, .argument = word, .help = explained, .kind = OPTION_REAL,                    \
        .offset = offsetof(join_options, settings.member), .low = lowest, .high = highest          \
    }

static const option_entry entries[] = {
    {.name = "state",
     .argument = "BYTES",
     .help = "The state that the joiner loads (default 1e9)",
     .kind = OPTION_U64,
     .offset = offsetof(join_options, settings.state),
     .least = 1,
     .most = UINT64_C(1) << 40},
    JOIN_REAL("round-trip", "SECONDS", "Of the joiner's link (default 0.08)", round_trip, 0, 10),
    JOIN_REAL("rate", "BITS", "Of the joiner's link, a second (default 1e9)", rate, 1e3, 1e12),
    {.name = "members",
     .argument = "N",
     .help = "Processes that sum meanwhile (default 3)",
     .kind = OPTION_U32,
     .offset = offsetof(join_options, settings.members),
     .least = 2,
     .most = JOIN_MEMBERS_MOST},
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a sum (default 1e6)",
     .kind = OPTION_U64,
     .offset = offsetof(join_options, dimension),
     .least = 1,
     .most = 1000000000},
    JOIN_REAL("compute", "SECONDS", "Time between two sums (default 0.1)", compute, 0, 3600),
    {.name = "times",
     .argument = "COUNT",
     .help = "Sums before the load (default 50)",
     .kind = OPTION_U32,
     .offset = offsetof(join_options, settings.times),
     .least = 1,
     .most = JOIN_TIMES_MOST},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(join_options, json)},
};

static double share_of_link(const bench_join_settings *settings, const bench_join_row *row)
{
    return (double)settings->state * 8 / settings->rate / row->seconds;
}

static void print_table(const bench_join_settings *settings, const bench_join_row *row)
{
    printf(
        "%u processes, d = %zu, %g s between sums; a state of %g bytes over %g s and %g bit/s:\n",
        settings->members, settings->dimension, settings->compute, (double)settings->state,
        settings->round_trip, settings->rate);
    printf("load s  written of the link   sum ms alone  longest   beside  longest  sums\n");
    printf("%6.2f %8.2f %10.1f%% %14.2f %8.2f %8.2f %8.2f %5u\n", row->seconds, row->written,
           100 * share_of_link(settings, row), row->alone * 1e3, row->longest_alone * 1e3,
           row->beside * 1e3, row->longest * 1e3, row->sums);
}

static int print_json(const option_command *command, const bench_join_settings *settings,
                      const bench_join_row *row)
{
    json_t *report = json_pack(
        "{s:s, s:s, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "command", "bench join",
        "version", tarry_version(), "config", options_json(command), "load_seconds", row->seconds,
        "written_seconds", row->written, "of_the_link", share_of_link(settings, row),
        "sum_seconds_alone", row->alone, "longest_alone", row->longest_alone, "sum_seconds_beside",
        row->beside, "longest_beside", row->longest, "sums_beside", (int)row->sums);
    return json_write(report, stdout) == TARRY_OK ? EXIT_DONE
                                                  : complain(EXIT_FAILED, "join: out of memory");
}

int command_bench_join(int argc, char **argv)
{
    join_options options = {
        .dimension = 1000000,
        .settings = {.members = 3,
                     .compute = 0.1,
                     .times = 50,
                     .state = 1000000000,
                     .round_trip = 0.08,
                     .rate = 1e9},
    };
    const option_group group = OPTION_GROUP("What is measured", entries, &options);
    const option_command command = {
        "join",
        "Measures a worker that joins others over a long link, which this program plays on "
        "loopback: how long its state takes, and how long the sums of the others take meanwhile.",
        &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED) {
        bench_join_row row;
        tarry_diagnostic why;
        options.settings.dimension = (size_t)options.dimension;
        if (bench_join_run(&options.settings, &row, &why) != TARRY_OK)
            status = complain(EXIT_FAILED, "join: %s", why.text);
        else if (options.json)
            status = print_json(&command, &options.settings, &row);
        else
            print_table(&options.settings, &row);
        if (status == OPTIONS_PROCEED)
            status = EXIT_DONE;
    }
    config_free(file);
    return status;
}
