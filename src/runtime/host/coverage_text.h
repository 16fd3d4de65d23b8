/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_COVERAGE_TEXT_H
#define HOST_COVERAGE_TEXT_H

#include <tarry/server.h>

/* Says why a round of `server` ended with TARRY_ERROR_COVERAGE, and which chunks are missing; gives
 * back that error. diagnostic: NULL is allowed. */
int coverage_describe(const tarry_server *server, const tarry_plan *plan,
                      const tarry_server_settings *settings, const tarry_round_result *result,
                      tarry_diagnostic *diagnostic);

/* The same of a round that ended with `error`, DIFFER or LINKS, and which workers are to blame as
 * far as the server knows. */
int voters_describe(const tarry_server *server, const tarry_plan *plan,
                    const tarry_round_result *result, int error, tarry_diagnostic *diagnostic);

#endif
