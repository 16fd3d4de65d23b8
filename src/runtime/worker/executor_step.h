/* SPDX-License-Identifier: Apache-2.0 */
/* What the two threads of an executor share: a step of its machine with all that follows from it.
 */
#ifndef RUNTIME_EXECUTOR_STEP_H
#define RUNTIME_EXECUTOR_STEP_H

#include "runtime/worker/executor.h"

/* With the lock held, which is let go in between to post, fold and encode: that is left to events
 * of the talking thread. */
void executor_step(executor *self, const tarry_event *event);
/* Answers what the machine waits for if that needs no computing: a gradient that is there, or a
 * worker that leaves. With the lock held, as executor_step. */
void executor_answer(executor *self);
/* Numbers first .. first + count - 1 of the slate's part are about to be overwritten, or freed. The
 * talking thread. */
void executor_claim(executor *self, size_t first, size_t count);
/* Residuals of so many stripes are thrown away; 0: none. */
void executor_voided(executor *self, uint32_t stripes);
/* Whether the task's gradient is there. With the lock held. */
bool executor_has_kept(const executor *self);

/* The place of a slot's gradient with TARRY_KEEP_ALL. Rounds take turns with the banks, so that
 * the gradients of one stay while the next is computed. */
size_t executor_place_of(const worker_slate *slate, uint64_t round, uint32_t slot);
/* The gradient at `slot` is not needed any more. With the lock held. */
void executor_free_place(executor *self, uint32_t slot);

/* Secure sums; the talking thread. The gradients at the first `count` of the slate's folds are
 * added to its sum, which the first of them may begin. */
void executor_fold_secure(executor *self, size_t count, bool begins);
/* Nothing is sent any more, and the worker is to end. */
void executor_refuse(executor *self, int error, const char *why);
/* Masks the stripe of an ENCODE, and sends it; or ends all, where that must not be. */
void executor_post_secure(executor *self, const tarry_effect *effect, const layout *cut);

/* The computing thread; its argument is the executor. */
void *executor_compute(void *argument);

/* executor_bound.c: adds what the round's tasks were bound to, if they were, to the digest of its
 * parameters. False: there is no memory. */
bool executor_add_bound(executor *self, uint64_t round, uint8_t parameters[TARRY_DIGEST_SIZE]);

#endif
