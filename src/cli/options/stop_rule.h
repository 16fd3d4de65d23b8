/* SPDX-License-Identifier: Apache-2.0 */
/* A stop rule as a flag or a scheme's setting says it: exact, deadline:SECONDS, error:EPS,
 * workers:K. */
#ifndef CLI_STOP_RULE_H
#define CLI_STOP_RULE_H

#include <tarry/server.h>

/* Sets the rule and its limit in *server. Errors: FORMAT, NO_MEMORY; *server is then untouched. */
int stop_rule_read(const char *text, tarry_server_settings *server, tarry_diagnostic *diagnostic);

#endif
