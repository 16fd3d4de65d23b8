/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DOT_H
#define BASE_DOT_H

#include <stddef.h>

/* a^T b of `count` numbers each, added one after the other: the same bits on every machine. */
static inline double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

#endif
