/* SPDX-License-Identifier: Apache-2.0 */
/* A link of a given round trip and rate, on loopback: it takes a connection and makes one to where
 * it leads, and hands on what comes of either, late and no faster than that. It holds no more than
 * the link would: what is on its way, and a queue as long again. It ends TCP's own connections, so
 * that their windows have no part in it. */
#ifndef BENCH_ROAD_H
#define BENCH_ROAD_H

#include <tarry/error.h>

typedef struct bench_road {
    double round_trip; /* seconds */
    double rate;       /* bits a second, each way */
    int listener;      /* of bench_line_listen */
    char leads[64];    /* host and port */
} bench_road;

/* Takes one connection and serves it until it is over. Errors: SYSTEM, FORMAT, NO_MEMORY. */
int bench_road_run(const bench_road *road, tarry_diagnostic *diagnostic);

#endif
