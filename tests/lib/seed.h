/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SEED_H
#define TEST_SEED_H

#include <stdint.h>

/* The seed of a random test: TARRY_TEST_SEED if that is set, else `fallback`; printed, so that a
 * failure can be repeated. */
uint64_t test_seed(const char *test, uint64_t fallback);

#endif
