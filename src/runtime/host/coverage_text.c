/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/coverage_text.h"

#include <stdio.h>

#include "base/diagnostic.h"
#include "plan/plan.h"

enum { MOST_NAMED = 8, LIST_BYTES = 128 };

/* "2, 5, 7 and 12 more" */
typedef struct list {
    char text[LIST_BYTES];
    size_t used;
    uint32_t named, more;
} list;

static void add(list *to, uint32_t number)
{
    if (to->named == MOST_NAMED) {
        to->more++;
        return;
    }
    to->used += (size_t)snprintf(to->text + to->used, LIST_BYTES - to->used,
                                 to->named > 0 ? ", %u" : "%u", number);
    to->named++;
}

static const char *finish(list *it)
{
    if (it->more > 0)
        snprintf(it->text + it->used, LIST_BYTES - it->used, " and %u more", it->more);
    return it->text;
}

int voters_describe(const tarry_server *server, const tarry_plan *plan,
                    const tarry_round_result *result, int error, tarry_diagnostic *diagnostic)
{
    list workers = {.used = 0};
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        if (tarry_server_at_fault(server, worker))
            add(&workers, worker);
    unsigned long long round = result->round;
    if (workers.named == 0)
        return diagnose(diagnostic, error, "round %llu: %s", round, tarry_error_text(error));
    return diagnose(diagnostic, error, "round %llu: %s; to blame may be: worker %s", round,
                    tarry_error_text(error), finish(&workers));
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
    list missing = {.used = 0};
    for (uint32_t chunk = tarry_server_next_hopeless(server, 0); chunk < plan->chunks;
         chunk = tarry_server_next_hopeless(server, chunk + 1))
        add(&missing, chunk);
    const char *chunks = finish(&missing);
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
