/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a round's chunks tell of the loss while their gradients are worked out: a tally for each
 * chunk of the plan, whichever worker was the first to be done with it.
 */
#ifndef CLI_ROUND_TALLY_H
#define CLI_ROUND_TALLY_H

#include <tarry/plan.h>

#include "learn/objective.h"

typedef struct round_tally round_tally;

/* For the chunks of `plan`, borrowed for the call. Errors: NO_MEMORY. */
int round_tally_create(const tarry_plan *plan, round_tally **out);
void round_tally_free(round_tally *tallies); /* NULL is allowed */
/* Between rounds: the chunks of the rounds to come. What a late worker notes of chunks that are
 * none any more is dropped. Errors: NO_MEMORY; the old plan's chunks stay then. */
int round_tally_replan(round_tally *tallies, const tarry_plan *plan);

/* A chunk of `round` was worked out, whose first span is `first`. Any thread. */
void round_tally_note(round_tally *tallies, uint64_t round, tarry_span first,
                      const objective_tally *tally);

/* Adds chunk `chunk` to the tally. */
typedef void round_tally_fill(void *user, uint32_t chunk, objective_tally *tally);
/* *tally += the tallies of all chunks in the order of their samples, as they were noted of `round`;
 * `fill` works out those that were not. */
void round_tally_sum(round_tally *tallies, uint64_t round, round_tally_fill *fill, void *user,
                     objective_tally *tally);

#endif
