/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include "runtime/clock.h"

/* The monotonic clock, in seconds. */
static inline double clock_seconds(void)
{
    return (double)clock_now_ns() * 1e-9;
}

#endif
