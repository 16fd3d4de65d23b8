/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How uneven whole chunks are: their relative costs, 1 on average.
 *
 *   uniform         all 1
 *   lognormal:SD    lognormal of mean 1 and standard deviation SD, anew in every round
 *   lognormal:SD/run  the same, drawn once: those of round 0 in every round
 *   trace:FILE      the seconds that the trace has for the round's step, over their mean; the
 *                   (worker, chunk) pairs of the step, in this order, are the chunks
 */
#ifndef SIM_CHUNK_COST_H
#define SIM_CHUNK_COST_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

typedef struct chunk_cost chunk_cost;

/* Reads a SPEC; the caller owns *out. Errors: FORMAT (the SPEC or a trace's line), FILE, NO_MEMORY.
 */
int chunk_cost_create(const char *spec, const tarry_allocator *allocator, chunk_cost **out,
                      tarry_diagnostic *diagnostic);
void chunk_cost_free(chunk_cost *costs); /* NULL is allowed */

/* Whether every cost is 1 in all rounds, so that none need be drawn. */
bool chunk_cost_uniform(const chunk_cost *costs);

/*
 * The costs of `chunks` chunks of `pieces` (>= 1) pieces in `round`, each finite and >= 0: out[i]
 * is that of piece i, which has its chunk's (its seconds are 1/P of the chunk's). Pure: the same
 * arguments, the same costs; those of a chunk depend on no number of pieces. Those of a trace have
 * the mean 1 to the last bits, but for one whose step took no time at all: then all are 1.
 */
void chunk_cost_draw(const chunk_cost *costs, uint64_t seed, uint64_t round, uint32_t chunks,
                     uint32_t pieces, double *out);

#endif
