/* SPDX-License-Identifier: Apache-2.0 */
/* What the models of baseline.h share. */
#ifndef SIM_BASELINE_STATE_H
#define SIM_BASELINE_STATE_H

#include "sim/baseline.h"
#include "sim/links/star.h"

typedef struct baseline_worker {
    uint64_t back_ns; /* it is there from then on; TARRY_NEVER: not any more */
    uint32_t pieces;  /* that are its own */

    /* the round in progress */
    bool there;
    uint32_t dies_at;   /* pieces that it finishes before; UINT32_MAX: it lives */
    uint32_t finished;  /* pieces */
    uint64_t silent_ns; /* when it died; TARRY_NEVER: it lives */
} baseline_worker;

struct baseline {
    tarry_allocator allocator;
    const tarry_plan *plan;
    baseline_settings own;
    tarry_sim_settings settings;
    network network;
    uint64_t now;
    uint64_t round;       /* that runs, or the next one */
    uint64_t deadline_ns; /* 0: to be found */
    baseline_worker *workers;
    uint64_t *known_ns; /* by piece */
    tarry_round_result result;
};

/* How long `worker` takes for `piece`, the position-th that it computes in the round. */
uint64_t baseline_piece_ns(const baseline *model, uint32_t worker, uint32_t position,
                           uint32_t piece);
/* The worker's own piece at `position` (0..pieces-1), all of one chunk after the other. */
uint32_t baseline_own_piece(const baseline *model, uint32_t worker, uint32_t position);
/*
 * Computes the worker's own pieces from begin_ns on, for `most_ns` at most: marks those finished as
 * known one latency after their end, and its death if it dies. Gives back when it stops: finished,
 * at the limit, or dead.
 */
uint64_t baseline_compute(baseline *model, uint32_t worker, uint64_t begin_ns, uint64_t most_ns);
/* The worker falls silent at `now`: what it finished and had not sent is not known any more (pieces
 * of its own alone). */
void baseline_die(baseline *model, uint32_t worker, uint64_t now);
/* When the server takes a dead worker for lost. */
uint64_t baseline_noticed_ns(const baseline *model, uint32_t worker);
/* The bytes of a gradient with its header. */
uint64_t baseline_gradient_bytes(const baseline *model);
/* The header and the parameters go to `worker` at `now`: when they are there. */
uint64_t baseline_send_parameters(baseline *model, uint32_t worker, uint64_t now);

/* The models: each runs the round, fills the result's bytes and messages, and gives back its end.
 */
uint64_t baseline_dropcompute_round(baseline *model, int *error);
uint64_t baseline_queue_round(baseline *model, int *error);
/* Each worker computes its own for `most_ns` at most; then the sum is made among all. With a worker
 * lost it never is: all are told once that is noticed. */
uint64_t baseline_all_reduce_round(baseline *model, uint64_t most_ns, int *error);
/* How long the sum alone takes over `links`, which are free. */
uint64_t baseline_all_reduce_alone(baseline *model, network *links, int *error);

#endif
