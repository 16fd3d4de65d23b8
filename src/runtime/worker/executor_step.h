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

/* The computing thread; its argument is the executor. */
void *executor_compute(void *argument);

#endif
