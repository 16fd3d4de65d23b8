/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/stop_rule.h"

#include <math.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/parse.h"

#define MOST_SECONDS 1e9
#define MOST_WORKERS 1000000

int stop_rule_read(const char *text, tarry_server_settings *server, tarry_diagnostic *diagnostic)
{
    if (strcmp(text, "exact") == 0) {
        server->stop = TARRY_STOP_EXACT;
        return TARRY_OK;
    }
    int error;
    if (strncmp(text, "deadline:", 9) == 0) {
        double seconds;
        error = parse_real(text + 9, 0, MOST_SECONDS, true, &seconds, diagnostic);
        if (error == TARRY_OK) {
            server->stop = TARRY_STOP_DEADLINE;
            server->deadline_ns = (uint64_t)ceil(seconds * 1e9);
        }
    } else if (strncmp(text, "error:", 6) == 0) {
        error = parse_real(text + 6, 0, 1, false, &server->error_limit, diagnostic);
        if (error == TARRY_OK)
            server->stop = TARRY_STOP_ERROR;
    } else if (strncmp(text, "workers:", 8) == 0) {
        uint64_t needed;
        error = parse_whole(text + 8, 1, MOST_WORKERS, &needed, diagnostic);
        if (error == TARRY_OK) {
            server->stop = TARRY_STOP_WORKERS;
            server->workers_needed = (uint32_t)needed;
        }
    } else {
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "'%s' is not one of exact, deadline:SECONDS, error:EPS, workers:K", text);
    }
    return error;
}
