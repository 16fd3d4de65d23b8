/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real gradients for a simulated round: an original chunk's is a vector of independent normal
 * numbers from (seed, round, chunk), and parts of one add up to it (span_vector.h). Every worker
 * that has a chunk's gradient has the same one, so there is one of each. Sums are those of the
 * reference kernel, the same on every machine.
 */
#ifndef SIM_VECTORS_H
#define SIM_VECTORS_H

#include <tarry/server.h>

#include "plan/plan.h"

typedef struct vectors vectors;

/* N + m / l + 1 vectors of d = server->dimension float32 (of the least number of parts), N more if
 * the round before is kept, one of d double, and a stripe in the form in which parts or sums are
 * sent. plan is borrowed. Errors: NO_MEMORY. */
int vectors_create(const tarry_plan *plan, const tarry_server_settings *server, uint64_t seed,
                   const tarry_allocator *allocator, vectors **out);
void vectors_free(vectors *state); /* NULL is allowed */

/* Draws the round's gradients; truth is the sum of the original chunks', in their sequence. */
void vectors_begin(vectors *state, uint64_t round);
/* The worker's part of the stripe, of those cut for `parts`, with the coefficients of
 * TARRY_EFFECT_ENCODE in `round`; where `stale` (a bit per position; NULL: nowhere) says so, with
 * the gradient of the round before; of another round than the one begun nobody can use it, and it
 * is left out. */
void vectors_encode(vectors *state, uint64_t round, uint32_t worker, uint32_t parts,
                    uint32_t stripe, const float *rows, const uint64_t *stale);
/* The gradient at `slot` of the worker's order is added to its part `weight` times, or begins it: a
 * running sum (one part), of which every stripe stands at once. Of another round it is left out as
 * well. */
void vectors_fold(vectors *state, uint64_t round, uint32_t worker, uint32_t slot, float weight,
                  bool begins);
/* The same as vectors_encode with the coefficients that the worker would find for psi, as in
 * TARRY_MESSAGE_SIGNAL. Errors: NUMERICAL. */
int vectors_encode_for(vectors *state, uint64_t round, uint32_t worker, uint32_t parts,
                       uint32_t stripe, const uint64_t *psi, const uint64_t *stale);
/* With feedback, once what it has for the stripe is encoded: the worker sends that for `attempt`,
 * in the form, with what rounding lost before; nothing in other forms, or of another round. */
void vectors_send(vectors *state, uint64_t round, uint32_t attempt, uint32_t worker,
                  uint32_t stripe);
/* As TARRY_EFFECT_SETTLE has it; the process is no more, and what rounding lost with it. */
void vectors_settle(vectors *state, uint32_t worker, const uint64_t *stood, const uint64_t *voids);
void vectors_forget(vectors *state, uint32_t worker);
/* The estimate's stripe becomes zero; the worker's part of it in `attempt` is added, `scale` times,
 * in the form in which it was sent. */
void vectors_clear(vectors *state, uint32_t parts, uint32_t stripe);
void vectors_combine(vectors *state, uint32_t attempt, uint32_t worker, uint32_t parts,
                     uint32_t stripe, double scale);

/* Once all parts are in the estimate's stripe: among workers it becomes what who has summed it
 * sends to all, in the form of sums. */
void vectors_send_sum(vectors *state, uint32_t stripe);

const float *vectors_estimate(const vectors *state);
const double *vectors_truth(const vectors *state);

#endif
