/* SPDX-License-Identifier: Apache-2.0 */
/* How fast something gets on of late, by the times at which it was looked at. */
#ifndef CLI_RATE_H
#define CLI_RATE_H

#include <stdint.h>

enum { RATE_MARKS = 16 };

#define RATE_STEP 1.0 /* seconds between two marks at least */

typedef struct rate {
    struct {
        double time; /* seconds, without those that do not count */
        uint64_t done;
    } marks[RATE_MARKS]; /* the last ones, in order */
    unsigned count;
    double passed_over; /* seconds that do not count */
} rate;

/* `done` units were done before, and more follow from `now`, in seconds. */
void rate_begin(rate *its, uint64_t done, double now);
/* So many seconds since the last look say nothing: nothing could be done in them. */
void rate_pass_over(rate *its, double seconds);
/*
 * Units per second, over the last RATE_MARKS looks or RATE_MARKS steps, whichever is longer; 0 if
 * no time has passed. `done` and `now` never go back.
 */
double rate_look(rate *its, uint64_t done, double now);

#endif
