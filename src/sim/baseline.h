/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemes that the server and worker machines don't speak, each in its best form, as small models
 * of their own over the same draws of stragglers and chunk costs, deaths and links as
 * tarry/sim.h, so that their rounds can be paired with a simulator's:
 *
 *   DropCompute    Giladi et al., NeurIPS 2023 (arXiv 2306.10598): each worker computes its own
 *                  pieces (micro-batches) up to a deadline of its own compute time, and sends the
 *                  sum of what it has at once
 *   shared queue   all data everywhere: the next piece goes to whoever is free, and each worker
 *                  sends one sum at the end
 *   all-reduce     each worker computes its own chunks; then everyone gets the sum, by a ring or
 *                  directly (links/ring.h, links/direct.h), parameters never travel
 *
 * DropCompute's sum may be made by an all-reduce, too, as the settings' `way` has it.
 *
 * The plan only says what pieces there are, and whose they are where each worker has its own: with
 * one copy of each, all pieces of a chunk are its holder's of piece 0. Of the settings, those of
 * the server are not read but silence_ns; a worker that falls silent is noticed that long after.
 * One that comes back (rejoin) takes part again from the next round on.
 */
#ifndef SIM_BASELINE_H
#define SIM_BASELINE_H

#include <tarry/sim.h>

typedef enum baseline_kind {
    BASELINE_NONE, /* the machines of tarry/sim.h */
    BASELINE_DROPCOMPUTE,
    BASELINE_QUEUE,
    BASELINE_ALL_REDUCE,
} baseline_kind;

typedef struct baseline_settings {
    baseline_kind kind; /* not BASELINE_NONE */
    /* BASELINE_DROPCOMPUTE: the compute time after which a worker stops; 0: the best one, as
     * baseline_best_deadline finds it before the first round; TARRY_NEVER: none. */
    uint64_t deadline_ns;
    /* BASELINE_QUEUE: an idle worker computes once more the piece that would end last, if it will
     * finish it earlier. The server knows the time of each piece on each worker in advance. */
    bool backups;
} baseline_settings;

typedef struct baseline baseline;

/* Plan, and what settings point at, are borrowed. Errors: ARGUMENT, NO_MEMORY. */
int baseline_create(const tarry_plan *plan, const baseline_settings *own,
                    const tarry_sim_settings *settings, const tarry_allocator *allocator,
                    baseline **out, tarry_diagnostic *diagnostic);
void baseline_free(baseline *model); /* NULL is allowed */

/* As tarry_sim_costs. */
int baseline_costs(baseline *model, const double *chunk_cost, tarry_diagnostic *diagnostic);

/*
 * Runs the next round. An all-reduce with a worker lost, and a queue without any left, end without
 * an estimate: result->error is COVERAGE then. DropCompute's sum has what there is. Pieces have
 * equal shares of the samples. Errors: NO_MEMORY.
 */
int baseline_round(baseline *model, tarry_round_result *result);

/* Of the last round, by piece: how long after its start the server knew it finished, by a worker
 * that did not take it into its grave; TARRY_NEVER: never. */
const uint64_t *baseline_known_ns(const baseline *model);
/* DropCompute's deadline: given or, after the first round, found. */
uint64_t baseline_deadline_ns(const baseline *model);

#endif
