/* SPDX-License-Identifier: Apache-2.0 */
/* How a plan and what its workers keep stand in every report. */
#ifndef CLI_RUN_REPORT_H
#define CLI_RUN_REPORT_H

#include "cli/options/run_options.h"

/* The plan's figures; NULL if there is no memory. */
json_t *run_plan_json(const run_options *options, const tarry_plan *plan);

/* What its workers keep for gradients of `dimension` numbers, and what that takes: keys to be added
 * to those of the plan. NULL if there is no memory. */
json_t *run_memory_json(const tarry_plan *plan, const tarry_server_settings *server,
                        uint64_t dimension);

/* 64 hexadecimal digits and a NUL. */
void plan_digest_text(const tarry_plan *plan, char text[2 * TARRY_DIGEST_SIZE + 1]);

#endif
