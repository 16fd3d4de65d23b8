/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRAIN_REPORT_H
#define CLI_TRAIN_REPORT_H

#include <stdio.h>

#include "cli/history.h"
#include "cli/train_job.h"

/*
 * Writes the run's report as JSON (docs/reports.md): `keep` is what --keep came to, `config` the
 * object of all options, which is borrowed. Errors: NO_MEMORY; what the stream refuses shows in the
 * stream.
 */
int train_report_write(FILE *stream, const train_inputs *inputs, size_t dimension, tarry_keep keep,
                       json_t *config, const history *past);

#endif
