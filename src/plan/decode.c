/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/decode.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"

/* A unit column, uniform over the sphere: a point of the cube that lies in the ball, normalised. */
static void draw_column(tarry_plan *plan, uint32_t worker, random_stream *stream)
{
    double square = 0;
    for (uint32_t part = 0; part < plan->parts; part++) {
        double value = 0;
        for (int draw = 0; draw < 4; draw++)
            value += random_uniform(stream) - 0.5;
        plan->decode[(size_t)part * plan->workers + worker] = value;
        square += value * value;
    }
    for (uint32_t part = 0; part < plan->parts; part++)
        plan->decode[(size_t)part * plan->workers + worker] /= sqrt(square);
}

int decode_design(tarry_plan *plan, uint64_t seed)
{
    double *decode =
        memory_allocate(&plan->allocator, (size_t)plan->parts * plan->workers, sizeof(*decode));
    if (decode == NULL)
        return TARRY_ERROR_NO_MEMORY;
    plan->decode = decode;
    if (plan->parts == 1) {
        for (uint32_t worker = 0; worker < plan->workers; worker++)
            decode[worker] = 1;
        plan->conditioning = (tarry_conditioning){.worst = 1, .median = 1, .complete = true};
        return TARRY_OK;
    }
    random_stream stream = random_stream_make(seed, RANDOM_DECODE, 0, 0);
    for (uint32_t worker = 0; worker < plan->workers; worker++)
        draw_column(plan, worker, &stream);
    return TARRY_OK;
}
