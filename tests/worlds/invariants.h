/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold in every world. Each check has a name; the first that fails ends the run
 * (cluster.broken). The names stand in invariants.c where they are checked, and in docs/testing.md.
 */
#ifndef WORLDS_INVARIANTS_H
#define WORLDS_INVARIANTS_H

#include "worlds/cluster.h"

/* Records that the invariant `name` does not hold, unless another one failed before. */
void invariant_broken(cluster *it, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The server took `event` and answered; `should_take` is what the model did with the same event. */
void invariants_of_step(cluster *it, const tarry_event *event, bool should_take,
                        const tarry_effects *effects);
/* Who is there; who may be passed over, if anyone is; and whether the step tells it. */
void invariants_of_presence(cluster *it);

void invariants_of_lateness(cluster *it, const tarry_effects *effects);
void invariants_of_absence(cluster *it, const tarry_effects *effects);
/* The server sent a message, the index-th effect of its step; it matters if it is the step's last
 * word to the worker on what to compute. */
void invariants_of_order(cluster *it, const tarry_effects *effects, size_t index);
/* `worker` took a step. */
void invariants_of_worker(cluster *it, uint32_t worker);
/* Nothing happens before `time`. */
void invariants_of_time(cluster *it, uint64_t time);
/* `worker` is about to encode. */
void invariants_of_encoding(cluster *it, uint32_t worker, const cluster_item *encoded);
/* The coefficients that a worker is about to encode with. */
void invariants_of_rows(cluster *it, uint32_t worker, const tarry_effect *encode);
/* TARRY_KEEP_CREDITED: the coefficients with which it is about to; a finished gradient of it is
 * about to be folded or dropped; what it holds after an effect. */
void invariants_of_coefficients(cluster *it, uint32_t worker, const float *coefficients);
void invariants_of_fate(cluster *it, uint32_t worker, uint32_t chunk, bool fold);
void invariants_of_memory(cluster *it, uint32_t worker);
/* invariants_secure.c. A signal goes out; what the worker is about to mask for this kappa is this;
 * the server reads the sum. */
void invariants_of_holders(cluster *it, const tarry_effect *signal);
void invariants_of_masks(cluster *it, uint32_t worker, uint32_t stripe,
                         const uint8_t kappa[KAPPA_BYTES], const uint64_t *plain);
void invariants_of_secure_sum(cluster *it);
/* invariants_sample.c. After a step; of a ROUND; when the worker begins to compute the chunk. */
void invariants_of_draw(cluster *it);
void invariants_of_round(cluster *it, const tarry_effect *effect);
void invariants_of_sample(cluster *it, uint32_t worker, uint32_t chunk);
/* It begins a chunk. */
void invariants_of_plan(cluster *it, uint32_t worker);
/* Where everyone gets the sum: a worker begins a sum; has ended one; is about to change what it
 * contributes; is about to step; has another state; begins a
 * chunk. The log is about to have another entry; or to go back. */
void invariants_of_reduce(cluster *it, uint32_t worker, const tarry_effect *effect,
                          const sum_attempt *of);
void invariants_of_reduced(cluster *it, uint32_t worker);
void invariants_of_z(cluster *it, uint32_t worker);
void invariants_of_stepping(cluster *it, uint32_t worker, const tarry_sum_id *sum);
void invariants_of_state(cluster *it, uint32_t worker);
void invariants_of_computing(cluster *it, uint32_t worker);
void invariants_of_entry(cluster *it, const tarry_sum_id *sum);
/* Whether parameters that are compared are not the same among these. */
bool invariants_see_split(const cluster *it, uint32_t workers);
void invariants_of_voters(cluster *it, const tarry_message *signal);
void invariants_of_stray(cluster *it, uint32_t worker); /* that is told to differ from most */
void invariants_of_return(cluster *it, const tarry_sum_id *sum); /* NULL: the run ends instead */
/* The same: the server took `event` and answered. Gives back whether it should have taken it: of
 * what is said of sums, that is its affair. */
bool invariants_of_vote(cluster *it, const tarry_event *event, bool should_take,
                        const tarry_effects *effects);
/* Whether the server may wait although the stop rule holds, or can't be met: for others who are
 * there, and get the last state. */
bool invariants_allow_waiting(const cluster *it);
/* An attempt begins with these workers. */
void invariants_of_group(cluster *it, uint32_t told);
/* Whether the step ends the run, for lack of links, state or equal digests: there is a reason then.
 */
bool invariants_of_end(cluster *it, const tarry_effects *effects);
/* A coded part is about to be added to the estimate of its stripe; and what the result of a round
 * says of it. */
void invariants_of_sum(cluster *it, const cluster_item *done);
void invariants_of_estimate(cluster *it, const tarry_round_result *result);

#endif
