/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROTOCOL_WORKER_H
#define PROTOCOL_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

/*
 * What becomes of the residuals of a worker's stripes (compress/view.h), from what the server
 * says of the parts that they belong to. A stripe's part is *out* from when it was encoded until
 * its fate is known: it stands in the round's sum, and what it left is the residual (commit); or it
 * does not, and the residual is what it was (roll back). Where that will never be known, or what it
 * belongs to is undone, the residual is void: it is zero from then on, so that nothing can be in
 * two sums.
 */

/* Of a stripe. */
typedef struct fate {
    bool out;
    uint32_t epoch; /* in which the part that is out was encoded, */
    uint64_t round; /* and the round that it is of */
    uint32_t since; /* the epoch of the part that was committed last; 0: the residual is zero */
} fate;

/* All zero: of no stripe. */
typedef struct fates {
    uint32_t stripes;
    fate *of;
    uint64_t *stood, *voids; /* by the last call: a bit per stripe */
    uint64_t void_count;     /* ever */
} fates;

/* Errors: NO_MEMORY; nothing is left to free then. */
int fates_init(fates *self, uint32_t stripes, const tarry_allocator *allocator);
void fates_destroy(fates *self, const tarry_allocator *allocator);

/* A stripe is encoded, for the epoch and round; one of it that was out is rolled back. */
void fates_encode(fates *self, uint32_t stripe, uint64_t round, uint32_t epoch);
/*
 * The round is over; `epochs`: of each stripe's part that stands in its sum the epoch in which it
 * was sent, 0 where none does; NULL: the server does not say. Gives back whether something is
 * committed or void: the sets say what.
 */
bool fates_finish(fates *self, uint64_t round, const uint32_t *epochs);
/*
 * The round begins, perhaps anew: what is out of it stays so. `epochs`: of the round before it, as
 * above. Void is what was out of an earlier round, of which nothing is said; and all that was sent
 * before the epoch `life`, to a server that is no more: it may have been undone with it.
 */
bool fates_begin(fates *self, uint64_t round, uint32_t life, const uint32_t *epochs);

#endif
