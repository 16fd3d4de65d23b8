/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server and its workers that sum among themselves, with all that goes wrong, an event at a time
 * in an order drawn by chance. What must hold is checked at every step: nobody steps on a sum that
 * the log does not have, or out of order; all who have stepped as often have the same sums; what is
 * logged stays, but for a return that the server logs.
 */
#ifndef TEST_CONGRESS_H
#define TEST_CONGRESS_H

#include <tarry/server.h>
#include <tarry/worker.h>

#include "base/random.h"

enum { CONGRESS_WORKERS = 6, CONGRESS_STEPS = 64, CONGRESS_QUEUE = 256, CONGRESS_WORDS = 64 };

typedef struct congress_mail {
    tarry_message message;
    uint64_t words[CONGRESS_WORDS];
} congress_mail;

typedef struct congress_link {
    congress_mail mails[CONGRESS_QUEUE];
    uint32_t first, count;
} congress_link;

typedef struct congress_worker {
    tarry_worker *machine; /* NULL: crashed */
    bool connected;        /* its link is whole */
    bool known;            /* the server thinks so */
    congress_link down, up;
    uint64_t stepped; /* how often, */
    tarry_sum_id history[CONGRESS_STEPS];
    tarry_sum_id buffer; /* the sum that it has in memory; step 0: none */
    /* in progress: */
    bool computes, encodes;
    uint32_t compute_slot, encode_stripe;
    uint64_t compute_round;
    uint32_t encode_attempt;
    bool stops;             /* the engine ends at once */
    tarry_effect_type task; /* REDUCE, FETCH, LOAD, STEP; CANCEL: none */
    tarry_sum_id sum;
    uint32_t from;
    uint64_t group;
    bool empty;
} congress_worker;

typedef struct congress_settings {
    uint32_t workers;
    uint32_t faults;    /* crashes, cuts and troubles, at most, */
    bool crashes, cuts; /* of which kinds */
    bool restarts;      /* of the server, too */
    uint32_t failing;   /* transfers and engines that fail without one */
    uint32_t wrong;     /* sums with wrong bits */
    bool forever;       /* a crashed worker does not come back */
    tarry_keep keep;
    uint32_t parts;
} congress_settings;

typedef struct congress {
    congress_settings settings;
    tarry_plan *plan;
    tarry_server_settings server_settings;
    tarry_server *server;
    congress_worker *workers; /* CONGRESS_WORKERS */
    uint64_t now;
    random_stream stream;
    bool running; /* a round is */
    uint32_t rounds;
    const char *broken;               /* the rule that was, first; NULL: none */
    int ended;                        /* the run has, with this error; TARRY_OK: it has not */
    tarry_sum_id log[CONGRESS_STEPS]; /* durable; log[s]: of step s, from 1 */
    uint64_t logged;
    uint32_t term;
    bool log_due; /* an effect LOG is being carried out */
    tarry_sum_id log_sum;
    uint32_t returns;
    tarry_sum_id vectors; /* a checkpoint of the workers' state, as the server knows it */
    tarry_sum_id vectors_history[CONGRESS_STEPS];
    uint64_t begun[CONGRESS_STEPS]; /* a bit per worker that has begun the sum of this attempt
                                       modulo STEPS */
    tarry_sum_id begun_name[CONGRESS_STEPS];
    tarry_sum_id signalled;
    bool hit; /* a fault has touched the attempt that is out */
    uint32_t commits, uncovered, voids, fetches, loads, steps;
    uint32_t faults_left, failing_left, wrong_left;
} congress;

void congress_begin(congress *it, const congress_settings *settings, uint64_t seed);
void congress_end(congress *it);
/* One event, drawn by chance; false: nothing can happen but time, which passes then. */
bool congress_event(congress *it);
/* Until so many rounds were committed, the run has ended, or a rule is broken. */
void congress_run(congress *it, uint32_t rounds);
/* A checkpoint of the state of somebody who is up to date; false: nobody is. */
bool congress_save(congress *it);
/* Until all who are connected have the last state of the log. */
void congress_settle(congress *it);

#endif
