/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How gradients are computed, the same for every runtime: a worker calls a function for each task,
 * or its owner takes tasks and gives them back from a thread of its own choice.
 */
#ifndef TARRY_COMPUTE_H
#define TARRY_COMPUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/api.h>
#include <tarry/error.h>
#include <tarry/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A worker's task: to compute the sum of the gradients of `spans` for these parameters. The library
 * makes tasks, and may add members in later versions. A task is valid, with all that it points to,
 * until the compute function returns or the task is given back, even if nobody wants the result any
 * more and its round is over. Where everyone gets the sum, owners may take steps as tasks, too.
 */
typedef struct tarry_task {
    uint32_t worker;
    uint32_t chunk; /* of the worker's present plan; plans that follow may number them anew */
    uint64_t round;
    const float *parameters;
    size_t parameter_count;
    const tarry_span *spans; /* of original chunks, which the chunk stands for (tarry_plan_span) */
    uint32_t span_count;     /* one or more */
    float *gradient;         /* dimension numbers to be written, all of them; NULL: they are not
                                float32 in host memory, and the owner has them at `place` */
    size_t dimension;
    /* A step to take in place of a gradient (tarry_replica.step is NULL): the sum of `step`, which
     * counts from 1, dimension numbers, NULL as above. Then there are no spans, parameters and
     * gradient. step 0: a gradient is wanted. */
    const float *sum;
    uint64_t step;
    /* The library's own; a task that a caller makes for a function of its own has zeros. */
    void *owner;
    uint64_t ticket;
    uint32_t place; /* of gradient or sum among the worker's vectors (tarry/vectors.h) */
} tarry_task;

/*
 * Fills task->gradient. Called from many threads at once, for the same spans too; must give every
 * caller the same numbers. 0 on success; anything else says that this worker can't compute this
 * chunk: its copy is then not counted. The library does not break off a call whose result nobody
 * wants any more; the function may ask (tarry_compute_cancelled) and return what it likes.
 */
typedef int tarry_compute(void *user, const tarry_task *task);

/* Whether nobody waits for the task's result any more: to be asked as often as is convenient (a
 * lock is taken), by any thread, as long as the task is valid. Once it is true it stays so. */
TARRY_API bool tarry_compute_cancelled(const tarry_task *task);

/*
 * Gives a taken task back, computed (result 0) or as one that this worker can't compute; a step, of
 * which everybody has the same state afterwards, as taken (0), or with the error that ends this
 * worker. Any thread. The task is not valid any more. Injected delays pass before it returns.
 * Errors: STATE (it came too late: nobody waits for it; what was computed may be asked for again,
 * and is kept if there is room), after which the owner goes on with the next one.
 */
TARRY_API int tarry_task_give(const tarry_task *task, int result);

/*
 * Secure sums (tarry/secure.h), before the task is given back: what its gradient depends on beside
 * parameters and samples, as the state of a model that the worker keeps. Masks of the round cancel
 * only among workers that have bound the same, so that a server can't have some of them compute
 * with a state of its own making. Any thread; nothing, where sums are not secure. Errors: STATE
 * (another task of the round was bound to something else, or the round is over).
 */
TARRY_API int tarry_task_bind(const tarry_task *task, const uint8_t digest[32]);

#ifdef __cplusplus
}
#endif

#endif
