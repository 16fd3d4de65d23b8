/* SPDX-License-Identifier: Apache-2.0 */
/* Workers as threads of this process. */
#ifndef CLI_RUNNER_LOCAL_H
#define CLI_RUNNER_LOCAL_H

#include "cli/runner/runner.h"

/* A runner_create; user is not used. */
int runner_local_create(void *user, const runner_request *request, runner **out,
                        tarry_diagnostic *diagnostic);

#endif
