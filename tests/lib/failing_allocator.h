/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator that fails at its k-th allocation, and knows whether everything was given back. */
#ifndef TEST_FAILING_ALLOCATOR_H
#define TEST_FAILING_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

#include <tarry/allocator.h>

typedef struct failing_allocator {
    tarry_allocator allocator; /* what the tested function gets */
    size_t fail_at;            /* this allocation, counted from 0, and all later ones give NULL */
    size_t allocations;        /* asked for so far */
    size_t live;               /* blocks not yet given back */
} failing_allocator;

void failing_allocator_init(failing_allocator *state, size_t fail_at);

/*
 * Makes each allocation of attempt(user, allocator) fail in turn, until it no longer runs into the
 * failure. attempt gives back what the tested function returned, having freed what that made.
 * Asserts that each failure is reported as TARRY_ERROR_NO_MEMORY, that the last run returns
 * TARRY_OK, and that no block is left over. Gives back how many allocations the whole run makes.
 */
size_t fail_each_allocation(int (*attempt)(void *user, const tarry_allocator *allocator),
                            void *user);

#endif
