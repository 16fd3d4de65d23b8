/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials for connections within one process, made for one measurement. */
#ifndef BENCH_CLUSTER_H
#define BENCH_CLUSTER_H

#include <tarry/tcp.h>

#include "runtime/tcp/trust/credential.h"

typedef struct bench_cluster bench_cluster;

/* In a folder of its own below $TMPDIR or /tmp. Ctrl-C and its like remove that and end the process
 * with EXIT_FAILED while there is one. Errors: FILE, SYSTEM, NO_MEMORY, FORMAT. */
int bench_cluster_create(bench_cluster **out, tarry_diagnostic *diagnostic);
/* Removes the folder. NULL is allowed. */
void bench_cluster_free(bench_cluster *cluster);

/* NULL cluster: plain text. */
tarry_tcp_security bench_cluster_server(const bench_cluster *cluster);
tarry_tcp_security bench_cluster_worker(const bench_cluster *cluster);
const credential *bench_cluster_accepts(const bench_cluster *cluster);
const credential *bench_cluster_connects(const bench_cluster *cluster);

#endif
