/* SPDX-License-Identifier: Apache-2.0 */
/* What the options of a run come to: its settings on this machine, and its plan. */
#include <math.h>

#include "cli/options/machine_room.h"
#include "cli/options/run_options.h"
#include "cli/text/complain.h"

/* The share of the memory that gradients may take before --keep auto saves it. */
#define GENEROUS_SHARE 0.25

double run_generous_bytes(void)
{
    return GENEROUS_SHARE * machine_room_find("", false).memory_bytes;
}

uint32_t run_ahead_of(double latency_seconds, double chunk_seconds)
{
    const double margin = 1.25; /* for chunks that take less than they should */
    double chunks = ceil(margin * 2 * latency_seconds / chunk_seconds);
    return (uint32_t)fmin(fmax(chunks, TARRY_USUAL_AHEAD), AHEAD_AUTO - 1);
}

tarry_server_settings run_options_server(const run_options *options, const tarry_plan *plan,
                                         uint64_t dimension)
{
    tarry_settings settings = options->settings;
    settings.server.compress_seed = settings.server.sample_seed = settings.plan.seed;
    if (settings.server.compress == TARRY_COMPRESS_POWERSGD)
        settings.server.stripe_length = 0; /* chosen by the runtime */
    uint64_t copies = 0;
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++)
        copies += tarry_plan_load(plan, worker);
    bool ahead_given = settings.server.ahead != AHEAD_AUTO;
    if (!ahead_given)
        settings.server.ahead = TARRY_USUAL_AHEAD;
    tarry_settings_keep(&settings, copies, dimension, run_generous_bytes(), ahead_given);
    return settings.server;
}

uint64_t run_options_units(const run_options *options)
{
    return (uint64_t)options->settings.plan.chunks * options->settings.plan.pieces;
}

const char *run_unit_name(const run_options *options)
{
    return options->settings.plan.pieces > 1 ? "pieces" : "chunks";
}

int run_options_plan(const run_options *options, tarry_plan **plan)
{
    tarry_diagnostic why;
    int error = tarry_plan_create(&options->settings.plan, NULL, plan, &why);
    if (error == TARRY_OK)
        return OPTIONS_PROCEED;
    if (error == TARRY_ERROR_NO_MEMORY)
        return complain(EXIT_FAILED, "%s", why.text);
    return complain(error == TARRY_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED, "plan: %s", why.text);
}

json_t *run_ahead_json(tarry_keep keep, uint32_t ahead)
{
    return keep == TARRY_KEEP_CREDITED ? json_integer(ahead) : json_null();
}
