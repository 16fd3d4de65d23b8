/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/rate.h"

#include <string.h>

static void add_mark(rate *its, uint64_t done, double time)
{
    if (its->count == RATE_MARKS) {
        memmove(its->marks, its->marks + 1, (RATE_MARKS - 1) * sizeof(its->marks[0]));
        its->count--;
    }
    its->marks[its->count].time = time;
    its->marks[its->count++].done = done;
}

void rate_begin(rate *its, uint64_t done, double now)
{
    *its = (rate){.count = 0};
    add_mark(its, done, now);
}

void rate_pass_over(rate *its, double seconds)
{
    its->passed_over += seconds;
}

double rate_look(rate *its, uint64_t done, double now)
{
    double time = now - its->passed_over;
    double seconds = time - its->marks[0].time;
    double result = seconds > 0 ? (double)(done - its->marks[0].done) / seconds : 0;
    if (time - its->marks[its->count - 1].time >= RATE_STEP)
        add_mark(its, done, time);
    return result;
}
