/* SPDX-License-Identifier: Apache-2.0 */
/* tarry train --processes: a server in this process, and its workers in others on this machine,
 * over a Unix socket in a directory that is nobody else's. */
#ifndef CLI_RUNNER_PROCESSES_H
#define CLI_RUNNER_PROCESSES_H

#include "cli/runner/runner.h"

/* A runner_create, whose user is the train_options, borrowed. */
int runner_processes_create(void *user, const runner_request *request, runner **out,
                            tarry_diagnostic *diagnostic);

#endif
