/* SPDX-License-Identifier: Apache-2.0 */
/* tarry train: the workers are threads of this process. */
#include "cli/command.h"
#include "cli/runner_local.h"
#include "cli/train_run.h"

int command_train(int argc, char **argv)
{
    train_options options;
    train_options_init(&options);
    option_group groups[TRAIN_GROUPS];
    train_options_groups(&options, groups);
    const option_command command = {
        "train",
        "Trains a model by gradient sums over workers that may be slow or dead; without --data on "
        "a synthetic data set.",
        groups, TRAIN_GROUPS};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = train_run(&command, &options, runner_local_create, NULL);
    config_free(file);
    return status;
}
