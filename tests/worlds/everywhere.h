/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What worlds in which everyone gets the sum (TARRY_SUM_EVERYWHERE) have beside the others: what
 * workers hold in truth, sums among them, and the server's durable log. Sums have no numbers: a
 * sum's content is what its contributors encoded, its digest says whether its bits are right, and a
 * state is the sequence of the sums that were stepped on.
 *
 *   everywhere_engine.c  sums, fetches and loads among workers, and what befalls them
 *   everywhere_worker.c  what a worker's machine has done
 *   everywhere_server.c  the log, returns to a checkpoint, what a commit makes of the estimate
 *   invariants_vote.c    what must hold of the vote
 *   invariants_replica.c and of those who step
 */
#ifndef WORLDS_EVERYWHERE_H
#define WORLDS_EVERYWHERE_H

#include <tarry/worker.h>

#include "base/random.h"
#include "base/sum_id.h"
#include "worlds/coded.h"

enum {
    MAX_STEPS = 40,
    MAX_ATTEMPTS = 64, /* that are remembered, the latest */
};

/* A state: the sums stepped on, from the first state on. */
typedef struct history {
    uint32_t count;
    uint64_t flipped;             /* bits of the parameters that are not what the sums make them */
    tarry_sum_id sums[MAX_STEPS]; /* sums[k] is of step k + 1 */
} history;

typedef enum task_kind { TASK_NONE, TASK_REDUCE, TASK_FETCH, TASK_LOAD, TASK_STEP } task_kind;

/* What a worker has, and what it is about. */
typedef struct replica {
    history state;
    tarry_sum_id held; /* what is in the sum's place; step 0: nothing */
    coded part;        /* of the latest signal */
    task_kind task;
    uint64_t token;            /* of the task */
    tarry_sum_id sum;          /* of the task */
    uint64_t ends;             /* STEP: when */
    bool digests;              /* STEP, LOAD: a digest of the parameters is wanted */
    bool spoilt;               /* REDUCE: it ends badly, or never */
    double before[MAX_CHUNKS]; /* REDUCE: the running sum, when it began */
    history incoming;          /* LOAD: what the source had when it was asked */
} replica;

/* A sum, as the engines of its group make it. */
typedef struct sum_attempt {
    tarry_sum_id name;
    uint32_t group, begun, empty; /* workers, a bit each: all, those who have begun, with zeros */
    bool hit;                     /* somebody's engine ended before all had begun */
    double scale;
    coded part[MAX_WORKERS]; /* of those who have begun */
} sum_attempt;

/* What outlives the server. */
typedef struct sum_log {
    history committed;
    uint32_t term;     /* of the present server */
    history ever;      /* every sum that was ever committed, of histories that were left, too */
    tarry_sum_id told; /* the entry that the server heard of last */
} sum_log;

/* What the server has heard from a worker of the open attempt. */
typedef enum ballot {
    BALLOT_NONE,    /* not asked; gone, or set aside */
    BALLOT_WAITING, /* no answer yet */
    BALLOT_HELD,
    BALLOT_FAILED,
    BALLOT_FETCHING,
    BALLOT_FAILED_TWICE, /* the fetch failed, too */
} ballot;

typedef struct ballots {
    bool open;
    tarry_sum_id name;
    uint32_t group; /* workers, a bit each */
    ballot of[MAX_WORKERS];
    uint64_t digest[MAX_WORKERS]; /* HELD */
    uint32_t busy;                /* workers with another order than that to sum out, a bit each */
    uint64_t company;             /* when two with the last state, or nobody, were last there */
    uint64_t round;
    uint32_t tried;   /* attempts of the round and the term, with this one */
    bool same;        /* all of the group may be in the next attempt, too, for all that is known */
    uint64_t void_ns; /* when the attempt was void */
} ballots;

struct cluster;
struct cluster_item;

/* Whether the state is the first steps of the other, or all of them. */
bool history_begins(const history *shorter, const history *longer);
/* The last sum of a state; step 0: it is the first state. */
tarry_sum_id history_last(const history *of);
/* A number for the state, and a longer one; 0 for the first state. */
uint32_t history_number(const history *of);
/* That of the parameters, with what is wrong about them. */
uint64_t history_parameters(const history *of);
/* That of the sum of this name, where nothing went wrong. */
uint64_t everywhere_digest(const tarry_sum_id *name);

/* everywhere_engine.c */
/* The server has signalled the attempt to these workers. */
void everywhere_open(struct cluster *it, const tarry_message *signal);
/* The attempt of that name; NULL: none, or it is too long ago. */
sum_attempt *everywhere_attempt(struct cluster *it, const tarry_sum_id *name);
void everywhere_reduce(struct cluster *it, uint32_t worker, const tarry_effect *effect);
void everywhere_transfer(struct cluster *it, uint32_t worker, const tarry_effect *effect);
void everywhere_step(struct cluster *it, uint32_t worker, const tarry_effect *effect);
/* The worker's task is no more: those who make the same sum may notice. */
void everywhere_end_task(struct cluster *it, uint32_t worker);
/* Two workers can't reach each other for a while. */
void everywhere_part(struct cluster *it, uint32_t worker, random_stream *details);
/* Whether they can't. */
bool everywhere_parted(const struct cluster *it, uint32_t a, uint32_t b);

/* everywhere_worker.c */
void everywhere_worker_effect(struct cluster *it, uint32_t worker, const tarry_effect *effect);
/* An item of a task is due. */
void everywhere_task_over(struct cluster *it, const struct cluster_item *due);
/* The worker goes on with this machine: what the one before knows of sums, it knows; a transfer
 * ends. */
void everywhere_turn(struct cluster *it, uint32_t worker, tarry_worker *made);
/* The worker has lost its memory. */
void everywhere_forget(struct cluster *it, uint32_t worker);

/* everywhere_server.c */
void everywhere_log(struct cluster *it, const tarry_effect *effect);
void everywhere_logged(struct cluster *it, const struct cluster_item *due);
/* Whether an entry is being written: of a round that was aborted, it may be. */
bool everywhere_logs(const struct cluster *it);
/* The event as the server is told it, with a planted error; *message is its message then. */
tarry_event everywhere_forge(const struct cluster *it, const tarry_event *event,
                             tarry_message *message);
/* A worker's state becomes the vectors' checkpoint. */
void everywhere_save(struct cluster *it);
/* A new server, before anybody has joined, is told what outlived the last one. */
void everywhere_restore(struct cluster *it);
/* Whether everyone who is connected has the log's last state. */
bool everywhere_is_settled(const struct cluster *it);
/* What the last server had begun to log is there, or not. */
void everywhere_settle_log(struct cluster *it, random_stream *details);

#endif
