/* SPDX-License-Identifier: Apache-2.0 */
/* The form of coded parts as a flag or a scheme's setting says it: none, bf16, int8, int4, sign,
 * topk:F.
 */
#ifndef CLI_COMPRESS_FORM_H
#define CLI_COMPRESS_FORM_H

#include <tarry/server.h>

/* Sets the form, and its share, in *server. Errors: FORMAT, NO_MEMORY; *server is then untouched.
 */
int compress_form_read(const char *text, tarry_server_settings *server,
                       tarry_diagnostic *diagnostic);

#endif
