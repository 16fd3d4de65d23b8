/* SPDX-License-Identifier: Apache-2.0 */
/* --sample-chunks: how many chunks a round draws. */
#ifndef CLI_SAMPLE_RULE_H
#define CLI_SAMPLE_RULE_H

#include <tarry/server.h>

/* Reads K, or K:uniform, which is the same, into the settings. Errors: FORMAT. */
int sample_rule_read(const char *text, tarry_server_settings *server, tarry_diagnostic *diagnostic);

#endif
