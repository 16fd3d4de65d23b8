/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_CLOCK_H
#define LOCAL_CLOCK_H

#include <stdint.h>
#include <time.h>

/* The monotonic clock, in nanoseconds. */
static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline struct timespec clock_timespec(uint64_t time_ns)
{
    return (struct timespec){
        .tv_sec = (time_t)(time_ns / UINT64_C(1000000000)),
        .tv_nsec = (long)(time_ns % UINT64_C(1000000000)),
    };
}

#endif
