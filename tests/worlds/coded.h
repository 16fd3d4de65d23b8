/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coded parts of a world: coefficients in the place of numbers. Where the form has feedback
 * (feedback.c) they have whole numbers besides, and are sent as multiples of 64: so it is known to
 * the last unit what a residual should be. The books of that are those of one life of the server:
 * what was sent before is nobody's affair any more.
 */
#ifndef WORLDS_CODED_H
#define WORLDS_CODED_H

#include "worlds/secure.h"

/* A part of a stripe; number 0: none. */
typedef struct feedback_part {
    uint64_t number;     /* counts all that were encoded */
    int64_t meant, sent; /* what it is in truth, and what is sent for it */
    int64_t thin;        /* the same without what the round's factor makes of it */
} feedback_part;

/* What a coded part is made of: u[chunk][part], of this round or of `before`, whose parameters its
 * gradients belong to, and which plans say what the chunks are. Plans by their number. */
typedef struct coded {
    double u[MAX_CHUNKS][MAX_PARTS];
    uint32_t plan; /* of the worker that encoded it */
    uint32_t cut;  /* by which the worker chose its data: the same */
    uint32_t parameters;
    uint32_t stale;        /* chunks whose gradient is that of `before`, a bit each */
    uint64_t before;       /* a round */
    feedback_part rounded; /* with feedback: its numbers, in truth and as they are sent */
    secure_part masked;    /* of a secure sum: its words, as they are sent */
} coded;

/* What a worker's process has for a stripe. */
typedef struct feedback_stripe {
    int64_t residual;
    int64_t left;    /* by the last part that was encoded, */
    uint64_t number; /* which is that one; 0: its fate is known, or there is none */
    bool stands;     /* in the sum of its round, which is over */
} feedback_stripe;

typedef struct feedback_books {
    bool on;                                          /* the form has feedback, */
    bool shared;                                      /* and factors that all share */
    uint64_t parts;                                   /* encoded so far */
    feedback_part standing[MAX_WORKERS][MAX_STRIPES]; /* in the estimate */
    /* Meant less sent, of all that stands; and of it what was thrown away, or died. */
    int64_t owed[MAX_WORKERS][MAX_STRIPES], thrown[MAX_WORKERS][MAX_STRIPES];
    int64_t meant[MAX_STRIPES], sent[MAX_STRIPES]; /* of all sums */
} feedback_books;

#endif
