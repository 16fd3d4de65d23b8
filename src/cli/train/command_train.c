/* SPDX-License-Identifier: Apache-2.0 */
/* tarry train: the workers are threads of this process, or processes on this machine. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/runner/runner.h"
#include "cli/text/complain.h"
#include "cli/train/train_options.h"
#include "cli/train/train_run.h"

enum { PATH_SIZE = 4096 };

/* Where the program for ranks of MPI is: beside this one, which does without MPI. */
static void find_program(char path[PATH_SIZE])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_SIZE - 1);
    path[length > 0 ? length : 0] = '\0';
    char *end = strrchr(path, '/');
    size_t folder = end != NULL ? (size_t)(end - path) + 1 : 0;
    snprintf(path + folder, PATH_SIZE - folder, "tarry-mpi");
}

/* Goes on as that program, with the same command line. */
static int become_rank(int argc, char **argv)
{
    char path[PATH_SIZE];
    char **words = memory_allocate(NULL, (size_t)argc + 2, sizeof(*words));
    if (words == NULL)
        return complain(EXIT_FAILED, "train: out of memory");
    words[0] = "tarry-mpi";
    memcpy(words + 1, argv, (size_t)argc * sizeof(*words));
    find_program(path);
    execv(path, words);
    int error = errno;
    memory_release(NULL, words);
    if (error == ENOENT)
        return complain(EXIT_FAILED,
                        "--engine: %s is not there: this Tarry was built without MPI, or its "
                        "package tarry-mpi is not installed",
                        path);
    return complain(EXIT_FAILED, "--engine: %s: %s", path, strerror(error));
}

int command_train(int argc, char **argv)
{
    train_options options;
    train_where where = {false, TRAIN_DIRECT};
    train_options_init(&options);
    option_group groups[TRAIN_GROUPS + 3];
    train_options_groups(&options, groups);
    groups[TRAIN_GROUPS] = train_where_group(&where);
    groups[TRAIN_GROUPS + 1] = train_options_dp_group(&options);
    groups[TRAIN_GROUPS + 2] = secure_options_group(&options.secure, false);
    const option_command command = {
        "train",
        "Trains a model by gradient sums over workers that may be slow or dead; without --data on "
        "a synthetic data set.",
        groups, TRAIN_GROUPS + 3};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED && options.dp != NULL && where.engine != TRAIN_DIRECT)
        status = complain(EXIT_USAGE,
                          "--dp: cannot be combined with --engine: other ranks would have to be "
                          "told which samples are drawn");
    if (status == OPTIONS_PROCEED && options.secure.secure && !where.processes)
        status = complain(EXIT_USAGE, "--secure: needs --processes: threads of one process have no "
                                      "secrets from each other");
    if (status == OPTIONS_PROCEED && where.engine != TRAIN_DIRECT)
        status = become_rank(argc, argv);
    else if (status == OPTIONS_PROCEED)
        status = where.processes ? train_run(&command, &options, runner_processes_create, &options)
                                 : train_run(&command, &options, runner_local_create, NULL);
    config_free(file);
    return status;
}
