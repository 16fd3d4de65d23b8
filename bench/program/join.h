/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that joins others over a long link: how long its state takes, and what that costs the
 * sums of the others. All are processes of this machine, with connections and without a server. */
#ifndef BENCH_JOIN_H
#define BENCH_JOIN_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/error.h>

enum { JOIN_MEMBERS_MOST = 64, JOIN_TIMES_MOST = 4096 };

typedef struct bench_join_settings {
    uint32_t members;  /* >= 2: those who sum */
    size_t dimension;  /* of their sums, >= 1 */
    double compute;    /* seconds that each waits between two sums */
    uint32_t times;    /* sums without a load, after two that do not count */
    uint64_t state;    /* bytes */
    double round_trip; /* seconds; of the link between the joiner and the first member */
    double rate;       /* bits a second, each way */
} bench_join_settings;

typedef struct bench_join_row {
    double seconds;       /* of the load, from the question until its digest was found right */
    double written;       /* of these, in which its source wrote the state down */
    double alone, beside; /* median seconds of a sum, without a load and with one */
    double longest;       /* of those with one */
    double longest_alone;
    uint32_t sums; /* with a load */
} bench_join_row;

/* Errors: those of connections, NO_MEMORY, SYSTEM (a process ended, a sum or the load failed). */
int bench_join_run(const bench_join_settings *settings, bench_join_row *row,
                   tarry_diagnostic *diagnostic);

/* `tarry-bench join`: argv[0] is "join". Gives back the exit status. */
int command_bench_join(int argc, char **argv);

#endif
