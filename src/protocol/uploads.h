/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How coded parts come in: one after the other, since the server's card carries no more, or beside
 * each other, as fast as each worker's link. What a part costs those behind it is learned from the
 * times in which at least one was under way, from their beginning to their end: of k parts and
 * their times t_j in a while of length w, sum t_j / w are under way on average. If they pass one
 * after the other, each takes as many times as long as it would alone; if beside each other, it
 * takes as long.
 */
#ifndef PROTOCOL_UPLOADS_H
#define PROTOCOL_UPLOADS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct uploads {
    uint32_t under_way, count; /* now; that came in since since_ns */
    uint64_t since_ns;         /* when the first of these was asked for */
    uint64_t heard_ns;         /* when the first stripe of these came in; 0: none */
    uint32_t stripes;          /* that came in, of anyone; */
    uint64_t whole_ns;         /* when they were last as many as whole parts have */
    double sum_ns;             /* that those that came in took */
    double least_ns;           /* the shortest of these */
    double alone_ns;           /* what one takes that nothing delays; 0: not known */
    bool known;
    double each_ns; /* by how much a part delays those behind it; if known */
} uploads;

/* What is under way is withdrawn. */
static inline void uploads_forget(uploads *seen)
{
    seen->under_way = 0;
}

static inline void uploads_begin(uploads *seen, uint64_t now)
{
    if (seen->under_way++ > 0)
        return;
    seen->count = 0;
    seen->since_ns = now;
    seen->heard_ns = 0;
    seen->stripes = 0;
    seen->sum_ns = 0;
    seen->least_ns = INFINITY;
}

/* A stripe came in, of a part that has `stripes`. */
static inline void uploads_hear(uploads *seen, uint64_t now, uint32_t stripes)
{
    if (seen->heard_ns == 0)
        seen->heard_ns = now;
    if (++seen->stripes % stripes == 0)
        seen->whole_ns = now;
}

/* Whether stripes still come in about as fast as since the while began: within twice the time that
 * as many as a part has took on average, as many more. Nothing else shows before so many are there.
 */
static inline bool uploads_flow(const uploads *seen, uint64_t now, uint32_t stripes)
{
    uint32_t parts = seen->stripes / stripes;
    return parts == 0 || now - seen->whole_ns < 2 * ((seen->whole_ns - seen->since_ns) / parts);
}

/* The while is over: nothing is under way. */
static inline void uploads_learn(uploads *seen, uint64_t now, uint32_t stripes)
{
    const double forget = 1.02, gain = 0.5, clearly = 1.5;
    double alone = seen->alone_ns * forget;
    seen->alone_ns = seen->alone_ns > 0 && alone < seen->least_ns ? alone : seen->least_ns;
    double length = (double)(now - seen->since_ns), average = seen->sum_ns / length;
    if (seen->count < 2 || !(average >= clearly) || !(seen->alone_ns > 0))
        return;
    double slower = seen->sum_ns / seen->count / seen->alone_ns;
    double share = fmin(fmax((slower - 1) / (average - 1), 0), 1);
    double each = share * (double)(now - seen->heard_ns) / (seen->count - 1.0 / stripes);
    seen->each_ns += seen->known ? gain * (each - seen->each_ns) : each;
    seen->known = true;
}

/* A part of so many stripes is complete, `time_ns` after it was asked for. */
static inline void uploads_end(uploads *seen, uint64_t time_ns, uint64_t now, uint32_t stripes)
{
    if (seen->under_way == 0)
        return; /* of one that was withdrawn */
    seen->count++;
    seen->sum_ns += (double)time_ns;
    seen->least_ns = fmin(seen->least_ns, (double)time_ns);
    if (--seen->under_way == 0)
        uploads_learn(seen, now, stripes);
}

#endif
