/* SPDX-License-Identifier: Apache-2.0 */
/* The form of coded parts as a flag or a scheme's setting says it: none, bf16, int8, int4, sign,
 * topk:F[:FIRST[:LAST]], powersgd:R.
 */
#ifndef CLI_COMPRESS_FORM_H
#define CLI_COMPRESS_FORM_H

#include <tarry/server.h>

/* Sets the form, its share or rank, and how many rounds are dense at first, in *server; *last: so
 * many are at the end, wherever that will be. Errors: FORMAT, NO_MEMORY; both are then untouched.
 */
int compress_form_read(const char *text, tarry_server_settings *server, uint64_t *last,
                       tarry_diagnostic *diagnostic);
/* Sets from which round on they are dense, of a run of so many rounds. */
void compress_form_end(uint64_t rounds, uint64_t last, tarry_server_settings *server);

#endif
