/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which replication, how many pieces and how many parts are best for given workers: choices are
 * simulated on the same draws, with the dynamic order, and judged by its time, the memory of a
 * worker and how often the data is stored.
 */
#ifndef CLI_ADVISE_H
#define CLI_ADVISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/plan/advise_options.h"

typedef struct advice_choice {
    uint32_t replication, pieces, parts;
    tarry_keep keep;
    uint32_t ahead;        /* with credited */
    uint64_t trials;       /* fewer where the choice fell behind in a first look */
    double first_seconds;  /* of the first round, median; NaN if no trial could end */
    double seconds;        /* of the rounds of the second half, median */
    double signal_seconds; /* of the same, from start to signal */
    uint64_t memory_bytes; /* of the worker with the most chunks: gradients that it keeps, and
                              a coded part */
    uint64_t upload_bytes; /* per worker and round: a coded part */
    double control_bytes;  /* of all other messages of a round, both ways, mean */
    double copies;         /* computed per piece, mean */
    size_t failed;         /* trials that could not end, since too many workers were lost */
    bool pareto;           /* no other choice is as good in time, memory and replication, and
                              better in one of them */
} advice_choice;

typedef struct advice {
    size_t count;           /* of the choices that were simulated */
    advice_choice *choices; /* by ascending seconds; those that failed are the last */
    size_t recommended;     /* index of a choice that never failed */
    size_t too_large;       /* choices left out for --memory */
    size_t unpromising;     /* not simulated: others promise more */
    double run_seconds;     /* that the trials took */
} advice;

/*
 * Runs the search; the caller frees *out with advice_free. Recommended is what takes the least
 * time; of those within 2% of it the one with the least memory, then replication, pieces and parts.
 * Gives back OPTIONS_PROCEED, or the exit status after a complaint.
 */
int advise(const advise_options *options, advice *out);
void advice_free(advice *found);

#define ADVICE_TIE 1.02 /* times that differ by less are equal */

/* What is judged by. */
typedef double advice_time(const advice_choice *choice);
/* Of the choices with so many parts (0: any) what takes the least time, of those within 2% of it
 * the one with the least memory, then replication, pieces and parts; what was simulated in all
 * `trials` goes first. NULL: there is none that never failed. */
const advice_choice *advice_best(const advice *found, uint32_t parts, advice_time *time,
                                 uint64_t trials);
double advice_round_time(const advice_choice *choice);
double advice_signal_time(const advice_choice *choice);

#endif
