/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with as many workers as one machine can emulate (emulated/emulated.h): what a report and
 * a worker cost it, and how long a signal takes to the last of them. The server is this process;
 * two more have the workers.
 */
#ifndef BENCH_CONNECTIONS_H
#define BENCH_CONNECTIONS_H

#include <stdint.h>

#include <tarry/error.h>

typedef struct bench_connections_settings {
    uint32_t workers; /* >= 1 */
    uint32_t reports; /* of a round, >= workers */
    uint32_t batch;   /* reports of a worker in one frame */
    uint32_t rounds;  /* >= 1, of which the medians count */
} bench_connections_settings;

typedef struct bench_connections_result {
    uint32_t reports;          /* of a round */
    double reports_per_second; /* by the clock, from the first one to the signal; median */
    double report_cpu_seconds; /* of the server's process, for each */
    double signal_seconds;     /* from the server to the last worker; median */
    double worst_signal_seconds;
    double server_bytes; /* of memory, for each worker */
} bench_connections_result;

/* Errors: those of site.h and emulated.h, SYSTEM, ARGUMENT (the limit of files), STATE (something
 * took longer than a minute). */
int bench_connections_run(const bench_connections_settings *settings,
                          bench_connections_result *result, tarry_diagnostic *diagnostic);

/* `tarry-bench connections`: argv[0] is "connections". Gives back the exit status. */
int command_bench_connections(int argc, char **argv);

#endif
