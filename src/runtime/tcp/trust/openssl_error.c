/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/trust/openssl_error.h"

#include <openssl/err.h>
#include <stdbool.h>

#include "base/diagnostic.h"

int diagnose_openssl(tarry_diagnostic *diagnostic, int error, const char *what)
{
    unsigned long first = ERR_peek_error();
    const char *reason = ERR_reason_error_string(first);
    bool no_memory = ERR_GET_REASON(first) == ERR_R_MALLOC_FAILURE;
    ERR_clear_error();
    if (no_memory)
        return diagnose_no_memory(diagnostic, what);
    return diagnose(diagnostic, error, "%s: %s", what, reason != NULL ? reason : "unknown reason");
}
