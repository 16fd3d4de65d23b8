/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thousands of workers in a process or two. They speak the runtime's protocol over plain Unix
 * sockets, but have no machine and compute nothing: a worker's reports are there as soon as it is
 * asked for them, and its coded part is zeros. So what a round takes is what the server and the way
 * to it take. Another process, whose memory the tally shares, says when to report, and reads what
 * became of it. A worker that loses its connection comes again.
 */
#ifndef BENCH_EMULATED_H
#define BENCH_EMULATED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarry/error.h>
#include <tarry/plan.h>

enum { EMULATED_TEXT_BYTES = 160 };

typedef struct emulated_settings {
    const tarry_plan *plan; /* borrowed */
    uint32_t first, count;  /* workers of it; others are other processes' */
    uint32_t batch;         /* reports in a frame, 1: each is a message; 1..WIRE_BATCH_MOST */
    size_t dimension;       /* numbers of a coded part, which is one stripe */
    const char *address;    /* "unix:PATH" */
} emulated_settings;

/* Shared by the processes; all zeros before they begin. Counts grow over all
 * rounds, but where it is said. Times are of the monotonic clock. */
typedef struct emulated_tally {
    /* What is wanted. */
    _Atomic bool open;           /* the address can be connected to */
    _Atomic uint32_t rounds_due; /* of so many rounds reports are to go out, once all workers of a
                                    process are in it */
    /* What has come of it. */
    _Atomic uint32_t ready;     /* workers that have said READY */
    _Atomic uint32_t in_round;  /* workers that a round has come to */
    _Atomic uint64_t began_ns;  /* when the first report of a round went out; set to 0 before */
    _Atomic uint32_t signalled; /* workers that have a round's signal, */
    _Atomic uint64_t signal_ns; /* and when the last of all had it */
    _Atomic bool failed;        /* for the reason `why` */
    char why[EMULATED_TEXT_BYTES];
} emulated_tally;

/* Takes part in rounds until the server ends the run. A failure is in the tally, too. Errors:
 * NO_MEMORY, SYSTEM, STATE (refused), FORMAT. */
int emulated_run(const emulated_settings *settings, emulated_tally *tally,
                 tarry_diagnostic *diagnostic);

#endif
