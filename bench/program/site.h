/* SPDX-License-Identifier: Apache-2.0 */
/* A network server that is measured, in this process, with a plan and room for its rounds. */
#ifndef BENCH_SITE_H
#define BENCH_SITE_H

#include <stdatomic.h>

#include <tarry/tcp.h>

#include "program/cluster.h"

typedef struct bench_site_settings {
    tarry_plan_settings plan;
    size_t dimension;             /* d */
    size_t stripe_length;         /* 0: as the runtime chooses */
    const bench_cluster *cluster; /* NULL: plain text */
    const char *listen;           /* NULL: a loopback address */
} bench_site_settings;

typedef struct bench_site {
    tarry_plan *plan;
    tarry_runtime *server;
    float *sum;                 /* d numbers */
    _Atomic uint64_t signal_ns; /* when the last encode signal was about to go out, */
    _Atomic uint64_t cpu_ns;    /* and what processor time this process had taken by then */
} bench_site;

/* One round of a site, in seconds of the clock. Its signal waits for all chunks of all workers. */
typedef struct bench_site_round {
    uint64_t signal_ns;
    double seconds; /* from the signal until the sum is there */
    tarry_round_result result;
} bench_site_round;

/* Listens on a loopback address; `site` stays where it is until it is closed. Errors: those of
 * tarry_plan_create and tarry_tcp_server_create. */
int bench_site_open(bench_site *site, const bench_site_settings *settings,
                    tarry_diagnostic *diagnostic);
void bench_site_close(bench_site *site); /* allowed after a failed open, and twice */

/* Waits for all workers, a minute at most. Errors: STATE. */
int bench_site_wait(bench_site *site, tarry_diagnostic *diagnostic);
int bench_site_run(bench_site *site, bench_site_round *round, tarry_diagnostic *diagnostic);

#endif
