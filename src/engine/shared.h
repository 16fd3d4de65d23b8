/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine for members on one machine, threads or processes of one user: each shows the others a
 * small segment of memory, through which a sum passes stripe by stripe.
 *
 * It finds out that a member is gone only when it opens its segment, at `form` or `start`; else it
 * waits. One that abandons a sum is noticed by those who wait for it: they fail, and suspect
 * nobody.
 */
#ifndef ENGINE_SHARED_H
#define ENGINE_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/engine.h>
#include <tarry/error.h>

/*
 * Memory that a member of a group shows to the others of its machine. It has no name in any folder:
 * the others open it through /proc, and the system takes it back with the last process that has it
 * mapped, however that ends.
 *
 * Nobody but its owner can write to a segment, and it keeps its size: seals of the system see to
 * both. A bell beside it is for all to ring. So a member that is stopped, killed or broken changes
 * nothing that another one relies on, and reading what it shows never fails.
 */

/* What a member has of a sum: `count` stripes of the sum of that tag (0: of none). */
typedef struct segment_side {
    _Alignas(64) _Atomic uint64_t tag;
    _Atomic uint32_t count;
    _Atomic bool zeros; /* the coded part is zeros, which are not written anywhere */
} segment_side;

/* Written by its owner alone. */
typedef struct segment_board {
    uint8_t key[16];     /* as in the address, so that another segment is not taken for this one */
    segment_side coded;  /* its coded part */
    segment_side summed; /* its shares of the sum */
    _Alignas(64) _Atomic uint32_t
        waits_for; /* the place of the member that it sleeps for, + 1; 0: none */
} segment_board;

typedef struct segment {
    segment_board *board; /* of others: to be read */
    float *numbers;       /* the same */
    size_t count;         /* of numbers */
    _Atomic uint32_t *bell;
    int board_file, bell_file; /* of the own one; else -1 */
    bool pooled;               /* its memory is a pool's, and board_file is its place there */
} segment;

/*
 * The segments of members that are threads of one process. Each lies in the process's memory once,
 * and all its members read it there. Without a pool each member maps the segment of each other one,
 * and the system bounds the mappings of a process (vm.max_map_count).
 */
typedef struct segment_pool segment_pool;

enum {
    SEGMENT_ADDRESS = 88,   /* bytes */
    SEGMENT_MOST = 1 << 26, /* numbers: 256 MB, which are taken from the machine at once */
};

/* A pool for at most `most` segments. It must outlive all who have one of them. Errors: NO_MEMORY.
 */
int segment_pool_create(uint32_t most, const tarry_allocator *allocator, segment_pool **made);
void segment_pool_free(segment_pool *pool); /* NULL is allowed */
/* As segment_create, in the pool. One call at a time, and before any member opens a segment.
 * Errors: also NO_MEMORY, STATE (the pool is full). */
int segment_pool_add(segment_pool *pool, size_t count, segment *own, tarry_diagnostic *diagnostic);

/* A segment with room for `count` >= 1 numbers. Errors: ARGUMENT (a count that is too large),
 * NO_MEMORY, SYSTEM. */
int segment_create(size_t count, segment *own, tarry_diagnostic *diagnostic);
/* How others find it: SEGMENT_ADDRESS bytes. Errors: SYSTEM. */
int segment_address(const segment *own, uint8_t *address, tarry_diagnostic *diagnostic);
/* Opens what another member shows, or finds it in the own pool (NULL: there is none); nothing in it
 * is believed but what was checked. Errors: SYSTEM (its process is gone, on another machine, or
 * another user's, or it is not what the address says), NO_MEMORY (this process has no room for it,
 * and the other one is not to blame).
 */
int segment_open(const segment_pool *pool, const uint8_t *address, segment *other,
                 tarry_diagnostic *diagnostic);
void segment_close(segment *of);

/* Ends the sleep of whoever sleeps at the bell. */
void segment_ring(const segment *of);
/* Sleeps until the own bell rings, if it has not since it was `heard`, or until a time of the
 * monotonic clock. False: that time has come. */
bool segment_sleep(const segment *own, uint32_t heard, uint64_t until_ns);

/* numbers: of its segment; 0: SHARED_NUMBERS. Members may differ in it. `pool`: of the members that
 * are threads of this process, borrowed; NULL: each has memory of its own, which other processes
 * can open, too. Freed by its method. Errors: NO_MEMORY, ARGUMENT, SYSTEM. */
int shared_engine_create(size_t numbers, segment_pool *pool, const tarry_allocator *allocator,
                         tarry_engine **out, tarry_diagnostic *diagnostic);
/* Whether bytes are an address of such an engine that is likely to be reached from this one: on the
 * same machine. */
bool shared_engine_reaches(const tarry_engine *engine, const uint8_t *address, size_t size);

#endif
