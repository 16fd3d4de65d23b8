/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a run as their own files see them. */
#ifndef MPI_RANKS_STATE_H
#define MPI_RANKS_STATE_H

#include <tarry/mpi.h>

#include <tarry/engine.h>
#include <tarry/host.h>

#include "mpi/post.h"

/* What ranks say to each other: the tags of their messages. */
typedef enum word {
    WORD_BLOCK,  /* of a sum: sum_engine.h */
    WORD_UP,     /* a frame to the server; behind the number of the worker's connection */
    WORD_DOWN,   /* a frame to a worker; the same */
    WORD_PASSED, /* what a party passed another one; behind who both are (passed_head) */
    WORD_HELLO,  /* a worker is there, with nothing finished, on a connection of this number */
    WORD_LEFT,   /* the worker of this connection can't go on at all */
    WORD_LOST,   /* the server counts the worker of this connection as lost: it says hello again */
    WORD_GONE,   /* the server goes on without this rank */
    WORD_CUT,    /* nothing reaches this rank from here, so that it must not wait for that */
    WORD_ALIVE,  /* rank 0 is; or, behind its number, the worker of a connection */
    WORD_END,    /* the run is over; 1: all ranks are there */
} word;

/* The server is a party of its own, beside the worker of its rank. */
typedef struct passed_head {
    uint32_t from, to; /* workers, or TARRY_NO_WORKER */
} passed_head;

/* What rank 0 knows of a rank. Connections count from 1. */
typedef struct peer {
    uint32_t connection; /* the last one; 0: it has not been heard of */
    bool joined;
    bool left;        /* it can't go on at all; as a rank it is still there */
    bool unreachable; /* by anything from here; it may not know */
} peer;

struct tarry_mpi {
    MPI_Comm comm; /* its own */
    uint32_t rank, ranks;
    post *post;
    tarry_engine *engine;
    bool shares;            /* the engine is that of shared memory */
    tarry_compute *compute; /* the caller's, with its user */
    void *user;
    tarry_worker_host *worker;
    _Atomic uint32_t connection;    /* of the worker, from 1 */
    _Atomic bool gave_up;           /* the worker wants another one */
    _Atomic int broken;             /* what the replica gave; TARRY_OK: nothing */
    bool left;                      /* rank 0 was told that it is broken */
    uint64_t patience_ns, heard_ns; /* of rank 0 */
    uint64_t sign_ns, signed_ns;    /* between two signs of life of the worker; of the last one */
    bool ended, whole;              /* the run is over; and all were there then */
    /* Rank 0's. */
    tarry_runtime *runtime;
    peer *peers; /* per rank */
    uint64_t spoke_ns;
};

/* Does what can be done, and waits for something to do. */
void ranks_turn(tarry_mpi *self, uint64_t until_ns);

/* ---- rank 0's server: ranks_server.c ---- */

/* Errors: as tarry_host_create, with no memory for peers. */
int ranks_server_create(tarry_mpi *self, const tarry_plan *plan, const tarry_mpi_settings *settings,
                        const tarry_allocator *allocator, tarry_diagnostic *diagnostic);
/* Whether the message was for the server. */
bool ranks_server_take(tarry_mpi *self, uint32_t from, word kind, const post_block *block);
/* Waits until all who are there have stepped on the last sum, for a bounded time. */
void ranks_server_settle(tarry_mpi *self);
/* Nothing reaches the rank any more: what it says counts no more. */
void ranks_server_give_up(tarry_mpi *self, uint32_t rank);

#endif
