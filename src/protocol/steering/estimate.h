/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running mean and mean deviation of times, and the limit beyond which a time is out of the
 * ordinary. The gains and the factor 4 are those of RFC 6298 (TCP's retransmission timer).
 *
 * For times of all workers together, of attempts and rounds. Some of these are slower than others
 * in every round: no outliers to be overlooked, as a median would do (recent.h), but what a round
 * has to reckon with.
 */
#ifndef PROTOCOL_ESTIMATE_H
#define PROTOCOL_ESTIMATE_H

#include <math.h>
#include <stdint.h>

typedef struct estimate {
    double mean;
    double deviation;
    uint64_t samples;
} estimate;

static inline void estimate_add(estimate *times, uint64_t time_ns)
{
    double time = (double)time_ns;
    if (times->samples++ == 0) {
        times->mean = time;
        times->deviation = time / 2;
        return;
    }
    times->deviation += (fabs(time - times->mean) - times->deviation) / 4;
    times->mean += (time - times->mean) / 8;
}

/* mean + 4 deviations; 0 without samples. */
static inline uint64_t estimate_limit_ns(const estimate *times)
{
    return (uint64_t)(times->mean + 4 * times->deviation);
}

#endif
