/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Straggler injection: how much longer workers take, drawn from a seed, so that every scheme meets
 * the same delays.
 *
 * A SPEC is a list of terms joined by '+':
 *   none                     nothing
 *   exp:MEAN                 adds MEAN * Exp(1) seconds
 *   shifted-exp:SHIFT,MEAN   adds SHIFT + MEAN * Exp(1) seconds
 *   pareto:SCALE,SHAPE       adds a Pareto draw: SCALE * U^(-1/SHAPE) seconds
 *   weibull:SCALE,SHAPE      adds a Weibull draw: SCALE * Exp(1)^(1/SHAPE) seconds
 *   slow:K,FACTOR            K workers take FACTOR (>= 1) times as long
 *   slow:K,LOW-HIGH          the same, each with a factor of its own, drawn uniformly from LOW
 *                            (>= 1) to HIGH
 *   markov:P_SLOW,P_RECOVER,FACTOR
 *                            a worker that is fast becomes slow with probability P_SLOW from one
 *                            round to the next, and fast again with P_RECOVER; slow ones take
 *                            FACTOR (>= 1) times as long
 *   rack:K,FACTOR[,P]        racks of K workers (0..K-1, K..2K-1, ...): in each round each rack is
 *                            slow with probability P (0.05), all of it; FACTOR 'inf': it dies, all
 *                            of it at the same share of its work
 *   dead:K                   K workers never answer
 *   fail:RATE                a worker dies in a round with probability RATE
 *   rejoin:SECONDS           those that died by 'fail' or 'rack' join again so long after
 *   jitter:SD                multiplies by max(0, 1 + SD * N(0,1))
 *   trace:FILE               adds the trace's seconds of (round, worker, position), see below
 *   trace:FILE/chunk         adds the trace's seconds of (round, chunk), see below
 *
 * Draws are made anew in every round, once per worker. exp, shifted-exp, pareto, weibull and jitter
 * may end in one of two suffixes: '/chunk' draws once per (worker, position), '/run' once per
 * worker for the whole run, so that a worker has the same time in every round. The time of a chunk
 * is (base + added seconds) * factors.
 *
 * Where chunks are cut into P pieces, a SPEC still speaks of whole chunks: the time of a piece is
 * (base + added seconds / P) * factors, and its place in a trace is that of its chunk (position /
 * P, chunk / P). Only draws with '/chunk' are made for each piece.
 *
 * Slow and dead workers are chosen by the seed for the whole run, and so are the factors of the
 * slow: first the dead, then the slow of each term among those not yet chosen, as far as these
 * suffice.
 *
 * markov: workers are independent, and each is in its long-run state from round 0 on: slow with
 * probability P_SLOW / (P_SLOW + P_RECOVER), for 1 / P_RECOVER rounds on average. The sum of both
 * must be from 0.001 to 1.
 *
 * Deaths within a run (fail, rack with 'inf', rejoin) are for the simulator; the runtime refuses
 * them. Time does not depend on them.
 *
 * A trace is a CSV file with the header step,worker,chunk,seconds, whose indices count from 0 and
 * which has every (step, worker, chunk) below the largest ones exactly once. It is replayed modulo
 * its size: step = round, chunk = position. With '/chunk' the seconds belong to the chunk, whoever
 * computes it: the (worker, chunk) pairs of the step, in this order, are the chunks of the plan.
 * FILE may hold ',' and ':', but not '+', and not end in '/chunk'.
 *
 * Numbers are decimal, finite and not negative; a '+' in an exponent would end the term: write 1e3.
 */
#ifndef TARRY_STRAGGLER_H
#define TARRY_STRAGGLER_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/api.h>
#include <tarry/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarry_straggler tarry_straggler;

/*
 * Reads a SPEC for `workers` workers. The caller owns *straggler; it is immutable. Errors: FORMAT
 * (the SPEC, with the term at fault, or a trace's line), ARGUMENT (slow, dead or rack ask for
 * more workers than there are), FILE, NO_MEMORY.
 */
TARRY_API int tarry_straggler_create(const char *spec, uint32_t workers, uint64_t seed,
                                     const tarry_allocator *allocator, tarry_straggler **straggler,
                                     tarry_diagnostic *diagnostic);
TARRY_API void tarry_straggler_free(tarry_straggler *straggler); /* NULL is allowed */

/* Whether `worker` never answers; false for a NULL straggler. */
TARRY_API bool tarry_straggler_dead(const tarry_straggler *straggler, uint32_t worker);

/*
 * The nanoseconds that `worker` takes in `round` for `chunk`, which is at `position` of its order
 * and one of the `pieces` (>= 1) of a whole chunk, given that the bare computation takes base_ns.
 * UINT64_MAX where it is more than that, and for a
 * dead worker. A NULL straggler gives base_ns. Pure: the same arguments, the same time.
 */
TARRY_API uint64_t tarry_straggler_time_ns(const tarry_straggler *straggler, uint64_t round,
                                           uint32_t worker, uint32_t position, uint32_t chunk,
                                           uint32_t pieces, uint64_t base_ns);

/* Whether the SPEC adds seconds of its own, so that a model of time needs no base. */
TARRY_API bool tarry_straggler_adds(const tarry_straggler *straggler);

/*
 * Whether `worker`, which holds `load` chunks, dies in `round` (terms 'fail' and 'rack'); then it
 * does so in the middle of the chunk at *position (0..load-1), or after its last one (load). False
 * for a NULL straggler.
 */
TARRY_API bool tarry_straggler_fails(const tarry_straggler *straggler, uint64_t round,
                                     uint32_t worker, uint32_t load, uint32_t *position);
/* How long after its death a worker joins again (term 'rejoin'); UINT64_MAX: never. */
TARRY_API uint64_t tarry_straggler_rejoin_ns(const tarry_straggler *straggler);

#ifdef __cplusplus
}
#endif

#endif
