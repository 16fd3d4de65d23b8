/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of chunks' norms, what chunks count for by them, and which are sampled. */
#include <math.h>

#include "base/random.h"
#include "sim/faults/model/model.h"

bool model_wants_norms(const server_model *it)
{
    return it->settings.importance ||
           (it->settings.sample_chunks > 0 && it->settings.sample_by == TARRY_SAMPLE_NORM);
}

/* What is known of the chunk's square, if the mean of those known, per datum, is `usual`. */
static double square(const server_model *it, double usual, uint32_t chunk)
{
    if (!(usual > 0))
        return it->data[chunk];
    return it->norm[chunk] < 0 ? usual * it->data[chunk] : it->norm[chunk] * it->norm[chunk];
}

static double mean_square(const server_model *it)
{
    double squares = 0, data = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        if (it->norm[chunk] < 0)
            continue;
        squares += it->norm[chunk] * it->norm[chunk];
        data += it->data[chunk];
    }
    return data > 0 ? squares / data : 0;
}

static void weigh_all(server_model *it)
{
    double usual = it->settings.importance ? mean_square(it) : 0;
    it->all = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        it->weight[chunk] = it->times[chunk] * it->times[chunk] * square(it, usual, chunk);
        it->all += it->weight[chunk];
    }
}

void model_norms_init(server_model *it)
{
    it->sampled = bit(it->chunks) - 1;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        it->norm[chunk] = -1;
        it->times[chunk] = 1;
    }
    weigh_all(it);
}

void model_norms_restore(server_model *it, const double norm[MAX_CHUNKS])
{
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        it->norm[chunk] = norm[chunk];
    weigh_all(it);
}

/* What sizes give for the multiple `times`: chances, and their sum. */
static double chances(const server_model *it, const double *size, double times, double *chance)
{
    double sum = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        chance[chunk] = fmin(times * size[chunk], 1);
        sum += chance[chunk];
    }
    return sum;
}

static void draw(server_model *it)
{
    enum { HALVINGS = 200 };
    double mean = 0, known = 0, size[MAX_CHUNKS], chance[MAX_CHUNKS];
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        known += it->norm[chunk] >= 0;
        mean += fmax(it->norm[chunk], 0);
    }
    bool by_norm = it->settings.sample_by == TARRY_SAMPLE_NORM && mean > 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        size[chunk] =
            by_norm && it->norm[chunk] >= 0 ? fmax(it->norm[chunk] * known / mean, 0.1) : 1;
    double wanted = (double)it->settings.sample_chunks, low = 0, high = 1000;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        *(chances(it, size, middle, chance) < wanted ? &low : &high) = middle;
    }
    chances(it, size, high, chance);
    it->sampled = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        random_stream stream =
            random_stream_make(it->settings.sample_seed ^ (it->round >> 32 << 32), RANDOM_SAMPLE,
                               (uint32_t)it->round, chunk);
        bool drawn = random_uniform(&stream) < chance[chunk];
        it->times[chunk] = drawn ? (double)(float)(1 / chance[chunk]) : 0; /* as it travels */
        it->sampled |= drawn ? bit(chunk) : 0;
    }
}

void model_norms_start(server_model *it)
{
    if (it->settings.sample_chunks > 0)
        draw(it);
    weigh_all(it);
    it->ranks =
        it->settings.importance && it->settings.pick != TARRY_PICK_PLAN &&
        (it->settings.stop == TARRY_STOP_DEADLINE || it->settings.stop == TARRY_STOP_ERROR) &&
        mean_square(it) > 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++) {
        it->size[chunk] = it->weight[chunk];
        it->norm_from[chunk] = UINT32_MAX;
    }
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->holds[worker] = it->held[worker] & it->sampled;
    it->result.chunks_sampled = set_size(it->sampled);
}

void model_norms_take(server_model *it, uint32_t worker, uint32_t chunk,
                      const tarry_message *report)
{
    if (!model_wants_norms(it) || !report->normed || worker > it->norm_from[chunk])
        return;
    it->norm[chunk] = (double)report->norm;
    it->norm_from[chunk] = worker;
    weigh_all(it);
}

double model_scale(const server_model *it)
{
    return it->scale;
}

/* By this attempt's limit. */
static double scale_of(const server_model *it)
{
    const uint8_t *rank = it->raised ? it->raised_rank[it->parts] : it->rank[it->parts];
    double found = 0;
    for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
        found += it->weight[chunk] * rank[it->psi[chunk]];
    bool scaled = it->settings.fill == TARRY_FILL_SCALE && found > 0;
    return scaled ? it->all * it->parts / found : 1;
}

void model_norms_attempt(server_model *it)
{
    it->scale = scale_of(it);
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++) {
        if (it->complete & bit(stripe))
            continue;
        for (uint32_t chunk = 0; chunk < it->chunks; chunk++)
            it->valued[stripe][chunk] = it->weight[chunk];
        it->valued_all[stripe] = it->all;
    }
}
