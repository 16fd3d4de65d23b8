/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/sketch.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "base/quantile.h"

#define LEAST 1e-9
#define MOST 1e9
/* The ratio of neighbouring bounds: (1 + SKETCH_ERROR) / (1 - SKETCH_ERROR). */
#define RATIO ((1 + SKETCH_ERROR) / (1 - SKETCH_ERROR))

enum { BUCKETS = 4150 }; /* log(MOST / LEAST) / log(RATIO) are 4145 */

struct sketch {
    size_t count;
    double exact[SKETCH_EXACT]; /* the first values */
    uint64_t bucket[BUCKETS];
};

int sketch_create(sketch **out)
{
    sketch *self = memory_allocate(NULL, 1, sizeof(*self));
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    *out = self;
    return TARRY_OK;
}

int sketch_copy(const sketch *from, sketch **out)
{
    int error = sketch_create(out);
    if (error == TARRY_OK)
        **out = *from;
    return error;
}

void sketch_free(sketch *self)
{
    memory_release(NULL, self);
}

void sketch_clear(sketch *self)
{
    memset(self, 0, sizeof(*self));
}

static size_t bucket_of(double value)
{
    return (size_t)(log(fmin(fmax(value, LEAST), MOST) / LEAST) / log(RATIO));
}

void sketch_add(sketch *self, double value)
{
    if (self->count < SKETCH_EXACT)
        self->exact[self->count] = value;
    self->bucket[bucket_of(value)]++;
    self->count++;
}

double sketch_quantile(sketch *self, double quantile)
{
    if (self->count <= SKETCH_EXACT)
        return quantile_of(self->exact, self->count, quantile);
    const uint64_t rank = (uint64_t)(quantile * (double)(self->count - 1));
    uint64_t below = 0;
    size_t i = 0;
    while (i + 1 < BUCKETS && below + self->bucket[i] <= rank)
        below += self->bucket[i++];
    /* The harmonic middle of the bucket: equally far from both bounds, relative to each. */
    return LEAST * pow(RATIO, (double)i) * 2 * RATIO / (1 + RATIO);
}
