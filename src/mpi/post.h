/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of sums between ranks: point-to-point messages, without waiting for any of them, by a
 * thread of its own, the only one that calls MPI while it runs. Blocks to a rank that is dead stay
 * in MPI's hands for ever, with their memory, and hold up no others.
 *
 * All functions are any thread's, except create, end and free, which are their caller's alone.
 */
#ifndef MPI_POST_H
#define MPI_POST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

enum { POST_HEAD = 64 }; /* bytes, so that what is behind it begins at a cache line */

typedef struct post post;

/* The bytes of a message, shared by those who send it or read it. */
typedef struct post_block {
    _Atomic unsigned users;
    size_t size;             /* of `bytes` */
    size_t room;             /* for them */
    post *shelf;             /* where it waits for its next use; NULL: nowhere */
    struct post_block *next; /* there */
    _Alignas(64) uint8_t bytes[];
} post_block;

/* One user, who gives it back by post_release, before the post is freed. Large ones are memory that
 * was in use before and may still lie in a cache. NULL without memory. */
post_block *post_block_reuse(post *self, size_t size);
post_block *post_hold(post_block *block);
void post_release(post_block *block); /* NULL is allowed */

/* Called by the post's thread. */
typedef struct post_settings {
    MPI_Comm comm; /* of this post alone */
    /* A block came from a rank; it is borrowed for the call, and may be held. */
    void (*take)(void *user, uint32_t from, post_block *block);
    /* MPI says that nothing reaches the rank any more; once per rank. */
    void (*broken)(void *user, uint32_t rank);
    /* Does what can be done now. Gives back whether a sum is in progress. */
    bool (*turn)(void *user);
    void *user;
} post_settings;

/* NULL: no memory, or no lock. */
post *post_create(const post_settings *settings);
/* Starts the thread, the first time. False: it can't be. */
bool post_begin(post *self);
/*
 * Ends the thread, and meets all other ranks, which call it, too. `finished`: waits a few
 * seconds for them; otherwise waits first, however long, until another rank has come that is
 * finished. Gives back whether all ranks came, and nothing is on its way any more.
 */
bool post_end(post *self, bool finished);
/* After post_end, if there was one. Messages that are still on their way stay in memory. NULL is
 * allowed. */
void post_free(post *self);

/* Takes the block to another rank, and the caller's use of the block with it. Those of a sum have
 * the number of its group. */
void post_put(post *self, uint32_t to, uint64_t group, post_block *block);
/* Blocks of this group, and of those before, that MPI has not got yet are dropped. */
void post_drop(post *self, uint64_t group);
/* Ends the thread's sleep. */
void post_wake(post *self);

#endif
