/* SPDX-License-Identifier: Apache-2.0 */
/* A server in this process, and mortal workers: rounds, and what befalls them meanwhile. */
#ifndef TEST_MORTAL_PARTY_H
#define TEST_MORTAL_PARTY_H

#include <tarry/tcp.h>

#include "base/random.h"
#include "key_folder.h"
#include "mortal.h"

typedef struct party_settings {
    uint32_t workers, chunks, replication;
    uint64_t dimension, seed;
    bool tls, shares;
    tarry_compress compress; /* NONE, BF16 or INT8 */
    uint64_t silence_ns;     /* 0: longer than a stall of the machine */
} party_settings;

typedef struct party {
    party_settings settings;
    mortals crowd;
    key_folder keys;
    tarry_plan *plan;
    tarry_runtime *server;
    random_stream draws;
    /* Written by the server's thread while a round runs. */
    tarry_sum_id last; /* of the log */
    bool log_jumped;
    /* What has happened. */
    uint64_t rounds, failed; /* of these, that said that they have no sum */
    uint64_t attempts, fetches;
    uint32_t stops, joins; /* of those that party_endure lets come later */
    uint64_t cuts[MORTAL_MOST], longest_ns;
    uint32_t returns;                                /* to the state before the last step */
    uint32_t deaths, died_at[MORTAL_PLACES], spared; /* who never came to the place */
} party;

/* All are there, and up to date. */
void party_begin(party *its, const party_settings *settings);
/* One round; asserts that its sum is exact, or that it says that there is none. */
void party_round(party *its);
/* Waits until so many are up to date. */
void party_wait(party *its, uint32_t workers);
/* Draws one or two that are to die, and where; runs rounds until they have, or have not come there
 * for some rounds; and lets others come in their place, of which some die before they are there. */
void party_lose_some(party *its);
/* Runs rounds until the worker is stopped there. */
void party_stop(party *its, uint32_t worker, mortal_place place);
/* So many rounds, in one of `apart` of which, on average, somebody dies, stops, is cut off, goes on
 * or comes anew. All run in the end. */
void party_endure(party *its, uint32_t rounds, uint32_t apart);
/* Asserts that all who are there have the same state, that of the last sum; tells what happened. */
void party_end(party *its, const char *name);

#endif
