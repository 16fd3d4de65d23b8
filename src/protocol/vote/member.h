/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may step on which sum: a worker's half. One order is in progress at a time; a new one ends
 * it. It knows no plan and no vectors, and carries nothing out: each call says what to do.
 */
#ifndef PROTOCOL_VOTE_MEMBER_H
#define PROTOCOL_VOTE_MEMBER_H

#include <tarry/event.h>

typedef enum member_task {
    MEMBER_RESTS,
    MEMBER_ENCODES, /* what REDUCE will sum */
    MEMBER_REDUCES,
    MEMBER_FETCHES,
    MEMBER_LOADS,
    MEMBER_STEPS, /* which nothing ends */
} member_task;

typedef struct member {
    uint32_t epoch;    /* that it was asked in; 0: never */
    uint32_t orders;   /* the count of the last order that it took in that epoch, */
    uint32_t answers;  /* and of the last one but BREAK, to which it has to say something */
    tarry_sum_id last; /* that it has stepped on; step 0: it has the first state */
    tarry_sum_id held; /* step 0: none */
    uint64_t state;    /* a digest of the parameters after `last`; 0: not known */
    member_task task;
    tarry_sum_id sum; /* that the task is about; a name while it encodes and reduces */
    uint32_t from;    /* FETCHES, LOADS: the source */
    bool digests;     /* LOADS, STEPS: a digest of the parameters is wanted */
    bool asked;       /* it was asked while it stepped, and has yet to answer */
} member;

/* What follows, in this order. */
typedef struct member_says {
    bool rejects; /* and nothing has changed */
    tarry_reject why;
    bool abandons; /* the engine, or the transfer, in progress */
    bool begins;   /* its `task` */
    bool answers;
    tarry_message answer; /* type, sum, last, from, fetched, state */
} member_says;

/* An order to which the parts and copies of a round are nothing: ASK, BREAK, FETCH, LOAD, COMMIT.
 * One that comes again, or later than one that was given after it, is stale. */
member_says member_order(member *it, const tarry_message *order);
/* A SIGNAL that is good otherwise: it encodes from here on. */
member_says member_signal(member *it, const tarry_sum_id *name);
/* All is encoded: REDUCE. */
void member_reduce(member *it);
/* The round is over without the sum that it may be making. */
member_says member_finish(member *it);
/* The end of what was begun: REDUCED, FETCHED, LOADED, STEPPED. */
member_says member_ended(member *it, const tarry_event *event);

#endif
