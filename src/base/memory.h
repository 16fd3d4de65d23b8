/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation through a tarry_allocator; NULL stands for the C library's. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

#include <tarry/allocator.h>

/* The allocator that `allocator` stands for: a copy of it, or the C library's. */
tarry_allocator memory_allocator(const tarry_allocator *allocator);

/* Room for count elements of size bytes, zeroed; NULL if there is none or the product overflows.
 * count may be 0. */
void *memory_allocate(const tarry_allocator *allocator, size_t count, size_t size);
void memory_release(const tarry_allocator *allocator, void *block);

/* For buffers that grow: room for `wanted`, which is `least` or more, by doubling what there is. */
size_t memory_room(size_t room, size_t wanted, size_t least);
/* A block of `room` elements of size bytes that begins with the first `kept` of `block`, which is
 * released; NULL: there is no memory, and nothing changes. */
void *memory_grow(const tarry_allocator *allocator, void *block, size_t kept, size_t room,
                  size_t size);

/* Joins the first `length` characters of one text and all of another. NULL: out of memory. */
char *memory_text(const tarry_allocator *allocator, const char *text, size_t length,
                  const char *more);

/* A vector of `length` zeroed floats that begins at a cache line; released by vector_release. */
float *vector_allocate(const tarry_allocator *allocator, size_t length);
void vector_release(const tarry_allocator *allocator, float *vector);

#endif
