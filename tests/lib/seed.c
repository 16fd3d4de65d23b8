/* SPDX-License-Identifier: Apache-2.0 */
#include "seed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t test_seed(const char *test, uint64_t fallback)
{
    const char *text = getenv("TARRY_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;
    printf("%s: TARRY_TEST_SEED=%" PRIu64 "\n", test, seed);
    return seed;
}

bool test_is_long(void)
{
    const char *text = getenv("TARRY_TEST_LONG");
    return text != NULL && text[0] != '\0';
}
