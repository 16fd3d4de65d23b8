/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with as many workers as one machine can emulate (emulated/emulated.h), which come to it
 * through relays, or by themselves: what a report and a worker cost it, how long a signal takes to
 * the last of them, and how long it takes until all are there again after a relay has died. The
 * server is this process; each relay is one, and two more have the workers.
 */
#ifndef BENCH_RELAYS_H
#define BENCH_RELAYS_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/error.h>

typedef struct bench_relays_settings {
    uint32_t workers; /* >= 1 */
    uint32_t relays;  /* 0: workers connect to the server */
    uint32_t reports; /* of a round, >= workers */
    uint32_t batch;   /* reports of a worker in one frame */
    uint32_t rounds;  /* >= 1, of which the medians count */
} bench_relays_settings;

typedef struct bench_relays_result {
    uint32_t reports;          /* of a round */
    double reports_per_second; /* by the clock, from the first one to the signal; median */
    double report_cpu_seconds; /* of the server's process, for each */
    double signal_seconds;     /* from the server to the last worker; median */
    double worst_signal_seconds;
    double server_bytes; /* of memory, for each worker */
    double relay_bytes;  /* of all relays together, the same; 0: there are none */
} bench_relays_result;

/* One relay of several is killed in the middle of a round. */
typedef struct bench_relays_repair {
    uint32_t lost;      /* workers that it had */
    double detected;    /* seconds from its death until the first of them knew, */
    double repaired;    /* and until the last of them had the round again */
    double welcomed;    /* the longest that one waited, once it knew, to be welcome elsewhere: */
    double returned;    /* and to have the round again, */
    double round_trips; /* which is so many times the first: that is a round trip meanwhile */
    uint64_t disturbed; /* orders to other workers meanwhile */
    bool exact;         /* the round's sum */
} bench_relays_repair;

/* Errors: those of site.h and emulated.h, SYSTEM, ARGUMENT (the limit of files), STATE (something
 * took longer than a minute). */
int bench_relays_run(const bench_relays_settings *settings, bench_relays_result *result,
                     tarry_diagnostic *diagnostic);
/* With two relays or more. The same errors. */
int bench_relays_repair_run(const bench_relays_settings *settings, bench_relays_repair *result,
                            tarry_diagnostic *diagnostic);

/* `tarry-bench relays`: argv[0] is "relays". Gives back the exit status. */
int command_bench_relays(int argc, char **argv);

#endif
