/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worst case of an order (A. Ramamoorthy et al., arXiv 2405.19509, section 4).
 *
 * The reach of a copy is the number of chunks from its position to the end of its worker's order:
 * load - position, 1 for the last. While chunk i has fewer than l of its gamma_i copies, at least
 * k = gamma_i - l + 1 of its holders have not come to it, and each leaves its reach unprocessed. At
 * worst these are the k holders of least reach:
 *     Q_l = 1 + edges - min over i of (sum of the k least reaches of chunk i).
 * That sum is called the chunk's slack.
 */
#ifndef PLAN_Q_H
#define PLAN_Q_H

#include "plan/plan.h"

typedef struct slack {
    uint64_t sum;     /* of the k least reaches */
    uint32_t largest; /* of these */
    uint32_t next;    /* the least of the other reaches; UINT32_MAX if there are none */
} slack;

static inline uint32_t reach_of(const tarry_plan *plan, uint32_t entry)
{
    uint32_t worker = plan->holder_worker[entry];
    uint32_t load = plan->worker_offset[worker + 1] - plan->worker_offset[worker];
    return load - plan->holder_position[entry];
}

/* The slack of `chunk`. copies (l): 1 to the chunk's replication. */
slack slack_of(const tarry_plan *plan, uint32_t chunk, uint32_t copies);

/* The slack that `chunk` would have if it were the first of every holder:
 * no order gives it more. */
uint64_t slack_ceiling(const tarry_plan *plan, uint32_t chunk, uint32_t copies);

/* The least slack of all chunks. copies: 1..min_replication. */
uint64_t slack_least(const tarry_plan *plan, uint32_t copies);

/* A value that slack_least exceeds in no order of the same assignment;
 * docs/plan.md has the proof. */
uint64_t slack_bound(const tarry_plan *plan, uint32_t copies);

#endif
