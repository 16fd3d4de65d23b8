/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may step on which sum, where workers sum among themselves: the coordinator's half, and at the
 * end a worker's. It knows ids and names, no plan, no rounds, no vectors, and sends nothing itself:
 * it gives orders to a function of the caller's. docs/protocol.md has the rules;
 * tests/model/vote.pml checks them.
 *
 * Whatever is told changes what is known; vote_act then decides what follows from it. Times are
 * nanoseconds of a clock that never goes back.
 */
#ifndef PROTOCOL_VOTE_H
#define PROTOCOL_VOTE_H

#include <tarry/allocator.h>
#include <tarry/event.h>

#include "base/sum_id.h"

/* What is known of a worker's state. With one of the last four it has been given an order, which is
 * not answered yet. */
typedef enum vote_presence {
    VOTE_ABSENT,
    VOTE_READY,  /* has stepped on the last sum of the log */
    VOTE_BEHIND, /* has not */
    VOTE_ASKED,
    VOTE_FETCHING, /* that sum */
    VOTE_LOADING,
    VOTE_COMMITTING,
    VOTE_PRESENCES,
} vote_presence;

/* What a worker has answered in the attempt. */
typedef enum vote_answer {
    VOTE_NONE,      /* it is no voter */
    VOTE_WAITING,   /* it has not answered yet */
    VOTE_FAILED,    /* its engine failed */
    VOTE_REFETCHES, /* an order to fetch the sum is out */
    VOTE_UNFETCHED, /* that failed, too */
    VOTE_HELD,
    VOTE_ANSWERS,
} vote_answer;

typedef struct vote_member {
    vote_presence presence;
    vote_answer answer;
    tarry_sum_id last;    /* that it has stepped on, of the log; meaningful if it has_state */
    tarry_sum_id held;    /* step 0: none */
    uint64_t state;       /* a digest of its parameters after `last`; 0: not told */
    bool has_state;       /* what it has may be gone on from; else it has to load */
    bool strays;          /* that is another digest than most have, */
    bool stray_due;       /* which the caller has to know, as it took part */
    bool ask_due;         /* it is to be asked */
    bool break_due;       /* what it does can't be completed: it is to be told, */
    uint32_t broken_by;   /* and because of whom */
    bool at_fault;        /* of what the last attempt failed for */
    uint32_t orders;      /* given to this arrival, but for questions */
    uint32_t awaited;     /* the count of the one that is to be answered */
    tarry_sum_id ordered; /* what it was told to fetch, load or step on, */
    uint32_t from;        /* and from whom */
    uint32_t suspects;    /* FAILED: whom it suspects; TARRY_NO_WORKER */
    uint64_t ordered_ns;  /* when */
    uint64_t load_ns;     /* what its last load took; 0: there was none */
    bool catches_up;      /* it has got a state or a sum of others since it was ready */
    bool moved;           /* whether it takes part may have changed since vote_next_moved told */
    uint32_t tries;       /* transfers in a row that failed */
    uint64_t again_ns;    /* BEHIND: not before then is another one begun */
} vote_member;

typedef enum vote_phase {
    VOTE_CLOSED,    /* no attempt is out */
    VOTE_OPEN,      /* voters sum, or fetch the sum */
    VOTE_LOGGING,   /* `pending` is being written to the log */
    VOTE_RETURNING, /* so is the return to the state after `pending` */
} vote_phase;

typedef struct vote {
    tarry_allocator allocator;
    uint32_t workers;
    uint64_t grace_ns;
    uint32_t attempts_most;
    uint32_t digest_steps;

    tarry_sum_id log[2];    /* the last entry and the one before; step 0: none */
    uint64_t states[2];     /* a digest of the parameters after each of them, as most have them; 0:
                               not known */
    uint32_t term, attempt; /* the last attempt of the term */
    tarry_sum_id vectors;   /* a checkpoint of the state after it lies where workers find it, */
    bool has_vectors;       /* if there is one */

    vote_phase phase;
    tarry_sum_id pending;    /* OPEN: the attempt's name, LOGGING: with the digest */
    tarry_sum_id returns_to; /* RETURNING: the entry that is the last one then */
    uint32_t tried;          /* attempts of this round */
    uint32_t differed;       /* in a row with differing digests */
    uint32_t fetches;        /* of this attempt */
    bool changed;            /* something was told since vote_act */
    bool failing;      /* a voter has failed or is gone, and those who wait do not know it yet: */
    uint32_t failed;   /* that one */
    bool broken;       /* they were told in this attempt */
    bool pauses;       /* an attempt has failed, and the next one is not before */
    uint64_t pause_ns; /* then, */
    bool hurried;      /* unless what it has failed for is gone */
    bool running;      /* as vote_act heard last */
    uint32_t due;      /* orders to ask or to break off that were not given yet, */
    uint32_t due_from; /* to nobody before this one */
    uint64_t alone_ns; /* since when just one is ready or on the way; NEVER: another number is */
    bool alone;        /* that has lasted for the grace */
    uint64_t
        gone_ns; /* since when nobody who is there has the last sum or state; NEVER: somebody has */
    bool uncompared;   /* something was told that vote_compare has not seen */
    bool disputed;     /* those who have the last state differ, and none of them are most */
    uint64_t split_ns; /* since when nobody is awaited who could settle that; NEVER: somebody is */
    uint32_t strays;   /* how many are due to be told of */
    uint64_t again_ns; /* when a transfer that failed is tried again */
    uint32_t cursor;   /* where the search for a source begins */
    uint64_t held_ns;  /* since when attempts wait for a transfer; NEVER: for none */
    uint64_t hold_ns;  /* how long they may */
    bool holds;        /* that is not over */

    vote_member *members;
    uint32_t catching;                /* how many catch up */
    uint32_t moved;                   /* how many vote_next_moved has still to tell, */
    uint32_t moved_from;              /* nobody before this one */
    uint32_t present[VOTE_PRESENCES]; /* how many are at each */
    uint32_t answered[VOTE_ANSWERS];  /* the same */
} vote;

/* An order to `worker`; the meaning of the rest is that of the message. */
typedef struct vote_order {
    tarry_message_type type; /* ASK, BREAK, FETCH, LOAD, COMMIT */
    uint32_t worker;
    uint32_t count; /* of the orders to this arrival, from 1; ASK: of those before it */
    tarry_sum_id sum;
    uint32_t from;
    bool digests; /* LOAD, COMMIT: the answer is to have a digest of the parameters */
} vote_order;

typedef void vote_give(void *user, const vote_order *order);

/* What the caller has to do. */
typedef enum vote_outcome {
    VOTE_GOES_ON,
    VOTE_VOID,    /* the attempt: begin another one, or go on computing */
    VOTE_LOG,     /* append `pending`, and call vote_logged */
    VOTE_DIFFERS, /* digests differed too often: the run ends; vote_at_fault names the workers */
    VOTE_SPLIT,   /* parameters differ, and none are those of most: the same */
    VOTE_GONE,    /* nobody has the last sum or state: the run ends */
} vote_outcome;

typedef struct vote_settings {
    uint32_t workers;
    uint64_t grace_ns;
    uint32_t attempts_most; /* 0: the usual number */
    uint32_t digest_steps;  /* after so many steps each parameters are compared; 0: never */
} vote_settings;

/* Errors: NO_MEMORY. Nothing was committed, the term is 1. */
int vote_create(const vote_settings *settings, const tarry_allocator *allocator, vote **made);
void vote_free(vote *it); /* NULL is allowed */
/* Goes on from a log with these last entries, in a term that no entry has. Nobody is there yet. */
void vote_restart(vote *it, const tarry_sum_id log[2], uint32_t term);
/* Goes on where another one stands between two attempts: all who are there are to be asked. */
void vote_adopt(vote *it, const vote *from);

/* A connection is there, or is gone. */
void vote_joined(vote *it, uint32_t worker);
void vote_lost(vote *it, uint32_t worker);
/* A voter is slower in the sum than doing without it: it is none any more. */
void vote_late(vote *it, uint32_t worker);

/* What a worker says: STATE, HELD, FAILED. False: it answers nothing that is asked. */
bool vote_told(vote *it, uint64_t now, uint32_t worker, const tarry_message *said);

/* What the last attempt has failed for, or fails for, is gone: no pause is before the next one. */
void vote_hurry(vote *it);

/* A round begins: its attempts count from here. */
void vote_round(vote *it);
/* Whether enough are ready for an attempt, and its time has come; vote_deadline says when that may
 * change by itself. */
bool vote_may_open(const vote *it);
/* Whether the round has had all its attempts. */
bool vote_exhausted(const vote *it);
/* Begins an attempt of those in `group` (a bit per worker; ready ones), whose signals go out: sets
 * `pending`. */
void vote_open(vote *it, const uint64_t *group);
/* The attempt is given up: the round ends without a sum. */
void vote_close(vote *it);

/* Compares the parameters of those who have the last state, once enough have told a digest of
 * theirs: who differs from most has to load. */
void vote_compare(vote *it);
/* One of those who took part, but have other parameters than most; each is told of once. What it
 * has done since the last step is void, so it is to join anew. TARRY_NO_WORKER: there is none. */
uint32_t vote_next_stray(vote *it);
/* Carries out what follows from what was told, and from the time. running: a round runs. */
vote_outcome vote_act(vote *it, uint64_t now, bool running, vote_give *give, void *user);
/* Gives only what is due since: questions to who was let in again, and breaks. */
void vote_give_due(vote *it, vote_give *give, void *user);
/* The log has what vote_act asked for; false: it did not ask for that. */
bool vote_logged(vote *it, const tarry_sum_id *sum);
/* When to act again if nothing is told. */
uint64_t vote_deadline(const vote *it);

/* Whether the worker can compute and vote in a round that begins now. */
static inline bool vote_takes_part(const vote *it, uint32_t worker)
{
    const vote_member *member = &it->members[worker];
    return member->presence == VOTE_READY ||
           (member->presence == VOTE_COMMITTING && sum_id_same(&member->ordered, &it->log[0]));
}
/* The next one, in ascending order, whose part may have changed by what it or others said;
 * TARRY_NO_WORKER. */
uint32_t vote_next_moved(vote *it);
static inline bool vote_is_ready(const vote *it, uint32_t worker)
{
    return it->members[worker].presence == VOTE_READY;
}
/* Whether somebody who is there is not ready, and may still become so. */
bool vote_may_grow(const vote *it);
/* Whether nobody who is there has the last sum or state, or is on the way to it. */
bool vote_is_stuck(const vote *it);
/* VOTE_VOID: whom others suspect most; TARRY_NO_WORKER. */
uint32_t vote_suspect(const vote *it);
/* Whether the worker is why the last attempt did not succeed, or one of those who differ. */
bool vote_at_fault(const vote *it, uint32_t worker);

/*
 * A worker's half. One order is in progress at a time; a new one ends it. It knows no plan and no
 * vectors, and carries nothing out: each call says what to do.
 */

typedef enum voter_task {
    VOTER_RESTS,
    VOTER_ENCODES, /* what REDUCE will sum */
    VOTER_REDUCES,
    VOTER_FETCHES,
    VOTER_LOADS,
    VOTER_STEPS, /* which nothing ends */
} voter_task;

typedef struct voter {
    uint32_t epoch;    /* that it was asked in; 0: never */
    uint32_t orders;   /* the count of the last order that it took in that epoch, */
    uint32_t answers;  /* and of the last one but BREAK, to which it has to say something */
    tarry_sum_id last; /* that it has stepped on; step 0: it has the first state */
    tarry_sum_id held; /* step 0: none */
    uint64_t state;    /* a digest of the parameters after `last`; 0: not known */
    voter_task task;
    tarry_sum_id sum; /* that the task is about; a name while it encodes and reduces */
    uint32_t from;    /* FETCHES, LOADS: the source */
    bool digests;     /* LOADS, STEPS: a digest of the parameters is wanted */
    bool asked;       /* it was asked while it stepped, and has yet to answer */
} voter;

/* What follows, in this order. */
typedef struct voter_says {
    bool rejects; /* and nothing has changed */
    tarry_reject why;
    bool abandons; /* the engine, or the transfer, in progress */
    bool begins;   /* its `task` */
    bool answers;
    tarry_message answer; /* type, sum, last, from, fetched, state */
} voter_says;

/* An order to which the parts and copies of a round are nothing: ASK, BREAK, FETCH, LOAD, COMMIT.
 * One that comes again, or later than one that was given after it, is stale. */
voter_says voter_order(voter *it, const tarry_message *order);
/* A SIGNAL that is good otherwise: it encodes from here on. */
voter_says voter_signal(voter *it, const tarry_sum_id *name);
/* All is encoded: REDUCE. */
void voter_reduce(voter *it);
/* The round is over without the sum that it may be making. */
voter_says voter_finish(voter *it);
/* The end of what was begun: REDUCED, FETCHED, LOADED, STEPPED. */
voter_says voter_ended(voter *it, const tarry_event *event);

#endif
