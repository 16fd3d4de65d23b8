/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sum of a round's coded parts, each times its weights of the decode matrix, and the threads
 * that make it. Stripes are queued by the runtime's thread, which goes on receiving; what waits for
 * one place of the sum is summed in one pass, by one thread at a time, in the order in which it was
 * queued. Without such threads the runtime's own sums what it queues, at once.
 *
 * Where sums are secure (docs/privacy.md) coded parts are masked: words of a ring, which are added
 * as such. Once all parts of an attempt are in a stripe the masks are gone, and its words become
 * numbers. If the check words are not zero then, or it does not count every chunk, the sum is torn,
 * and the words are wiped without being decoded.
 *
 * A stripe (stripes.h) is lent to it from summation_add on and comes back by summation_take,
 * whether it was summed or cleared away. All calls but summation_settle are the runtime's thread's.
 */
#ifndef RUNTIME_SUMMATION_H
#define RUNTIME_SUMMATION_H

#include <stdbool.h>

#include "coding/kernel.h"
#include "compress/compress.h"
#include "plan/plan.h"
#include "privacy/secure/ring.h"
#include "runtime/sum/stripes.h"

typedef struct summation summation;

typedef struct summation_settings {
    size_t dimension, stripe_length;
    compress_form form; /* of coded parts, or NONE of some of them; not NONE only with one part */
    ring grid;          /* of masked parts; bits 0: they are not */
    uint32_t threads;   /* 0: summation_add sums */
    const kernel *kernels;
    /* Says that summation_take has something, summed or dropped; any thread, under a lock. Of what
     * summation_add has summed itself nothing is said. */
    void (*finished)(void *user);
    void *user;
} summation_settings;

/* plan is borrowed. Errors: NO_MEMORY, SYSTEM. */
int summation_create(const tarry_plan *plan, const summation_settings *settings,
                     const tarry_allocator *allocator, summation **out);
/* Ends the threads. Nothing must be lent to it. NULL is allowed. */
void summation_free(summation *self);
/* Goes on with another plan of the same workers and parts; nothing waits or runs. */
void summation_replan(summation *self, const tarry_plan *plan);

/* A round begins: `estimate` (d numbers) is written until summation_settle. No stripe is cleared
 * yet.
 */
void summation_begin(summation *self, float *estimate);
/* Right after it, POWERSGD: the parts of the round have this form, whose factor is borrowed until
 * summation_settle. */
void summation_form(summation *self, compress_form form);
/*
 * The stripe of each part is zero from now on; what waits for it is done without, and what is being
 * added to it counts for nothing.
 */
void summation_clear(summation *self, uint32_t index);
/* Masked parts: an attempt of so many of them begins. What is added next is of that. */
void summation_expect(summation *self, uint32_t parts);
/* What waits is done without: it is of an attempt that was withdrawn. */
void summation_forget(summation *self);
/*
 * Queues stripes of one attempt to be summed; the queue is emptied. A worker has one for a place at
 * most, until that is cleared. Those for one place that are queued by one call are summed together.
 */
void summation_add(summation *self, stripe_queue *items);
/* What is not needed any more; `summed` are those of which the sum now has all. Either queue is
 * appended to. */
void summation_take(summation *self, stripe_queue *summed, stripe_queue *dropped);
/*
 * Waits until no thread writes the estimate any more, and none will before the next
 * summation_begin: the round is over; what waits is done without. With `zero`, what was cleared and
 * never added to is zeroed; of masked parts, what is not whole is torn. Any thread, while no other
 * call is made.
 */
void summation_settle(summation *self, bool zero);

/* Masked parts: the first stripe whose parts were all there and did not make a sum, or that was not
 * whole when the round ended. Nothing of it was decoded. */
typedef struct summation_tear {
    bool torn;
    uint32_t stripe;
    bool masked; /* its check words are not zero: masks are left */
    uint64_t
        chunks; /* if they are zero: how many chunks it counts, which is not all of them once */
} summation_tear;

summation_tear summation_torn(summation *self);
/* The same of one that was settled with `zero`: how many numbers of gradients were clamped, over
 * all chunks. */
uint64_t summation_clamped(const summation *self);

#endif
