/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_DRAW_H
#define TEST_DRAW_H

#include "base/random.h"

/* A number in -2..2, for vectors of which only the sums matter: a tenth of random_normal's time. */
static inline float draw_float(random_stream *stream)
{
    return (float)(int32_t)random_u32(stream) * 0x1p-30F;
}

#endif
