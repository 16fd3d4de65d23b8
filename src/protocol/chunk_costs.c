/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol/chunk_costs.h"

#include <math.h>

#include "base/memory.h"

/* A mean stands for at most so many samples, so that costs may change; one sample is at most so
 * many times the mean; squares of so many rounds count. */
#define MOST_WEIGHT 8.0
#define MOST_RATIO 32.0
#define ROUNDS_KEPT 8.0
#define LEAST_COST 0.05

int chunk_costs_create(chunk_costs *costs, uint32_t chunks, const tarry_allocator *allocator)
{
    *costs = (chunk_costs){.chunks = chunks};
    costs->samples = memory_allocate(allocator, chunks, sizeof(*costs->samples));
    return costs->samples != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

void chunk_costs_destroy(chunk_costs *costs, const tarry_allocator *allocator)
{
    memory_release(allocator, costs->samples);
}

void chunk_costs_add(chunk_costs *costs, uint32_t chunk, double ratio)
{
    chunk_sample *of = &costs->samples[chunk];
    ratio = fmin(ratio, MOST_RATIO);
    double difference = ratio - of->mean;
    if (of->weight > 0) {
        /* A difference from the mean of n samples has the variance s^2 (1 + 1/n). */
        costs->squares += difference * difference * of->weight / (of->weight + 1);
        costs->differences += 1;
    }
    of->weight = fmin(of->weight + 1, MOST_WEIGHT);
    of->mean += difference / of->weight;
}

void chunk_costs_settle(chunk_costs *costs, double *out)
{
    double count = 0, sum = 0, square = 0, inverse = 0;
    for (uint32_t chunk = 0; chunk < costs->chunks; chunk++) {
        const chunk_sample *of = &costs->samples[chunk];
        out[chunk] = 1;
        if (!(of->weight > 0))
            continue;
        count++;
        sum += of->mean;
        square += of->mean * of->mean;
        inverse += 1 / of->weight;
    }
    /* Without any chunk seen twice nothing is known of the noise. */
    if (!(costs->differences >= 1) || !(sum > 0))
        return;
    double mean = sum / count, within = costs->squares / costs->differences;
    double between = fmax(square / count - mean * mean - within * inverse / count, 0);
    double total = 0;
    for (uint32_t chunk = 0; chunk < costs->chunks; chunk++) {
        const chunk_sample *of = &costs->samples[chunk];
        if (of->weight > 0 && between > 0) {
            double trust = between / (between + within / of->weight);
            out[chunk] = fmax(1 + trust * (of->mean / mean - 1), LEAST_COST);
        }
        total += out[chunk];
    }
    for (uint32_t chunk = 0; chunk < costs->chunks; chunk++)
        out[chunk] *= costs->chunks / total;
    costs->squares *= 1 - 1 / ROUNDS_KEPT;
    costs->differences *= 1 - 1 / ROUNDS_KEPT;
}

int chunk_costs_carry(chunk_costs *costs, const tarry_plan *plan, const chunk_costs *from,
                      const tarry_plan *before, const tarry_allocator *allocator)
{
    double *known = memory_allocate(allocator, from->chunks, sizeof(*known));
    double *mean = memory_allocate(allocator, costs->chunks, sizeof(*mean));
    double *weight = memory_allocate(allocator, costs->chunks, sizeof(*weight));
    int error = TARRY_ERROR_NO_MEMORY;
    if (known == NULL || mean == NULL || weight == NULL)
        goto release;
    for (uint32_t chunk = 0; chunk < from->chunks; chunk++)
        known[chunk] = from->samples[chunk].weight > 0 ? from->samples[chunk].mean : 1;
    error = tarry_plan_carry_cost(before, known, plan, allocator, mean);
    for (uint32_t chunk = 0; chunk < from->chunks; chunk++)
        known[chunk] = from->samples[chunk].weight;
    if (error == TARRY_OK)
        error = tarry_plan_carry_cost(before, known, plan, allocator, weight);
    if (error != TARRY_OK)
        goto release;
    /* The mean chunk, in which costs are told, is another one now. */
    double grown = (double)costs->chunks / from->chunks;
    for (uint32_t chunk = 0; chunk < costs->chunks; chunk++)
        costs->samples[chunk] =
            (chunk_sample){.mean = mean[chunk] * grown, .weight = fmin(weight[chunk], MOST_WEIGHT)};
    costs->squares = from->squares * grown * grown;
    costs->differences = from->differences;

release:
    memory_release(allocator, weight);
    memory_release(allocator, mean);
    memory_release(allocator, known);
    return error;
}
