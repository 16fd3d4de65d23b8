/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums that are made on the way. Where several workers' coded parts pass one place before they come
 * here, that place adds them up: it is told whose, and by which numbers each is multiplied for each
 * part of the gradient, and sends the sum of a stripe in blocks, one per part. The machine hears of
 * a PART of each of them, of all or of none. Not with `reproducible`, as numbers are added in
 * another order then.
 */
#ifndef RUNTIME_HOST_GATHER_H
#define RUNTIME_HOST_GATHER_H

#include "runtime/host/host.h"

/* Whose coded parts of an attempt are one sum. */
typedef struct host_gather {
    uint64_t round;
    uint32_t attempt, parts;
    double scale; /* that the weights were made with */
    uint32_t count;
    const uint32_t *worker, *epoch; /* `count` of each */
} host_gather;

/* Whether sums may be made on the way at all. */
bool host_may_gather(const host *self);
/* By which factor the estimate of the attempt that was signalled last is multiplied. */
double host_scale(const host *self);
/* The worker's weights: one for each of `parts` parts. */
void host_weights(const host *self, uint32_t parts, uint32_t worker, double scale, float *weights);
/*
 * The sum of a stripe has come: `count` blocks of host_take_room, in the order of parts, of which
 * the last ones may be missing where the gradient has no numbers. They come back by
 * transport.released, at once where the sum is not wanted: that is of another attempt, or a part of
 * it is there already. A sum of which only some parts can count makes the attempt begin anew.
 */
void host_receive_gathered(host *self, const host_gather *of, uint32_t index, stripe **blocks,
                           uint32_t count);

#endif
