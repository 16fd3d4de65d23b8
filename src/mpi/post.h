/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks: point-to-point sends and receives that nobody waits for. Messages of a
 * rank come in the order in which they were put; those to a rank that is dead stay in MPI's hands
 * for ever, with their memory, and hold up no others.
 *
 * One thread, that of MPI, calls all of this but post_put, post_wake and the blocks' functions,
 * which are any thread's.
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

/* One user, who gives it back by post_release. NULL: there is no memory. */
post_block *post_block_make(size_t size);
/* The same, for large ones: memory that was in use before and may still lie in a cache. It is given
 * back before the post is freed. */
post_block *post_block_reuse(post *self, size_t size);
post_block *post_hold(post_block *block);
void post_release(post_block *block); /* NULL is allowed */

typedef struct post_settings {
    MPI_Comm comm; /* of this post alone */
    /* A message came from a rank, or from the own one; the block is borrowed for the call, and may
     * be held. */
    void (*take)(void *user, uint32_t from, int kind, post_block *block);
    /* MPI says that nothing reaches the rank any more; once per rank. */
    void (*broken)(void *user, uint32_t rank);
    void *user;
} post_settings;

/* NULL: no memory, or no lock. */
post *post_create(const post_settings *settings);
/* What is still on its way stays in memory. NULL is allowed. */
void post_free(post *self);

/* Takes the message along, and the caller's use of the block with it: a call with NULL is lost. */
void post_put(post *self, uint32_t to, int kind, post_block *block);
/* The same of bytes, which are copied. */
void post_put_bytes(post *self, uint32_t to, int kind, const void *bytes, size_t size);
/* Messages of this kind to the rank that MPI has not got yet are dropped. */
void post_drop(post *self, uint32_t to, int kind);
/* Ends the wait in progress, or the next one. */
void post_wake(post *self);

/* Does what can be done now. Gives back whether there was anything. */
bool post_turn(post *self);
/* The same, until something was done, it was woken, or until_ns of the monotonic clock. Spins for
 * a moment, and then sleeps, at most `nap_ns` at a time. */
void post_wait(post *self, uint64_t until_ns, uint64_t nap_ns);
/* Whether MPI has not said that nothing reaches the rank any more. */
bool post_reaches(const post *self, uint32_t rank);
/* Whether all that was put is out of our hands. */
bool post_is_clear(post *self);

#endif
