/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures that callers fill in and that later versions make longer. Their first member is the
 * size that they had where the caller was compiled: their init sets it, and whoever reads such a
 * structure refuses one of another size.
 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include <stdbool.h>
#include <string.h>

#include "base/diagnostic.h"

/* Zeroes the caller's structure and notes its size. False: it is not as long as it is here (`own`),
 * and is to be left so. */
static inline bool sized_begin(void *structure, size_t size, size_t own)
{
    memset(structure, 0, size);
    memcpy(structure, &size, sizeof(size));
    return size == own;
}

/* Errors: ARGUMENT. */
static inline int sized_check(size_t size, size_t own, const char *what,
                              tarry_diagnostic *diagnostic)
{
    return size == own ? TARRY_OK
                       : diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                                  size == 0 ? "%s: settings that were not initialized"
                                            : "%s: settings of another version's headers",
                                  what);
}

#endif
