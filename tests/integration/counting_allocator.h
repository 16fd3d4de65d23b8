/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator that counts the bytes which are held, and the most that ever were. */
#ifndef TEST_COUNTING_ALLOCATOR_H
#define TEST_COUNTING_ALLOCATOR_H

#include <stdatomic.h>
#include <stdint.h>

#include <tarry/allocator.h>

typedef struct counting_allocator {
    tarry_allocator allocator;
    _Atomic uint64_t live, most; /* bytes */
} counting_allocator;

/* It stays where it is. */
void counting_allocator_init(counting_allocator *state);

#endif
