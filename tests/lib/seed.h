/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SEED_H
#define TEST_SEED_H

#include <stdbool.h>
#include <stdint.h>

/* The seed of a random test: TARRY_TEST_SEED if that is set, else `fallback`; printed, so that a
 * failure can be repeated. */
uint64_t test_seed(const char *test, uint64_t fallback);
/* Whether a test that has a longer form takes that: TARRY_TEST_LONG is set, and not empty. */
bool test_is_long(void);

#endif
