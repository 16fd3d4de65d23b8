/* SPDX-License-Identifier: Apache-2.0 */
/* A worker machine to which a test tells what happens, and whose effects must all be expected. */
#ifndef TEST_WORKER_DESK_H
#define TEST_WORKER_DESK_H

#include <tarry/worker.h>

/*
 * Worker 1 of three computes chunk 2, then 0, then 1; chunk 0 is at all three workers, chunk 1 at 1
 * and 2, chunk 2 at 0 and 1. So its psi is {0,1} of chunk 2, {0,1,2} of chunk 0, {1,2} of chunk 1.
 */
enum { LOAD = 3, OWN_0 = 1 << 1, OWN_1 = 1 << 3, OWN_2 = 1 << 5, OTHER_1 = 1 << 2 };

typedef struct desk {
    tarry_plan *plan;
    tarry_worker *worker;
    const tarry_effects *effects;
    size_t expected; /* effects that were already expected */
    uint64_t round;
    uint32_t epoch;
    uint16_t sequence;    /* of its last word */
    uint32_t turns_epoch; /* turns count anew with each arrival */
    uint16_t told;        /* the turn of what it hears */
    uint64_t psi, stripes, first, barred;
    uint64_t stale; /* of a signal; 0: no set at all */
} desk;

/* The plan above, for so many parts; then that worker of it: `worker` and conditioning_limit of the
 * settings are set here. */
void desk_plan(desk *its, uint32_t parts);
void desk_create(desk *its, tarry_worker_settings settings);
/* The worker of one part and one number, with TARRY_KEEP_CREDITED and such a running sum; and its
 * round 0, in which it computes its first chunk. */
void desk_create_folding(desk *its, uint32_t ahead, uint32_t secure);
/* Nothing more is expected. */
void desk_end(desk *its);
/* A case with one (test.h). */
#define DESK(name) TEST_OF(name, desk, its, desk_end)

/* What happens; all effects of what happened before were expected. */
void happens(desk *its, const tarry_event *event);
/* A message of this round and epoch. */
void hears_message(desk *its, tarry_message message);
/* A signal of the first stripe, in this term. */
void hears_signal_of_term(desk *its, uint32_t attempt, uint64_t psi, uint32_t term);
void has_computed(desk *its, uint32_t slot, bool failed);

/* The next effect is of this type. */
const tarry_effect *expect(desk *its, tarry_effect_type type);
void expect_nothing(const desk *its);
void expect_reject(desk *its, tarry_reject why);

#endif
