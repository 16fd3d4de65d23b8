/* SPDX-License-Identifier: Apache-2.0 */
/* Which chunks a round samples, and what chunks count for by that. */
#include <math.h>

#include "base/random.h"
#include "worlds/model/model.h"

static void weigh_all(server_model *it)
{
    it->all = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        it->weight[chunk] = model_in(it, chunk) ? it->data[chunk] : 0;
        it->all += it->weight[chunk];
    }
}

void model_sample_init(server_model *it)
{
    it->sampled = bit(it->chunks) - 1;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        it->times[chunk] = 1;
    weigh_all(it);
}

static void draw(server_model *it)
{
    double chance = (double)it->settings.sample_chunks / it->chunks;
    it->sampled = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        random_stream stream =
            random_stream_make(it->settings.sample_seed ^ (it->round >> 32 << 32), RANDOM_SAMPLE,
                               (uint32_t)it->round, chunk);
        bool drawn = random_uniform(&stream) < chance;
        it->times[chunk] = drawn ? (double)(float)(1 / chance) : 0; /* as it travels */
        it->sampled |= drawn ? bit(chunk) : 0;
    }
}

void model_sample_start(server_model *it)
{
    if (it->settings.sample_chunks > 0)
        draw(it);
    weigh_all(it);
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->holds[worker] = it->held[worker] & it->sampled;
    it->result.chunks_sampled = set_size(it->sampled);
}

double model_scale(const server_model *it)
{
    double found = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        found += it->weight[chunk] * it->rank[it->psi[chunk]];
    bool scaled = it->settings.fill == TARRY_FILL_SCALE && found > 0;
    return scaled ? it->all * it->parts / found : 1;
}
