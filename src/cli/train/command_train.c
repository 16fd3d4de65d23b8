/* SPDX-License-Identifier: Apache-2.0 */
/* tarry train: the workers are threads of this process, or processes on this machine. */
#include "cli/command.h"
#include "cli/runner/runner_local.h"
#include "cli/train/runner_processes.h"
#include "cli/train/train_run.h"

typedef struct process_options {
    bool processes;
} process_options;

static const option_entry processes_entry[] = {{
    .name = "processes",
    .help = "Let every worker be a process of its own on this machine (default: threads)",
    .kind = OPTION_FLAG,
    .offset = offsetof(process_options, processes),
}};

int command_train(int argc, char **argv)
{
    train_options options;
    process_options where = {false};
    train_options_init(&options);
    option_group groups[TRAIN_GROUPS + 1];
    train_options_groups(&options, groups);
    groups[TRAIN_GROUPS] = OPTION_GROUP("Workers", processes_entry, &where);
    const option_command command = {
        "train",
        "Trains a model by gradient sums over workers that may be slow or dead; without --data on "
        "a synthetic data set.",
        groups, TRAIN_GROUPS + 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = where.processes ? train_run(&command, &options, runner_processes_create, &options)
                                 : train_run(&command, &options, runner_local_create, NULL);
    config_free(file);
    return status;
}
