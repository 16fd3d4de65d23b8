/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What chunks cost, relative to each other, learned from how long they took.
 *
 * Each finished copy gives one sample: its time over what its worker was expected to take for a
 * chunk of mean cost. A sample is the chunk's cost times noise: how fast the worker was just then.
 * How much of what chunks seem to differ is noise shows in how much samples of the same chunk
 * differ, and the costs are shrunk towards their mean accordingly (James and Stein, 1961, in its
 * empirical Bayes form): chunks whose costs are new in every round are left alike.
 */
#ifndef PROTOCOL_CHUNK_COSTS_H
#define PROTOCOL_CHUNK_COSTS_H

#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/plan.h>

typedef struct chunk_sample {
    double mean;   /* of the samples, the recent ones more than others */
    double weight; /* how many samples it stands for; 0: none yet */
} chunk_sample;

typedef struct chunk_costs {
    uint32_t chunks;
    chunk_sample *samples;
    double squares,
        differences; /* of samples from what was expected of their chunk, and how many */
} chunk_costs;

/* Nothing is known. Errors: NO_MEMORY. */
int chunk_costs_create(chunk_costs *costs, uint32_t chunks, const tarry_allocator *allocator);
void chunk_costs_destroy(chunk_costs *costs, const tarry_allocator *allocator);

/* A copy of `chunk` took `ratio` (>= 0) times as long as one of mean cost should have. */
void chunk_costs_add(chunk_costs *costs, uint32_t chunk, double ratio);
/* Writes the best guess at each chunk's cost to out[0..chunks-1], 1 on average and positive, and
 * lets what is old count less. Between rounds. */
void chunk_costs_settle(chunk_costs *costs, double *out);

/* Costs of which nothing is known yet, of the chunks of `plan`, go on from what `from` knows of
 * those of `before`: parts share what is known of their chunk. Errors: NO_MEMORY; nothing changes
 * then. */
int chunk_costs_carry(chunk_costs *costs, const tarry_plan *plan, const chunk_costs *from,
                      const tarry_plan *before, const tarry_allocator *allocator);

#endif
