/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decode threads. Stripes of coded parts are queued by the loop's thread, which goes on
 * receiving; what waits for one place of the sum is summed in one pass, by one thread at a time, in
 * the order in which it was queued. Without such threads the loop's own sums what it queues, at
 * once.
 *
 * A stripe (stripes.h) is lent to it from decoding_add on and comes back by decoding_take, whether
 * it was summed or cleared away. All calls but decoding_settle are the loop thread's.
 */
#ifndef TCP_DECODING_H
#define TCP_DECODING_H

#include <stdbool.h>

#include "coding/kernel.h"
#include "plan/plan.h"
#include "runtime/sum/stripes.h"

typedef struct decoding decoding;

typedef struct decoding_settings {
    size_t dimension, stripe_length;
    uint32_t threads; /* 0: decoding_add sums */
    const kernel *kernels;
    /* Says that decoding_take has something, summed or dropped; any thread, under a lock. Of what
     * decoding_add has summed itself nothing is said. */
    void (*finished)(void *user);
    void *user;
} decoding_settings;

/* plan is borrowed. Errors: NO_MEMORY, SYSTEM. */
int decoding_create(const tarry_plan *plan, const decoding_settings *settings,
                    const tarry_allocator *allocator, decoding **out);
/* Ends the threads. Nothing must be lent to it. NULL is allowed. */
void decoding_free(decoding *state);
/* Goes on with another plan of the same workers and parts; nothing waits or runs. */
void decoding_replan(decoding *state, const tarry_plan *plan);

/* A round begins: `estimate` (d numbers) is written until decoding_settle. No stripe is cleared
 * yet.
 */
void decoding_begin(decoding *state, float *estimate);
/*
 * The stripe of each of `parts` parts is zero from now on; what waits for it is done without, and
 * what is being added to it counts for nothing. With another number of parts than before, so is
 * everything else that was cleared or waits.
 */
void decoding_clear(decoding *state, uint32_t parts, uint32_t index);
/* What waits is done without: it is of an attempt that was withdrawn. */
void decoding_forget(decoding *state);
/*
 * Queues stripes to be summed, of one attempt, as they follow each other; the queue is emptied. A
 * worker has one for a place at most, until that is cleared. Those for one place that are queued by
 * one call are summed together.
 */
void decoding_add(decoding *state, stripe_queue *items);
/* What is not needed any more; `summed` are those of which the sum now has all. Either queue is
 * appended to. */
void decoding_take(decoding *state, stripe_queue *summed, stripe_queue *dropped);
/*
 * Waits until no thread writes the estimate any more, and none will before the next decoding_begin:
 * the round is over; what waits is done without. With `zero`, what was cleared and never added to
 * is zeroed. Any thread, while no other call is made.
 */
void decoding_settle(decoding *state, bool zero);

#endif
