/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <assert.h>
#include <math.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "compress/compress.h"
#include "plan/plan.h"

int sim_schedule(tarry_sim *sim, uint64_t time, const sim_event *event, uint32_t *id)
{
    assert(time >= sim->now);
    int error = TARRY_OK;
    if (id != NULL)
        *id = QUEUE_NONE;
    if (time != TARRY_NEVER)
        error = queue_push(&sim->queue, time, event, id);
    if (time == TARRY_NEVER || error != TARRY_OK)
        memory_release(&sim->allocator, event->bits);
    return error;
}

void sim_observe(const tarry_sim *sim, uint32_t node, const tarry_event *event,
                 const tarry_effects *effects)
{
    if (sim->settings.observer != NULL)
        sim->settings.observer(sim->settings.user, sim->now, node, event, effects);
}

/* ---- settings ---- */

void tarry_sim_settings_init_sized(tarry_sim_settings *settings, size_t size)
{
    if (!sized_begin(settings, size, sizeof(*settings)))
        return;
    *settings = (tarry_sim_settings){
        .size = size,
        .chunk_ns = UINT64_C(1000000000),
        .dimension = 1,
        .link = {.bytes_per_second = INFINITY},
        .server_bytes_per_second = INFINITY,
        .upload = TARRY_SIM_UPLOAD_CODED,
        .seed = 1,
    };
    tarry_server_settings_init(&settings->server);
    settings->server.stripe_length = SIZE_MAX;
}

/* Whether nothing of a worker is of use before it has finished all. */
static bool counts_whole(const tarry_plan *plan, const tarry_server_settings *server)
{
    return server->credit == TARRY_CREDIT_WHOLE ||
           (server->stop == TARRY_STOP_EXACT && server->keep == TARRY_KEEP_ALL &&
            plan_edges(plan) == plan->chunks);
}

static bool are_positive(const double *factor, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!(factor[i] > 0 && isfinite(factor[i])))
            return false;
    return true;
}

int settings_check(const tarry_plan *plan, const tarry_sim_settings *settings,
                   tarry_diagnostic *diagnostic)
{
    int error = sized_check(settings->size, sizeof(*settings), "simulator", diagnostic);
    if (error != TARRY_OK)
        return error;
    const char *fault = NULL;
    if (settings->dimension == 0 || settings->dimension > SIZE_MAX / (2 * sizeof(double)))
        fault = "dimension must be at least 1, and vectors must fit into the address space";
    else if (settings->server.stripe_length == 0)
        fault = "stripe_length must be at least 1";
    else if (!(settings->link.bytes_per_second > 0 && settings->link.up_bytes_per_second >= 0 &&
               settings->server_bytes_per_second > 0))
        fault = "bandwidths must be above 0";
    else if (!(settings->link.jitter_spread >= 0 && isfinite(settings->link.jitter_spread)))
        fault = "a jitter's spread must be finite and at least 0";
    else if (settings->link_factor != NULL && !are_positive(settings->link_factor, plan->workers))
        fault = "factors of links must be above 0";
    else if ((unsigned)settings->way > TARRY_SIM_DIRECT)
        fault = "unknown way of a sum";
    else if ((unsigned)settings->upload > TARRY_SIM_UPLOAD_WHOLE)
        fault = "unknown way to upload";
    else if (settings->server.compress != TARRY_COMPRESS_NONE &&
             settings->upload == TARRY_SIM_UPLOAD_EACH)
        fault = "gradients that travel each by itself are float32";
    else if (compress_feeds_back(settings->server.compress) &&
             settings->upload != TARRY_SIM_UPLOAD_CODED)
        fault = "what rounding lost is kept of coded parts alone";
    else if (settings->upload != TARRY_SIM_UPLOAD_CODED && settings->server.sample_chunks > 0)
        fault = "only coded parts are weighted";
    else if (settings->upload == TARRY_SIM_UPLOAD_EACH && plan->parts > 1)
        fault = "gradients that travel each by itself are not cut into parts";
    else if (settings->upload == TARRY_SIM_UPLOAD_EACH && settings->server.keep != TARRY_KEEP_ALL)
        fault = "gradients that travel each by itself are not folded";
    else if (settings->upload == TARRY_SIM_UPLOAD_WHOLE && !counts_whole(plan, &settings->server))
        fault = "workers that upload once they have finished all count whole only, or need a "
                "single copy of each chunk, an exact sum and all gradients kept";
    if (fault != NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "simulator: %s", fault);
    return settings_check_costs(plan, settings->chunk_cost, diagnostic);
}

int settings_check_costs(const tarry_plan *plan, const double *chunk_cost,
                         tarry_diagnostic *diagnostic)
{
    for (uint32_t chunk = 0; chunk_cost != NULL && chunk < plan->origins; chunk++) {
        double cost = chunk_cost[chunk];
        if (!(cost >= 0 && isfinite(cost)))
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                            "simulator: the cost of chunk %u must be finite and at least 0", chunk);
    }
    return TARRY_OK;
}
