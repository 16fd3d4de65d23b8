/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/run_report.h"

#include "base/hex.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"

void plan_digest_text(const tarry_plan *plan, char text[2 * TARRY_DIGEST_SIZE + 1])
{
    uint8_t digest[TARRY_DIGEST_SIZE];
    tarry_plan_digest(plan, digest);
    hex_put(text, digest, TARRY_DIGEST_SIZE);
}

static json_t *loads_json(const tarry_plan *plan)
{
    json_t *loads = json_array();
    for (uint32_t worker = 0; loads != NULL && worker < tarry_plan_workers(plan); worker++)
        loads = json_append(loads, json_integer(tarry_plan_load(plan, worker)));
    return loads;
}

/* One rack per worker and how copies are spread over them; null if none are known. */
static json_t *racks_json(const tarry_plan *plan)
{
    if (tarry_plan_racks(plan) == 0)
        return json_null();
    json_t *list = json_array();
    for (uint32_t worker = 0; list != NULL && worker < tarry_plan_workers(plan); worker++)
        list = json_append(list, json_integer(tarry_plan_rack(plan, worker)));
    tarry_rack_spread spread = tarry_plan_rack_spread(plan);
    return json_pack("{s:I, s:o, s:I, s:I, s:b}", "count", (json_int_t)tarry_plan_racks(plan),
                     "rack", list, "copies_together", (json_int_t)spread.most_together,
                     "copies_left", (json_int_t)spread.left, "any_may_die",
                     spread.left >= tarry_plan_least_parts(plan));
}

static json_t *conditioning_json(const tarry_plan *plan)
{
    tarry_conditioning conditioning = tarry_plan_conditioning(plan);
    return json_pack("{s:o, s:o, s:I, s:b}", "worst", number_json(conditioning.worst), "median",
                     number_json(conditioning.median), "subsets", (json_int_t)conditioning.subsets,
                     "complete", conditioning.complete);
}

json_t *run_plan_json(const run_options *options, const tarry_plan *plan)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
        uint32_t replication = tarry_plan_replication(plan, chunk);
        least = replication < least ? replication : least;
        most = replication > most ? replication : most;
    }
    char digest[2 * TARRY_DIGEST_SIZE + 1];
    plan_digest_text(plan, digest);
    uint32_t parts = tarry_plan_parts(plan);
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:o, s:I, s:I, s:o, s:s, s:I, s:o, s:s, s:o}",
        "workers", (json_int_t)tarry_plan_workers(plan), "chunks",
        (json_int_t)tarry_plan_chunks(plan), "pieces", (json_int_t)tarry_plan_pieces(plan), "parts",
        (json_int_t)parts, "adaptive_parts", tarry_plan_least_parts(plan) < parts, "replication",
        (json_int_t)least, "replication_most", (json_int_t)most, "loads", loads_json(plan), "q",
        (json_int_t)tarry_plan_q(plan, parts), "q_bound",
        (json_int_t)tarry_plan_q_bound(plan, parts), "conditioning", conditioning_json(plan),
        "digest", digest, "seed", (json_int_t)options->settings.plan.seed, "design",
        json_text(options->design), "order", options->order, "racks", racks_json(plan));
}

json_t *run_memory_json(const tarry_plan *plan, const tarry_server_settings *server,
                        uint64_t dimension)
{
    tarry_memory memory = tarry_memory_of(plan, server, dimension);
    return json_pack("{s:s, s:o, s:I, s:I, s:I}", "keep", run_keep_name(server->keep), "ahead",
                     run_ahead_json(server->keep, server->ahead), "memory_bytes",
                     (json_int_t)memory.most, "memory_bytes_total", (json_int_t)memory.total,
                     "memory_bytes_server", (json_int_t)memory.server);
}
