/* SPDX-License-Identifier: Apache-2.0 */
/* A command that trains: inputs, checkpoints and outputs around a job's rounds. */
#ifndef CLI_TRAIN_RUN_H
#define CLI_TRAIN_RUN_H

#include <tarry/error.h>

#include "cli/checkpoint/history.h"
#include "cli/runner/runner.h"
#include "cli/train/train_options.h"

/*
 * Trains as the options say, which `command` has parsed into *options; they are checked here, and
 * `create` makes the workers. Gives back the exit status.
 */
int train_run(const option_command *command, train_options *options, runner_create *create,
              void *create_user);

/* tarry train --processes: a server in this process, and its workers in others on this machine,
 * over a Unix socket in a directory that is nobody else's. */

/* A runner_create, whose user is the train_options, borrowed. */
int runner_processes_create(void *user, const runner_request *request, runner **out,
                            tarry_diagnostic *diagnostic);

#endif
