/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine over MPI is, for the files that make it up. The lock is over what it says, and is
 * held by whoever calls these functions. */
#ifndef MPI_SUM_ENGINE_STATE_H
#define MPI_SUM_ENGINE_STATE_H

#include <pthread.h>

#include "mpi/cut.h"
#include "mpi/sum_engine.h"

enum {
    SHARE_NUMBERS = 32768, /* of a block of a coded part, at most */
    MOST_AHEAD = 16,       /* stripes of its coded part that a member sends before it has the sum of
                              them */
    /* A member may have the sum of `ahead` stripes more than this one, which have all come to be
     * decoded here, and sends its part `ahead` of that. */
    MOST_SLOTS = 2 * MOST_AHEAD + 2,
};

typedef enum block_type {
    BLOCK_CODED,  /* of a coded part: the receiver's share of a stripe */
    BLOCK_ZEROS,  /* the sender's coded part is zeros */
    BLOCK_SUMMED, /* the sender's share of a stripe of the sum, of all parts */
} block_type;

/* What a block begins with; it lies in the first POST_HEAD bytes. Ranks are of one kind of machine
 * as MPI has them here: messages are bytes. */
typedef struct block_head {
    uint64_t epoch;
    uint32_t type, stripe;
    uint32_t form; /* of its numbers, a tarry_compress */
} block_head;

/* A block of a group that is still to be formed. */
typedef struct early_block {
    struct early_block *next;
    uint32_t from;
    post_block *block;
} early_block;

/* A stripe that is in progress. */
typedef struct stripe_slot {
    post_block **coded; /* per member; NULL: not there */
    uint32_t count;     /* of them */
    uint32_t summed;    /* members whose shares of the sum are there */
    bool decoded;       /* the own share is */
} stripe_slot;

typedef struct sum_engine {
    tarry_engine base;
    post *to;
    int kind;
    uint32_t rank, ranks;
    bool has_lock, has_change;
    pthread_mutex_t lock; /* over all that follows */
    pthread_cond_t change;
    bool woken;
    uint64_t epoch, least_epoch; /* blocks of groups below the second are dropped */
    uint32_t count, place;       /* of the group; count 0: none */
    uint32_t *worker;            /* of each member */
    uint32_t *place_of;          /* per rank; UINT32_MAX: no member */
    bool *lost;                  /* per rank: nothing reaches it */
    early_block *early;
    tarry_engine_progress progress;
    tarry_engine_sum sum; /* while it runs */
    cut cut;
    uint32_t ahead, slot_count; /* stripes; slots are taken in turn */
    stripe_slot slots[MOST_SLOTS];
    post_block **places; /* slots x count */
    bool *zeros;         /* per member */
    uint32_t zero_count;
    uint32_t sent;     /* stripes of the own coded part */
    uint32_t gathered; /* stripes of the sum that are whole */
    const float **in;  /* per member: what is decoded, */
    float *weights;    /* and with which weights */
    float *term;       /* SHARE_NUMBERS of a coded part that came in a form; NULL: none does */
} sum_engine;

static inline const block_head *head_of(const post_block *block)
{
    return (const block_head *)block->bytes;
}

/* Nothing of the sum is read or written any more. */
void sum_reduce_end(sum_engine *own, tarry_engine_state state);
void sum_reduce_fail(sum_engine *own, uint32_t suspect, const char *why);
/* Others learn that they need not wait for a coded part. False: there is no memory. */
bool sum_reduce_send_zeros(sum_engine *own);
/* A block of the sum that runs. */
void sum_reduce_use(sum_engine *own, uint32_t from, post_block *block);
/* All that can be done. */
void sum_reduce(sum_engine *own);

#endif
