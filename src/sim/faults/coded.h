/* SPDX-License-Identifier: Apache-2.0 */
/* Coded parts of a world: coefficients in the place of numbers. */
#ifndef SIM_FAULTS_CODED_H
#define SIM_FAULTS_CODED_H

#include "sim/faults/model.h"

/* What a coded part is made of: u[chunk][part], of this round or of `before`, whose parameters its
 * gradients belong to, and which plans say what the chunks are. Plans by their number. */
typedef struct coded {
    double u[MAX_CHUNKS][MAX_PARTS];
    uint32_t plan; /* of the worker that encoded it */
    uint32_t cut;  /* by which the worker chose its data: the same */
    uint32_t parameters;
    uint32_t stale;  /* chunks whose gradient is that of `before`, a bit each */
    uint64_t before; /* a round */
} coded;

#endif
