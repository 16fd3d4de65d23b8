/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SKETCH_H
#define CLI_SKETCH_H

#include <stddef.h>

/*
 * Quantiles of a stream of values in bounded memory (65 kB). Up to SKETCH_EXACT values are kept as
 * they are, and quantiles are exact. Beyond that, values are counted in buckets whose bounds grow
 * geometrically (Masson, Rim and Lee 2019, "DDSketch", section 2): a quantile is then within
 * SKETCH_ERROR of a value of that rank, relative to it. Values beyond 1e-9 to 1e9 count as these
 * bounds.
 */
#define SKETCH_ERROR 0.005
enum { SKETCH_EXACT = 4096 };

typedef struct sketch sketch;

/* Errors: NO_MEMORY. */
int sketch_create(sketch **out);
int sketch_copy(const sketch *from, sketch **out);
void sketch_free(sketch *self); /* NULL is allowed */
void sketch_clear(sketch *self);

void sketch_add(sketch *self, double value);
/* As quantile_of the values so far, with that error; NaN if there are none. Sorts values that are
 * kept. */
double sketch_quantile(sketch *self, double quantile);

#endif
