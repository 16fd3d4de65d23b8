/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARRY_ALLOCATOR_H
#define TARRY_ALLOCATOR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where an object takes its memory from. NULL in place of an allocator stands for the C library's.
 * An object keeps a copy of the structure, so only `user` must live on. It calls it from the thread
 * that calls the object.
 */
typedef struct tarry_allocator {
    void *user;
    /* count * size bytes, zeroed, aligned for any type;
     * NULL on failure. The product never overflows. */
    void *(*allocate)(void *user, size_t count, size_t size);
    /* Takes back a block of `allocate`; NULL is allowed. */
    void (*release)(void *user, void *block);
} tarry_allocator;

#ifdef __cplusplus
}
#endif

#endif
