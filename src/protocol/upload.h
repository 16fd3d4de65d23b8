/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long an attempt takes by the numbers that each worker uploads: the line of least squares
 * through those seen so far, of which older ones count less and less (the gain is estimate.h's).
 * As long as all were of one length, time is taken as proportional to it: optimistic for shorter
 * ones where the latency counts, and right after the first of them.
 */
#ifndef PROTOCOL_UPLOAD_H
#define PROTOCOL_UPLOAD_H

#include <math.h>
#include <stdbool.h>

typedef struct upload_line {
    bool known;            /* something has been seen */
    double numbers, time;  /* weighted means */
    double squares, mixed; /* of numbers^2, and of numbers * time */
} upload_line;

/* Predicted nanoseconds; falls neither below 0 nor as `numbers` grow, and grows no faster than
 * they. Something has been seen. */
static inline double upload_at(const upload_line *seen, double numbers)
{
    double steepest = seen->time / seen->numbers;
    double spread = seen->squares - seen->numbers * seen->numbers;
    double slope = steepest;
    if (spread > 1e-6 * seen->numbers * seen->numbers) {
        slope = (seen->mixed - seen->numbers * seen->time) / spread;
        slope = slope < 0 ? 0 : slope > steepest ? steepest : slope;
    }
    return seen->time + slope * (numbers - seen->numbers);
}

/* An attempt in which someone was held up says little of the links: 4 times the prediction is the
 * most that counts. */
static inline void upload_add(upload_line *seen, double numbers, double time_ns)
{
    double most = seen->known ? 4 * upload_at(seen, numbers) : INFINITY;
    double time = most > 0 && time_ns > most ? most : time_ns;
    double gain = seen->known ? 1.0 / 8 : 1;
    seen->known = true;
    seen->numbers += gain * (numbers - seen->numbers);
    seen->time += gain * (time - seen->time);
    seen->squares += gain * (numbers * numbers - seen->squares);
    seen->mixed += gain * (numbers * time - seen->mixed);
}

#endif
