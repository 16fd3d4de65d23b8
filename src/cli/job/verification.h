/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --verify: how far a round's estimate is from the serial sum, and how much of that is whose. The
 * chunks' gradients are worked out once more, one after the other: in float32, as workers do, and
 * in double. Local steps are those of gradients in double then.
 */
#ifndef CLI_VERIFICATION_H
#define CLI_VERIFICATION_H

#include "cli/job/chunk_gradient.h"
#include "cli/job/verify.h"

typedef struct verification verification;

/* For a run of `chunks` original chunks, whose samples are not fetched, and for the local steps of
 * `gradients`. model and gradients are borrowed. Errors: NO_MEMORY. */
int verification_create(const objective *model, chunk_gradient *gradients,
                        const local_settings *local, uint32_t chunks, verification **out);
void verification_free(verification *state); /* NULL is allowed */

/* Of the estimate of `round`, at `parameters`. */
void verification_check(verification *state, uint64_t round, const float *parameters,
                        const float *estimate, verified_round *out);

#endif
