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

#include <tarry/event.h>

#include "cli/options/options.h"
#include "cli/simulate/simulate_options.h"

/* The options of tarry plan --advise, and what an earlier run's report says in place of them. */

/* Which forms and local steps tarry plan --advise --pilot weighs against each other. */

enum { CANDIDATE_WORDS = 16, CANDIDATE_WORD_SIZE = 32 };

/* Of a flag, in its order. */
typedef struct candidate_list {
    size_t count;
    char words[CANDIDATE_WORDS][CANDIDATE_WORD_SIZE];
} candidate_list;

typedef struct candidate_options {
    const char *pilot; /* a job file, or "synthetic"; NULL: no candidates are asked for */
    const char *compress, *down, *local_steps; /* as given, or NULL; taken apart into the lists */
    candidate_list forms, downs, steps;
    uint32_t seeds; /* of pilots */
    bool given;     /* one of these, without which the others have no meaning */
} candidate_options;

typedef struct advise_options {
    /* The workers, links and trials, and in its defaults the lists of choices. Until
     * advise_options_settle, 0, NaN and NULL stand for what was not given. */
    simulate_options world;
    bool advise;
    const char *from;                         /* an earlier run's report; may be NULL */
    uint64_t memory;                          /* most bytes per worker; 0: no limit */
    int keep;                                 /* a tarry_keep, or ADVISE_KEEP_BOTH */
    const char *replication, *pieces, *parts; /* as given; taken apart into the lists */
    candidate_options candidates;
    bool json;
    bool all;

    /* What the report gave; free with advise_options_release. */
    char *report_straggler, *report_chunk_cost;
    double *worker_seconds; /* the world's; NULL: not known */
} advise_options;

#define ADVISE_GROUPS (5 + SIMULATE_WORLD_GROUPS)

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

/*
 * Parts, forms of numbers and local steps beside each other: what a round of each moves and takes,
 * by simulated rounds over the same links, what each costs in loss, by short trainings, and from
 * both how long each takes to float32's loss.
 */

typedef struct candidate {
    const advice_choice *choice;         /* with its parts; of one part, with a form */
    const char *compress, *down, *steps; /* words of the options */
    double seconds;                      /* of a round; NaN: no trial could end */
    double up_bytes;                     /* of all coded parts of a round */
    double down_bytes;                   /* of the parameters of a round, to all workers */
    double loss_most;  /* after the job's rounds, over float32's, less 1: the largest of the seeds;
                          INFINITY: it diverged */
    double loss_least; /* the least */
    uint64_t rounds;   /* to float32's loss for good, with the seed that needs most; 0: not within
                          those of   a pilot */
    double total_seconds; /* of so many rounds; INFINITY: it does not get there */
} candidate;

typedef struct candidates {
    size_t count;
    candidate *items;   /* by ascending total_seconds, then by loss */
    size_t recommended; /* the index; count: none gets there */
    uint64_t rounds;    /* the job's */
    double loss;        /* float32's after these, with the job's seed */
    double run_seconds; /* that the pilots took */
} candidates;

/* tarry plan --advise: exit status. */
int command_plan_advise(int argc, char **argv);

#endif
