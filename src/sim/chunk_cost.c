/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/chunk_cost.h"

#include <math.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"
#include "straggler/straggler.h"

struct chunk_cost {
    tarry_allocator allocator;
    double deviation; /* of the logarithm */
    bool lasts;       /* drawn once, not in every round */
    trace *seconds;   /* NULL without a trace */
};

/* The rest of `text` after `prefix`; NULL if it doesn't begin so. */
static const char *after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static int parse(const char *spec, chunk_cost *costs, tarry_diagnostic *diagnostic)
{
    const double most = 1e6;
    const char *number = after(spec, "lognormal:"), *file = after(spec, "trace:");
    if (strcmp(spec, "uniform") == 0)
        return TARRY_OK;
    if (number != NULL) {
        static const char run[] = "/run";
        double deviation;
        size_t length = strlen(number), suffix = sizeof(run) - 1;
        costs->lasts = length >= suffix && strcmp(number + length - suffix, run) == 0;
        length -= costs->lasts ? suffix : 0;
        if (!number_read(number, length, &deviation))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "chunk cost '%.200s': SD '%.*s' is not a number", spec,
                            (int)(length < 200 ? length : 200), number);
        if (deviation < 0 || deviation > most)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "chunk cost '%.200s': SD must be from 0 to %g", spec, most);
        costs->deviation = sqrt(log1p(deviation * deviation));
        return TARRY_OK;
    }
    if (file == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "chunk cost '%.200s' is not one of uniform, lognormal:SD[/run], trace:FILE",
                        spec);
    if (*file == '\0')
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "chunk cost '%s': FILE is missing", spec);
    return trace_read(file, &costs->allocator, &costs->seconds, diagnostic);
}

int chunk_cost_create(const char *spec, const tarry_allocator *allocator, chunk_cost **out,
                      tarry_diagnostic *diagnostic)
{
    chunk_cost *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "chunk costs");
    made->allocator = memory_allocator(allocator);
    int error = parse(spec, made, diagnostic);
    if (error != TARRY_OK) {
        chunk_cost_free(made);
        return error;
    }
    *out = made;
    return TARRY_OK;
}

void chunk_cost_free(chunk_cost *costs)
{
    if (costs == NULL)
        return;
    tarry_allocator allocator = costs->allocator;
    trace_free(costs->seconds, &allocator);
    memory_release(&allocator, costs);
}

bool chunk_cost_uniform(const chunk_cost *costs)
{
    return costs->deviation == 0 && costs->seconds == NULL;
}

/* Those of a trace are its seconds. */
static double draw_one(const chunk_cost *costs, uint64_t seed, uint64_t round, uint32_t chunk)
{
    double deviation = costs->deviation;
    if (costs->seconds != NULL)
        return trace_pair_seconds(costs->seconds, round, chunk);
    if (deviation == 0)
        return 1;
    uint32_t drawn = costs->lasts ? 0 : (uint32_t)round;
    random_stream stream = random_stream_make(seed, RANDOM_CHUNK_COST, drawn, chunk);
    return exp(deviation * (random_normal(&stream) - deviation / 2)); /* of the mean 1 */
}

void chunk_cost_draw(const chunk_cost *costs, uint64_t seed, uint64_t round, uint32_t chunks,
                     uint32_t pieces, double *out)
{
    double sum = 0;
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        double cost = draw_one(costs, seed, round, chunk);
        for (uint32_t piece = 0; piece < pieces; piece++)
            out[(size_t)chunk * pieces + piece] = cost;
        sum += cost;
    }
    for (size_t unit = 0; unit < (size_t)chunks * pieces && costs->seconds != NULL; unit++)
        out[unit] = sum > 0 ? out[unit] * chunks / sum : 1;
}
