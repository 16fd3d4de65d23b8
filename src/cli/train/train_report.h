/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRAIN_REPORT_H
#define CLI_TRAIN_REPORT_H

#include <stdio.h>

#include "cli/checkpoint/history.h"
#include "cli/train/train_job.h"

/*
 * Writes the report of the job's run as JSON (docs/reports.md): `config` is the object of all
 * options, which is borrowed. Errors: NO_MEMORY, or as history_round_at, with a diagnostic; what
 * the stream refuses shows in the stream.
 */
int train_report_write(FILE *stream, const train_inputs *inputs, const train_job *job,
                       json_t *config, const history *past, tarry_diagnostic *diagnostic);

#endif
