/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network runtime against the machine's own limits, over loopback. Workers are peers
 * (peer.h), whose chunks and coded parts cost nothing, but where it is said that they are the
 * runtime's own. Bare means: bare calls of the system, or of OpenSSL with the same cipher, that
 * move the same bytes over as many connections, with one thread on each side; the server has its
 * loop's thread and those that decode. What is compared takes turns.
 */
#ifndef BENCH_NETWORK_H
#define BENCH_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

#include "program/cluster.h"

typedef struct bench_network_settings {
    uint32_t workers;     /* >= 1 */
    size_t dimension;     /* d >= 1 */
    size_t stripe_length; /* 0: as the runtime chooses */
    uint32_t rounds;      /* >= 1, of which the medians count */
    uint32_t reports;     /* of a round, >= workers */
    uint32_t idle;        /* workers that do nothing, >= 1 */
} bench_network_settings;

/* Medians. */
typedef struct bench_network_pair {
    double bare, ours;
    double ratio; /* median of the rounds' ratios, each of two that followed each other */
} bench_network_pair;

/* Coded parts, one of each worker, until their sum is there: bytes per second from the signal on.
 * cluster: NULL for plain text. Errors of all: those of site.h and bench_crew.h, SYSTEM,
 * NUMERICAL (the sum is wrong). */
int bench_network_parts(const bench_network_settings *settings, const bench_cluster *cluster,
                        bench_network_pair *pair, tarry_diagnostic *diagnostic);

/* Reports of finished chunks per second, `batch` of them per write, until the signal; the bare
 * reader counts frames. */
int bench_network_reports(const bench_network_settings *settings, uint32_t batch,
                          bench_network_pair *pair, tarry_diagnostic *diagnostic);

/* Bytes of memory that the server takes for each of `idle` workers that are connected, after one
 * round, beyond what it had before they were. */
int bench_network_idle(const bench_network_settings *settings, const bench_cluster *cluster,
                       double *bytes, tarry_diagnostic *diagnostic);

/* `tarry-bench network`: argv[0] is "network". Gives back the exit status. */
int command_bench_network(int argc, char **argv);

#endif
