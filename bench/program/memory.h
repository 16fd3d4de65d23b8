/* SPDX-License-Identifier: Apache-2.0 */
/* Memory to measure on, and how fast this machine reads it. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stddef.h>

enum {
    BENCH_LINE = 16,   /* floats of a cache line */
    BENCH_PAGE = 1024, /* floats of a page */
};

/* `count` vectors of `stride` floats, one after the other, in huge pages where the system gives
 * them, touched and filled with numbers in [-0.5, 0.5). The first begins at a page. */
typedef struct bench_memory {
    float *vectors;
    size_t count;
    size_t stride; /* a multiple of the alignment */
    void *block;
} bench_memory;

/* Vectors of at least `length` floats that begin at multiples of `alignment` floats. Errors:
 * NO_MEMORY, also if the machine has less. */
int bench_memory_create(size_t count, size_t length, size_t alignment, bench_memory *out);
void bench_memory_free(bench_memory *memory);

/* Floats whose reading empties the caches: four times the last one, within reason where the system
 * does not know its size. */
size_t bench_flush_length(void);

/* Reads `length` floats once, in order, by the widest loads there are; gives back their sum, so
 * that the reading is not left out. */
float bench_read(const float *vector, size_t length);

#endif
