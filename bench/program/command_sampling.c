/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <tarry/version.h>

#include "cli/options/run_options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "program/sampling.h"

typedef struct sampling_options {
    run_options run;
    bench_sampling_settings settings;
    bool json;
} sampling_options;

#define FIELD(member) .offset = offsetof(sampling_options, member)

static const option_entry entries[] = {
    {.name = "data",
     .argument = "FILE",
     .help = "Samples with classes, as for tarry train",
     .kind = OPTION_TEXT,
     FIELD(settings.data)},
    {.name = "sorted",
     .help = "Take them by label, so that most chunks have one class alone",
     .kind = OPTION_FLAG,
     FIELD(settings.sorted)},
    {.name = "straggler",
     .argument = "SPEC",
     .help = "What makes workers slow, as for tarry train; a chunk takes a second unless that has "
             "seconds of its own (default none)",
     .kind = OPTION_TEXT,
     FIELD(settings.straggler)},
    {.name = "batch",
     .argument = "COUNT",
     .help = "Samples of a round, drawn from all chunks; the second of a chunk shrinks with them "
             "(default 0: all samples)",
     .kind = OPTION_U64,
     .most = 1000000000,
     FIELD(settings.batch)},
    {.name = "rate",
     .argument = "RATE",
     .help = "Of gradient descent (default 0.5)",
     .kind = OPTION_REAL,
     .high = 1e9,
     .open = true,
     FIELD(settings.rate)},
    {.name = "loss",
     .argument = "LOSS",
     .help = "Stop once the loss of all samples is at most this (default 0.4)",
     .kind = OPTION_REAL,
     .high = 1e9,
     FIELD(settings.loss)},
    {.name = "rounds",
     .argument = "COUNT",
     .help = "At most so many (default 2000)",
     .kind = OPTION_U64,
     .least = 1,
     .most = 1000000000,
     FIELD(settings.rounds)},
    {.name = "json", .help = "Print the figures as JSON", .kind = OPTION_FLAG, FIELD(json)},
};

static int print(const option_command *command, const sampling_options *options,
                 const bench_sampling_row *row)
{
    if (!options->json) {
        printf("%s of %g after %llu rounds: %.1f s, %.1f times all data, loss %.4f\n",
               row->reached ? "Loss" : "No loss", options->settings.loss,
               (unsigned long long)row->rounds, row->seconds, row->work, row->loss);
        printf("Means of rounds: expected error %.4f, %.1f chunks sampled, sum off by %.4f of its "
               "square\n",
               row->error, row->sampled, row->apart);
        return EXIT_DONE;
    }
    json_t *report = json_pack(
        "{s:s, s:s, s:o, s:b, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "command", "bench sampling",
        "version", tarry_version(), "config", options_json(command), "reached", row->reached,
        "rounds", (json_int_t)row->rounds, "seconds", row->seconds, "work", row->work, "loss",
        row->loss, "expected_error", row->error, "sampled", row->sampled, "apart", row->apart);
    return json_write(report, stdout) == TARRY_OK
               ? EXIT_DONE
               : complain(EXIT_FAILED, "sampling: out of memory");
}

static int run(const option_command *command, sampling_options *options)
{
    int status = run_options_settle(&options->run);
    if (status != OPTIONS_PROCEED)
        return status;
    if (options->settings.data == NULL)
        return complain(EXIT_USAGE, "--data: say which samples to train on");
    options->settings.plan = options->run.settings.plan;
    options->settings.plan.pieces = 1;
    options->settings.server = options->run.settings.server;
    options->settings.server.ahead = TARRY_USUAL_AHEAD;
    options->settings.server.keep = TARRY_KEEP_ALL;
    tarry_diagnostic why;
    bench_sampling_row row;
    int error = bench_sampling_run(&options->settings, &row, &why);
    if (error != TARRY_OK)
        return complain(error == TARRY_ERROR_ARGUMENT || error == TARRY_ERROR_FORMAT ? EXIT_USAGE
                                                                                     : EXIT_FAILED,
                        "sampling: %s", why.text);
    return print(command, options, &row);
}

int command_bench_sampling(int argc, char **argv)
{
    sampling_options options = {
        .settings = {.straggler = "none", .rate = 0.5, .loss = 0.4, .rounds = 2000}};
    run_options_init(&options.run);
    option_group groups[RUN_GROUPS + 1] = {OPTION_GROUP("What is measured", entries, &options)};
    run_options_groups(&options.run, groups + 1);
    const option_command command = {
        "sampling",
        "Trains a linear softmax in simulated time, with the settings of tarry train, until a loss "
        "is reached: what sampling chunks, or samples of them, is worth.",
        groups, RUN_GROUPS + 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = run(&command, &options);
    config_free(file);
    return status;
}
