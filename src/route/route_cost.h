/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a sum takes in a shape, and the shape that takes least.
 *
 * A member sends through one card, the same for all; what it sends and gets passes at the same
 * time. The model counts what the busiest member does:
 *
 *   time = hops * latency + messages * time of a message + bytes sent / bandwidth + filling
 *
 * With n members, d numbers in l parts, rows of w and h of them:
 *
 *            hops             numbers sent                                          of each stripe,
 *   direct   2                (1 + 1/l) d (n-1)/n                                   1 + l messages
 *   grid     4                (1 + 1/l) d (w-1)/w + 2 d/w (h-1)/h                   per neighbour
 *   tree     2 log2 n         (3/2 + 1/(2l)) d                                      and way
 *
 * `filling` is the time until a tree's first stripe is through, beyond what it sends itself.
 */
#ifndef ROUTE_ROUTE_COST_H
#define ROUTE_ROUTE_COST_H

#include "route/route.h"

enum { ROUTE_BLOCK_NUMBERS = 1 << 15 }; /* the most of a slice in one stripe */

typedef struct route_links {
    double latency_ns;       /* from one member to another, >= 0 */
    double bytes_per_second; /* of a member's card, each way, > 0 */
    double message_ns;       /* a member's own time for sending or taking one, >= 0 */
} route_links;

/* A common cluster: 25 us, 10 Gb/s, 3 us. */
route_links route_links_usual(void);

/* Numbers of one part in a stripe, so that no slice of it has more than ROUTE_BLOCK_NUMBERS. */
size_t route_stripe_length(const route *of);
/* From a member to the last one that its coded part reaches, as part of a sum. */
uint32_t route_hops(const route *of);
/* Bytes that the busiest member sends, float32, but for rounding to lines and padding; of trees of
 * less than 4 members at most so many. dimension, parts >= 1. */
double route_bytes(const route *of, double dimension, uint32_t parts);
double route_time_ns(const route *of, double dimension, uint32_t parts, const route_links *links);

/* A present shape stays unless another one takes less than this part of its time. */
#define ROUTE_STAYS 0.9

/*
 * The shape that takes least. `present`, if it is legal, stays unless another one takes less than
 * nine tenths of its time: a change costs connections. `kind`, but for AUTO, is the one to be had
 * (a grid of less than 4 members is direct).
 */
tarry_shape route_choose(tarry_shape_kind kind, uint32_t count, double dimension, uint32_t parts,
                         const route_links *links, tarry_shape present);

#endif
