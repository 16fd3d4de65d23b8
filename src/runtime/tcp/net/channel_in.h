/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CHANNEL_IN_H
#define RUNTIME_CHANNEL_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>

#include "runtime/tcp/net/channel.h"

/* Something large that comes in pieces, in their order. Memory is taken as bytes come, so that a
 * size that was only announced takes none. */

#define ASSEMBLY_MOST_BYTES (UINT64_C(1) << 30)

typedef struct assembly {
    uint8_t *bytes; /* by memory_allocate */
    size_t size;    /* that are there */
    size_t room;
    uint64_t total;
    bool begun;
} assembly;

/*
 * Room for `count` >= 1 bytes that belong at `first` of `total`; they count once assembly_add is
 * called. What begins at 0 begins anew. NULL: they don't follow what is there, are more than
 * `total` or that more than ASSEMBLY_MOST_BYTES, or there is no memory.
 */
uint8_t *assembly_reserve(assembly *self, uint64_t first, uint64_t count, uint64_t total,
                          const tarry_allocator *allocator);
/* Gives back whether all is there now. */
bool assembly_add(assembly *self, uint64_t count);
void assembly_clear(assembly *self, const tarry_allocator *allocator);

#endif
