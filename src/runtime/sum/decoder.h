/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the server's CLEAR and COMBINE effects. The workers' parts lie in this process, so
 * that combining can wait a little: parts of the same stripe that arrive together are summed in one
 * pass.
 */
#ifndef RUNTIME_DECODER_H
#define RUNTIME_DECODER_H

#include <stdbool.h>
#include <stdint.h>

#include "coding/kernel.h"
#include "coding/layout.h"
#include "plan/plan.h"

typedef struct decoder {
    const tarry_plan *plan;
    layout cut;       /* that of the stripes last cleared */
    uint32_t stripes; /* room: those of the first layout */
    const kernel *kernels;
    float *const *part; /* z of each worker, room for the longest part */
    float *estimate;    /* d numbers, the caller's for one round */
    uint64_t *fresh;    /* a bit per stripe: cleared, nothing summed yet */
    uint32_t *waiting;  /* per stripe: how many parts wait to be combined */
    uint32_t *senders;  /* stripes x workers: whose */
    const float **z;    /* scratch: one pointer per worker */
    float *weights;     /* scratch: parts of the plan x workers */
    double scale;       /* of the parts that wait: they are of one attempt */
} decoder;

/* cut: that which has the most stripes. Errors: NO_MEMORY. Destroy it in any case. */
int decoder_init(decoder *state, const tarry_plan *plan, const layout *cut, const kernel *kernels,
                 float *const *part, const tarry_allocator *allocator);
void decoder_destroy(decoder *state, const tarry_allocator *allocator);

/* The stripe's estimate is zero from now on; parts that wait for it are dropped. If the gradient
 * was cut into another number of parts before, all that was cleared or waits is forgotten. */
void decoder_clear(decoder *state, uint32_t parts, uint32_t stripe);
/* Parts that wait are dropped: they are of an attempt that was withdrawn. */
void decoder_forget(decoder *state);
/* Queues the worker's part of the stripe, to be summed times `scale`: the same for all parts that
 * wait, which are of one attempt. */
void decoder_add(decoder *state, uint32_t worker, uint32_t stripe, double scale);
/* Sums the parts that wait for the stripe into the estimate, in the order of decoder_add; gives
 * back their number. The senders can be read from decoder_senders until the next decoder_add. */
uint32_t decoder_flush(decoder *state, uint32_t stripe);
const uint32_t *decoder_senders(const decoder *state, uint32_t stripe);
/* Zeroes what was cleared and got no part: the round is over. */
void decoder_finish(decoder *state);

#endif
