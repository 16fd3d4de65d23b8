/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last times that a peer took for something, and the limit beyond which one is out of the
 * ordinary: the median plus 4 deviations, where the deviation is the median absolute one, scaled to
 * be that of a normal distribution. One outlier moves neither; that is what sets it apart from
 * estimate.h, whose mean and deviation follow each.
 *
 * Two things the median alone does not see. Of few times their spread is not known: the deviation
 * of n is at least median / 2n, which for the first one is what RFC 6298 takes. And the median lags
 * behind times that grow: the limit is at least 3 times the lesser of the last two, which one
 * outlier does not move either.
 */
#ifndef PROTOCOL_RECENT_H
#define PROTOCOL_RECENT_H

#include <stdint.h>
#include <string.h>

enum { RECENT_TIMES = 16 };

typedef struct recent {
    uint32_t count;                  /* of times, 0..RECENT_TIMES */
    uint32_t times_us[RECENT_TIMES]; /* microseconds, at most 71 minutes, the latest last; 0 beyond
                                         `count` */
} recent;

static inline void recent_add(recent *past, uint64_t time_ns)
{
    uint64_t us = time_ns / 1000;
    if (past->count == RECENT_TIMES)
        memmove(past->times_us, past->times_us + 1, --past->count * sizeof(*past->times_us));
    past->times_us[past->count++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

/* The lower of the two in the middle of an even number; sorts. */
static inline uint32_t recent_median_of(uint32_t *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t value = values[i], at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return values[(count - 1) / 2];
}

/* 0 without times. Some 300 comparisons: not for every message. */
static inline uint64_t recent_limit_ns(const recent *past)
{
    uint32_t count = past->count, values[RECENT_TIMES];
    if (count == 0)
        return 0;
    memcpy(values, past->times_us, sizeof(values));
    uint32_t median = recent_median_of(values, count);
    for (uint32_t i = 0; i < count; i++)
        values[i] = values[i] > median ? values[i] - median : median - values[i];
    double deviation = 1.4826 * recent_median_of(values, count);
    double least = median / (2.0 * count);
    double limit = median + 4 * (deviation > least ? deviation : least);
    if (count > 1) {
        const uint32_t *last = past->times_us + count - 2;
        double lesser = last[0] < last[1] ? last[0] : last[1];
        limit = 3 * lesser > limit ? 3 * lesser : limit;
    }
    return (uint64_t)(limit * 1000);
}

#endif
