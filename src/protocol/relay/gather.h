/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coded parts that a relay adds up on their way: which of a group's contributors has sent which
 * stripe, and whose is to be added next. Each stripe is the sum of all contributors', in the order
 * in which the parent named them, whatever the order in which they come. The numbers themselves are
 * elsewhere.
 */
#ifndef PROTOCOL_GATHER_H
#define PROTOCOL_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

#include "protocol/wire/wire_trunk.h"

#define GATHER_NOBODY UINT32_MAX

typedef struct gather gather;

/*
 * A group of `words->count` contributors, each with `words->parts` weights, over `stripes` >= 1
 * stripes; nothing of `words` is kept. Errors: FORMAT (a lane is named twice), NO_MEMORY.
 */
int gather_create(const wire_gather *words, uint32_t stripes, const tarry_allocator *allocator,
                  gather **out);
/* NULL is allowed. */
void gather_free(gather *self);

uint32_t gather_count(const gather *self);
/* The contributor of that lane; GATHER_NOBODY: there is none. */
uint32_t gather_find(const gather *self, uint32_t lane);
uint32_t gather_epoch(const gather *self, uint32_t contributor);
/* The weight of each block of the sum. */
const float *gather_weights(const gather *self, uint32_t contributor);

/* Whether the contributor's stripe is still to come. False, too, if there is no such stripe. */
bool gather_wants(const gather *self, uint32_t contributor, uint32_t stripe);
/* It has come: gather_wants said so. */
void gather_came(gather *self, uint32_t contributor, uint32_t stripe);
/* Whose part of the stripe is to be added next and has come; GATHER_NOBODY: it is to be waited for,
 * or the stripe is complete. */
uint32_t gather_next(const gather *self, uint32_t stripe);
/* Whether nothing was added to the stripe yet. */
bool gather_is_empty(const gather *self, uint32_t stripe);
/* What gather_next said was added. Gives back whether that completes the stripe. */
bool gather_added(gather *self, uint32_t stripe);

#endif
