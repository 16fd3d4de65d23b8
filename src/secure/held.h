/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples each worker has held under the plans of a job: what colluders among them may know.
 * A plan alone does not tell: with one after the other, a few workers could be given all chunks.
 */
#ifndef SECURE_HELD_H
#define SECURE_HELD_H

#include <tarry/plan.h>

typedef struct held held;

/* Which samples the original chunks of a plan are. */
typedef struct held_cut {
    uint64_t samples; /* in all */
    uint32_t origins;
    /* Chunk i has the samples begins[i] .. begins[i + 1] - 1, the first one 0 and the last one all
     * before `samples`. NULL: floor(i samples / origins) stands for begins[i]. */
    const uint64_t *begins;
} held_cut;

/* Nothing is held yet. Errors: NO_MEMORY. */
int held_create(held **out);
void held_free(held *self); /* NULL is allowed */

/*
 * Adds the holdings of a plan of these samples. Errors:
 * FORMAT (its spans do not cover all samples exactly once, with a diagnostic), NO_MEMORY; what was
 * held before stays.
 */
int held_add(held *self, const tarry_plan *plan, const held_cut *cut, tarry_diagnostic *diagnostic);

/* Which chunk of a plan that held_add has taken has the fewest samples, and how many these are. */
uint64_t held_smallest(const tarry_plan *plan, const held_cut *cut, uint32_t *chunk);

/* How many samples the largest original chunk has. */
uint64_t held_largest_origin(const held_cut *cut);

/* A lower bound of how many of the samples no `colluders` workers have held, whichever these are
 * (plan/exposure); with few workers, how many these are. Errors: NO_MEMORY. */
int held_left(const held *self, uint64_t samples, uint32_t colluders, uint64_t *left);

/* All of it as text, the caller's by memory_release(NULL, ..), and back: any bytes may come in, of
 * samples below `samples`. Errors: FORMAT, NO_MEMORY. */
int held_write(const held *self, char **text, size_t *size);
int held_read(const char *text, size_t size, uint64_t samples, held **out);

#endif
