/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/coverage_text.h"

#include <stdio.h>

#include "base/diagnostic.h"
#include "plan/plan.h"

enum { NAMED_CHUNKS = 8 };

/* "2, 5, 7 and 12 more" */
static void list_hopeless(const tarry_server *server, uint32_t chunks, char *text, size_t size)
{
    uint32_t named = 0, more = 0;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t chunk = tarry_server_next_hopeless(server, 0); chunk < chunks;
         chunk = tarry_server_next_hopeless(server, chunk + 1)) {
        if (named == NAMED_CHUNKS) {
            more++;
            continue;
        }
        used += (size_t)snprintf(text + used, size - used, named > 0 ? ", %u" : "%u", chunk);
        named++;
    }
    if (more > 0)
        snprintf(text + used, size - used, " and %u more", more);
}

/* The library names no flags of the tool; which stop rules would do is the caller's to say. */
int coverage_describe(const tarry_server *server, const tarry_plan *plan,
                      const tarry_server_settings *settings, const tarry_round_result *result,
                      tarry_diagnostic *diagnostic)
{
    unsigned long long round = result->round;
    if (settings->stop == TARRY_STOP_WORKERS)
        return diagnose(diagnostic, TARRY_ERROR_COVERAGE,
                        "round %llu: fewer than %u of %u workers can still finish all their chunks "
                        "(%u are lost)",
                        round, settings->workers_needed, plan->workers, result->workers_lost);
    char chunks[128];
    list_hopeless(server, plan->chunks, chunks, sizeof(chunks));
    if (result->workers_lost == plan->workers)
        return diagnose(diagnostic, TARRY_ERROR_COVERAGE, "round %llu: all %u workers are lost",
                        round, plan->workers);
    if (plan_least_parts(plan) == 1)
        return diagnose(diagnostic, TARRY_ERROR_COVERAGE,
                        "round %llu: no worker that is left can give chunks %s (%u of %u workers "
                        "are lost)",
                        round, chunks, result->workers_lost, plan->workers);
    return diagnose(diagnostic, TARRY_ERROR_COVERAGE,
                    "round %llu: the workers that are left can't give chunks %s often enough for "
                    "%u parts (%u of %u workers are lost)",
                    round, chunks, plan->parts, result->workers_lost, plan->workers);
}
