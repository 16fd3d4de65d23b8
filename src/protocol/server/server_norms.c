/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The norms of chunks' gradients, as workers report them: what chunks count for in the error, which
 * come first, and which are sampled. A round goes by the norms that are known when it begins, but
 * for the error, which goes by those of the round as they come in.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "protocol/form.h"
#include "protocol/sampling.h"
#include "protocol/server/server_state.h"

static bool samples(const tarry_server *server)
{
    return server->settings.sample_chunks > 0;
}

/* Whether chunks of large norms come first. */
static bool ranks(const tarry_server *server)
{
    return server->settings.importance && server->steering != NULL &&
           (server->settings.stop == TARRY_STOP_DEADLINE ||
            server->settings.stop == TARRY_STOP_ERROR);
}

int server_norms_allocate(tarry_server *server, const tarry_allocator *allocator)
{
    server_norms *its = &server->norms;
    size_t chunks = server->plan->chunks, edges = plan_edges(server->plan);
    bool norms = settings_want_norms(&server->settings);
    if (!norms && !samples(server))
        return TARRY_OK;
    its->values = memory_allocate(allocator, chunks, sizeof(*its->values));
    its->scratch = memory_allocate(allocator, chunks, sizeof(*its->scratch));
    its->order = memory_allocate(allocator, chunks, sizeof(*its->order));
    its->ranked = memory_allocate(allocator, edges, sizeof(*its->ranked));
    its->filled = memory_allocate(allocator, server->plan->workers, sizeof(*its->filled));
    bool good = its->values != NULL && its->scratch != NULL && its->order != NULL &&
                its->ranked != NULL && its->filled != NULL;
    if (norms) {
        its->last = memory_allocate(allocator, chunks, sizeof(*its->last));
        its->from = memory_allocate(allocator, chunks, sizeof(*its->from));
        good = good && its->last != NULL && its->from != NULL;
        for (size_t chunk = 0; good && chunk < chunks; chunk++)
            its->last[chunk] = -1;
    }
    if (samples(server)) {
        its->weights = memory_allocate(allocator, chunks, sizeof(*its->weights));
        its->slot_weights = memory_allocate(allocator, edges, sizeof(*its->slot_weights));
        good = good && its->weights != NULL && its->slot_weights != NULL;
        for (size_t chunk = 0; good && chunk < chunks; chunk++)
            its->weights[chunk] = 1; /* until the first draw */
    }
    return good ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

void server_norms_free(tarry_server *server)
{
    server_norms *its = &server->norms;
    memory_release(&server->allocator, its->slot_weights);
    memory_release(&server->allocator, its->weights);
    memory_release(&server->allocator, its->from);
    memory_release(&server->allocator, its->last);
    memory_release(&server->allocator, its->filled);
    memory_release(&server->allocator, its->ranked);
    memory_release(&server->allocator, its->order);
    memory_release(&server->allocator, its->scratch);
    memory_release(&server->allocator, its->values);
}

/* The mean of the squares that are known, per unit of data; 0: none is, or they are 0. */
static double usual_square(const tarry_server *server)
{
    const server_norms *its = &server->norms;
    double squares = 0, data = 0;
    for (uint32_t chunk = 0; its->last != NULL && chunk < server->plan->chunks; chunk++) {
        double norm = (double)its->last[chunk];
        if (norm < 0)
            continue;
        squares += norm * norm;
        data += (double)plan_weight(server->plan, chunk);
    }
    return data > 0 ? squares / data : 0;
}

/* |g|^2 of the chunk as it is known, else `usual` for each unit of data; with `usual` 0 chunks are
 * equal. */
static double square_of(const tarry_server *server, double usual, uint32_t chunk)
{
    const server_norms *its = &server->norms;
    double norm = usual > 0 ? (double)its->last[chunk] : -1;
    if (norm >= 0)
        return norm * norm;
    return (usual > 0 ? usual : 1) * (double)plan_weight(server->plan, chunk);
}

/* What the chunk counts for in the error: its squared norm, times its squared weight. */
static double value_of(const tarry_server *server, double usual, uint32_t chunk)
{
    double weight = (double)server_weight(server, chunk);
    return weight * weight * square_of(server, usual, chunk);
}

static void set_values(tarry_server *server)
{
    server_norms *its = &server->norms;
    double usual = server->settings.importance ? usual_square(server) : 0;
    its->unknown = 0;
    its->equal = !(usual > 0);
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++) {
        its->unknown += its->last != NULL && its->last[chunk] < 0;
        its->values[chunk] = value_of(server, usual, chunk);
    }
}

static void draw(tarry_server *server)
{
    server_norms *its = &server->norms;
    const tarry_plan *plan = server->plan;
    const tarry_server_settings *settings = &server->settings;
    double wanted = (double)settings->sample_chunks * plan->pieces * plan->chunks / plan->origins;
    bool by_norm = settings->sample_by == TARRY_SAMPLE_NORM;
    double usual = by_norm ? usual_square(server) : 0, variance = 0, all = 0;
    sampling_chances(by_norm ? its->last : NULL, plan->chunks, wanted, its->scratch);
    its->sampled = 0;
    for (uint32_t chunk = 0; chunk < plan->chunks; chunk++) {
        double chance = its->scratch[chunk], square = square_of(server, usual, chunk);
        bool drawn = sampling_draws(settings->sample_seed, server->round, chunk, chance);
        its->weights[chunk] = drawn ? (float)(1 / chance) : 0;
        its->sampled += drawn;
        variance += (1 / chance - 1) * square;
        all += square;
    }
    server->result.sampling_error = variance / all;
    for (uint32_t edge = 0; edge < plan_edges(plan); edge++)
        its->slot_weights[edge] = its->weights[plan->slot_chunk[edge]];
}

/* Each worker's positions, those of the largest values first. */
static void rank(tarry_server *server)
{
    server_norms *its = &server->norms;
    const tarry_plan *plan = server->plan;
    memset(its->filled, 0, plan->workers * sizeof(*its->filled));
    steering_sort(its->values, its->order, plan->chunks);
    for (uint32_t i = 0; i < plan->chunks; i++) {
        uint32_t chunk = its->order[i];
        for (uint32_t holder = plan->chunk_offset[chunk]; holder < plan->chunk_offset[chunk + 1];
             holder++) {
            uint32_t worker = plan->holder_worker[holder];
            its->ranked[plan->worker_offset[worker] + its->filled[worker]++] =
                plan->holder_position[holder];
        }
    }
}

void server_norms_start(tarry_server *server)
{
    server_norms *its = &server->norms;
    server->result.chunks_sampled = server->plan->chunks;
    if (its->values == NULL)
        return;
    if (samples(server)) {
        draw(server);
        server->result.chunks_sampled = its->sampled;
    }
    for (uint32_t chunk = 0; its->from != NULL && chunk < server->plan->chunks; chunk++)
        its->from[chunk] = TARRY_NO_WORKER;
    set_values(server);
    its->ranks = ranks(server) && usual_square(server) > 0;
    if (its->ranks)
        rank(server);
    server->credited->values = server->supposed->values = its->values;
    for (uint32_t chunk = 0; samples(server) && chunk < server->plan->chunks; chunk++)
        if (!server_takes_part(server, chunk))
            coverage_excuse(server->credited, chunk);
}

uint32_t server_norms_spare(tarry_server *server, uint32_t worker)
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

void server_norms_tell(const tarry_server *server, uint32_t worker, tarry_message *round)
{
    const server_norms *its = &server->norms;
    uint32_t first = server->plan->worker_offset[worker];
    round->weights = its->slot_weights != NULL ? its->slot_weights + first : NULL;
    round->ranked = server_ranked(server, worker);
}

void server_norms_take(tarry_server *server, uint32_t worker, const tarry_message *report)
{
    server_norms *its = &server->norms;
    uint32_t chunk = server->plan->slot_chunk[server->plan->worker_offset[worker] + report->slot];
    bool good = report->normed && report->norm >= 0 && report->norm <= FLT_MAX;
    /* Of several the one of the first worker, whoever came first: a run can be repeated. */
    if (its->last == NULL || !good || worker > its->from[chunk])
        return;
    its->from[chunk] = worker;
    its->last[chunk] = report->norm;
    if (server->settings.importance && (its->unknown > 0 || its->equal || report->norm == 0))
        set_values(server);
    else if (server->settings.importance)
        its->values[chunk] = value_of(server, 1, chunk);
}

float tarry_server_norm(const tarry_server *server, uint32_t chunk)
{
    return server->norms.last != NULL ? server->norms.last[chunk] : -1;
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
