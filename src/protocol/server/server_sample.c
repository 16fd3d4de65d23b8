/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunks that a round samples. Those that it does not sample count as finished by all workers
 * that hold them, and for nothing in the error.
 */
#include "base/memory.h"
#include "protocol/sampling.h"
#include "protocol/server/server_state.h"

static bool samples(const tarry_server *server)
{
    return server->settings.sample_chunks > 0;
}

int server_sample_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    server_sample *its = &server->sample;
    size_t chunks = server->plan->chunks;
    if (!samples(server))
        return TARRY_OK;
    its->weights = memory_allocate(allocator, chunks, sizeof(*its->weights));
    its->slot_weights =
        memory_allocate(allocator, plan_edges(server->plan), sizeof(*its->slot_weights));
    if (its->weights == NULL || its->slot_weights == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (size_t chunk = 0; chunk < chunks; chunk++)
        its->weights[chunk] = 1; /* until the first draw */
    return TARRY_OK;
}

void server_sample_free(tarry_server *server)
{
    memory_release(&server->allocator, server->sample.slot_weights);
    memory_release(&server->allocator, server->sample.weights);
}

void server_sample_start(tarry_server *server)
{
    server_sample *its = &server->sample;
    const tarry_plan *plan = server->plan;
    const tarry_server_settings *settings = &server->settings;
    server->result.chunks_sampled = plan->chunks;
    if (!samples(server))
        return;
    double wanted = (double)settings->sample_chunks * plan->pieces * plan->chunks / plan->origins;
    double chance = wanted / plan->chunks;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        bool drawn = sampling_draws(settings->sample_seed, server->round, chunk, chance);
        its->weights[chunk] = drawn ? (float)(1 / chance) : 0;
        if (drawn)
            continue;
        server->result.chunks_sampled--;
        coverage_excuse(server->credited, chunk);
    }
    server->result.sampling_error = 1 / chance - 1;
    for (uint32_t edge = 0; edge < plan_edges(plan); edge++)
        its->slot_weights[edge] = its->weights[plan->slot_chunk[edge]];
}

uint32_t server_sample_spare(tarry_server *server, uint32_t worker)
{
    const tarry_plan *plan = server->plan;
    uint32_t spared = 0;
    for (uint32_t edge = plan->worker_offset[worker];
         samples(server) && edge < plan->worker_offset[worker + 1]; edge++) {
        if (server_takes_part(server, plan->slot_chunk[edge]))
            continue;
        bitset_set(server->done, edge);
        spared++;
    }
    return spared;
}

const float *server_sample_weights(const tarry_server *server, uint32_t worker)
{
    return samples(server) ? server->sample.slot_weights + server->plan->worker_offset[worker]
                           : NULL;
}

float tarry_server_weight(const tarry_server *server, uint32_t chunk)
{
    return server_weight(server, chunk);
}

double tarry_server_recovered(const tarry_server *server, uint32_t chunk)
{
    uint32_t parts = server->cut.parts;
    return server_takes_part(server, chunk)
               ? (double)coverage_rank(server->credited, parts, chunk) / parts
               : 0;
}
