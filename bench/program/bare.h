/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the system itself, or OpenSSL, moves over loopback: one thread writes, one waits by epoll
 * and reads, over as many connections as there are workers.
 */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

#include "runtime/tcp/trust/credential.h"

typedef struct bench_bare bench_bare;

typedef struct bench_bare_job {
    const uint8_t *bytes; /* written over every connection, one after the other, */
    size_t size;          /* >= 1, in pieces of */
    size_t piece;         /* >= 1 */
    size_t repeats;       /* so often */
    bool counts;          /* the bytes are frames, and whoever reads counts them */
} bench_bare_job;

/* server and worker: NULL for plain text. Errors: SYSTEM, NO_MEMORY. */
int bench_bare_open(uint32_t connections, const credential *server, const credential *worker,
                    bench_bare **out, tarry_diagnostic *diagnostic);
void bench_bare_free(bench_bare *bare); /* NULL is allowed */

/* Seconds from the first write to the last read, and the frames if they were counted. Errors:
 * SYSTEM, FORMAT (frames that are none). */
int bench_bare_run(bench_bare *bare, const bench_bare_job *job, double *seconds, uint64_t *frames,
                   tarry_diagnostic *diagnostic);

#endif
