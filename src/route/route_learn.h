/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of the next sum, by what the sums before have taken.
 *
 * Members say how long a sum took, and the latency of their connections. Of one sum the least time
 * counts, as who begins last waits for nobody, and the median latency; of several their medians.
 * What a sum took beyond its hops' latency, beside what it would take with the usual links, is the
 * connections' *slowness*: bandwidth and the time of a message are the usual ones by it. Kinds of
 * shapes differ in what the model of route_cost.h leaves out (TCP's start, processors that are
 * shared): that is told apart once a kind was *tried*, for a few sums, and forgotten after many. A
 * kind that was not is taken to be as slow as the present one. It is tried if it takes less than
 * nine tenths of the present shape's time so, or after some patience less than twice that, and left
 * again if it does not, or if its sums fail.
 *
 * Nothing here reads a clock.
 */
#ifndef ROUTE_ROUTE_LEARN_H
#define ROUTE_ROUTE_LEARN_H

#include <tarry/shape.h>

#include "route/route_cost.h"

enum {
    ROUTE_LEARN_ASKED = 101,     /* members at most whose latencies count in a sum */
    ROUTE_LEARN_SUMS = 5,        /* the last ones of a shape, of which medians are taken */
    ROUTE_LEARN_TRIED = 3,       /* so many of them are enough to go by; the first one that a shape
                                    makes does not count, as it may have to connect members */
    ROUTE_LEARN_PATIENCE = 64,   /* sums in a shape before one is tried that seems to be worse: */
    ROUTE_LEARN_WORTH = 2,       /* by less than that */
    ROUTE_LEARN_FORGOTTEN = 500, /* sums after which a kind that was tried may be tried again */
    ROUTE_LEARN_KINDS = TARRY_SHAPE_TREE + 1,
};

/* The last values, of which there are `count`. */
typedef struct route_lately {
    double values[ROUTE_LEARN_SUMS];
    uint64_t count;
} route_lately;

typedef struct route_learner {
    uint32_t every; /* of the workers one in so many is asked for its latency */
    double dimension;
    /* The sum that was begun last: */
    bool open; /* it is to be learned of */
    route of;
    uint32_t parts; /* l */
    double took_ns; /* the least that was told; INFINITY: none was */
    uint32_t told;  /* members that did */
    uint32_t latencies;
    double latency_ns[ROUTE_LEARN_ASKED];
    /* What was learned: */
    route_lately latency, slowness;    /* slowness: in the present kind */
    double general;                    /* slowness of a kind whose factor is 1 */
    double factor[ROUTE_LEARN_KINDS];  /* of the kind's slowness; 0: it was not tried */
    uint64_t tried[ROUTE_LEARN_KINDS]; /* when, in sums */
    uint64_t sums;                     /* of which anything was learned, */
    uint64_t since;                    /* and of these in the present shape */
    uint64_t untold;                   /* sums in a row that were begun, and not told of */
    tarry_shape present;               /* AUTO: nothing was chosen yet */
} route_learner;

/* Of workers 0 .. workers - 1, for sums of so many numbers (>= 1). */
void route_learner_init(route_learner *it, uint32_t workers, double dimension);

/* A sum begins in the shape that was chosen last, of which all is to be learned: all members begin
 * it at once, and nothing of it stands. */
void route_learn_begin(route_learner *it, uint32_t count, uint32_t parts);
/* One of its members, for the first time, has it: how long it took, from when all with which it
 * exchanges numbers had begun, > 0; and the latency of its connections, one way, 0: it does not
 * know. Without a sum that was begun nothing happens. */
void route_learn_told(route_learner *it, uint32_t worker, uint64_t took_ns, uint64_t latency_ns);

/*
 * What is told of the sum before is learned, if half of its members have told, and the shape of the
 * next one is chosen. `kind` as with route_choose. A shape that is new stays for ROUTE_LEARN_TRIED
 * + 1 sums, if it is legal; if none of as many is told of it is left for another that was tried.
 */
tarry_shape route_learn_choose(route_learner *it, tarry_shape_kind kind, uint32_t count,
                               uint32_t parts);
/* The links as they are known: with the usual values for what is not. */
route_links route_learn_links(const route_learner *it);
/* The same for those who look on: 0 where it is not known. The bandwidth is known where half of a
 * sum's time goes by it. */
tarry_links route_learn_known(const route_learner *it);

#endif
