/* SPDX-License-Identifier: Apache-2.0 */
/* All workers of a measured server, as peers (peer.h) that one thread sends for. */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/plan.h>

#include "runtime/tcp/trust/credential.h"

typedef struct bench_crew bench_crew;

/*
 * Connects all workers of the plan, which is borrowed, to the server of the same plan. self: NULL
 * for plain text. Reports of a round go out once all workers have theirs, a worker's turn `batch`
 * of them. Errors: those of bench_peer_open.
 */
int bench_crew_open(const char *where, const credential *self, const tarry_plan *plan,
                    uint32_t batch, bench_crew **out, tarry_diagnostic *diagnostic);
/* Takes part in rounds until the server ends the run. Errors: those of peer.h. */
int bench_crew_run(bench_crew *crew, tarry_diagnostic *diagnostic);
/* The same in a thread of its own. Errors: SYSTEM. */
int bench_crew_start(bench_crew *crew, tarry_diagnostic *diagnostic);
/* When the first report of the last round went out, of the monotonic clock; after that round. */
uint64_t bench_crew_began_ns(const bench_crew *crew);
/* The number that each worker sends at `index` of every stripe of its coded part. */
float bench_crew_number(size_t index);
/* With a thread: the server must have been freed, as the thread ends then. NULL is allowed. Gives
 * back what became of the thread, TARRY_OK where there is none. */
int bench_crew_free(bench_crew *crew, tarry_diagnostic *diagnostic);

#endif
