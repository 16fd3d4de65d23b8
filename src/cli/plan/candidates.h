/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts, forms of numbers and local steps beside each other: what a round of each moves and takes,
 * by simulated rounds over the same links, what each costs in loss, by short trainings, and from
 * both how long each takes to float32's loss.
 */
#ifndef CLI_CANDIDATES_H
#define CLI_CANDIDATES_H

#include "cli/plan/advise.h"

#define CANDIDATE_CLOSE 0.005 /* a loss that is so much above another one is as good */
#define CANDIDATE_MORE 2      /* times the job's rounds that a pilot may have */

typedef struct candidate {
    const advice_choice *choice;         /* with its parts; of one part, with a form */
    const char *compress, *down, *steps; /* words of the options */
    double seconds;                      /* of a round; NaN: no trial could end */
    double dense_seconds;                /* of one that is dense; that of a round, without any */
    double up_bytes, dense_up_bytes;     /* of all coded parts of a round */
    double down_bytes;                   /* of the parameters of a round, to all workers */
    uint64_t first, last;                /* rounds that are dense, of the job's */
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

/*
 * `found` is borrowed until candidates_free. Recommended is what takes the least time to float32's
 * loss; of those within 2% of it what moves the fewest bytes in a round. Gives back
 * OPTIONS_PROCEED, or the exit status after a complaint.
 */
int candidates_weigh(const advise_options *options, const advice *found, candidates *out);
void candidates_free(candidates *weighed);

/* The share of the rounds 0..rounds-1 of a run that are dense. */
double candidate_dense_share(const candidate *one, uint64_t whole, uint64_t rounds);

#endif
