/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this process works out a model's gradients, to the bit. Libraries choose their kernels by the
 * processor, which add in different orders: so gradients of the same samples differ between kinds
 * of machines, in float32's last digits. A small gradient of samples that are the same everywhere
 * tells the kinds apart. It goes the way of all chunks' gradients.
 */
#ifndef CLI_NUMERICS_H
#define CLI_NUMERICS_H

#include "learn/objective.h"

/* *fingerprint: of that gradient's bits, not 0. Errors: NO_MEMORY. */
int numerics_fingerprint(const objective_settings *settings, bool sparse, uint64_t *fingerprint);

/* *rounding: |that gradient - the one in double| / |the one in double|. Errors: NO_MEMORY. */
int numerics_rounding(const objective_settings *settings, bool sparse, double *rounding);

#endif
