/* SPDX-License-Identifier: Apache-2.0 */
/* What the two threads of an engine share: a step of its machine with all that follows from it. */
#ifndef RUNTIME_ENGINE_STEP_H
#define RUNTIME_ENGINE_STEP_H

#include "runtime/worker/engine.h"

/* With the lock held, which is let go in between to post, fold and encode: that is left to events
 * of the talking thread. */
void engine_step(engine *self, const tarry_event *event);
/* Answers what the machine waits for if that needs no computing: a gradient that is there, or a
 * worker that leaves. With the lock held, as engine_step. */
void engine_answer(engine *self);
/* Whether the task's gradient is there. With the lock held. */
bool engine_has_kept(const engine *self);

/* The place of a slot's gradient with TARRY_KEEP_ALL. Rounds take turns with the banks, so that
 * the gradients of one stay while the next is computed. */
size_t engine_place_of(const worker_slate *slate, uint64_t round, uint32_t slot);
/* The gradient at `slot` is not needed any more. With the lock held. */
void engine_free_place(engine *self, uint32_t slot);

/* The computing thread; its argument is the engine. */
void *engine_compute(void *argument);

#endif
