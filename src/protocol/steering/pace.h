/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a worker is: nanoseconds per unit of cost, from what it finished in this round and in
 * those before. What came out of earlier rounds counts as much as PACE_PAST units of cost finished
 * in this one, so that a wrong pace is forgotten within a few chunks.
 *
 * A chunk that takes longer than expected counts before it is finished: after a time e without an
 * end, the expected time of a heavy-tailed computation is about 2 e.
 */
#ifndef PROTOCOL_PACE_H
#define PROTOCOL_PACE_H

typedef struct pace {
    double past; /* ns per cost, of earlier rounds; 0: not known */
    double cost; /* finished in this round */
    double ns;   /* that it took */
} pace;

#define PACE_PAST 1.0   /* weight of earlier rounds, in units of cost */
#define PACE_PRIOR 0.05 /* weight of what other workers take, where there are none */
#define PACE_OUTLIER 16 /* a chunk counts as at most so many times what was expected */

/*
 * The expected ns per cost, given that a chunk of cost `busy` has been computed for `elapsed` ns
 * (busy 0: none is), and that the workers that are known take `prior`; 0 if nothing is known.
 */
static inline double pace_of(const pace *of, double prior, double busy, double elapsed)
{
    double weight = of->past > 0 ? PACE_PAST : PACE_PRIOR;
    double base = of->past > 0 ? of->past : prior;
    if (!(base > 0)) {
        if (!(of->cost > 0))
            return 0;
        weight = 0;
    }
    double expected = (weight * base + of->ns) / (weight + of->cost);
    if (elapsed <= expected * busy)
        return expected;
    return (weight * base + of->ns + 2 * elapsed) / (weight + of->cost + busy);
}

/* A chunk of cost `cost` > 0 took `ns`, where `expected` was the pace before (0: unknown). */
static inline void pace_add(pace *of, double cost, double ns, double expected)
{
    double most = PACE_OUTLIER * expected * cost;
    of->cost += cost;
    of->ns += expected > 0 && ns > most ? most : ns;
}

/* The round is over, and `last` is what pace_of gave at its end. */
static inline void pace_end_round(pace *of, double last)
{
    of->past = last;
    of->cost = of->ns = 0;
}

#endif
