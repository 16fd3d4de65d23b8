/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums among workers. An engine adds up the coded parts of a group's members so that every member
 * gets the same sum, bit for bit; no vector passes through the server. Tarry's own engine is
 * `direct` (tarry/direct.h); others (MPI, torch.distributed) stand behind the same functions.
 *
 * An engine need not find out that a member is dead: the server does, and the worker abandons the
 * sum then. One that does find out says whom it suspects. It never gives a sum of only some
 * members.
 */
#ifndef TARRY_ENGINE_H
#define TARRY_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/compress.h>
#include <tarry/error.h>
#include <tarry/event.h>
#include <tarry/vectors.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARRY_ENGINE_ADDRESS_MOST 384 /* bytes */

/* One member of a group. */
typedef struct tarry_engine_member {
    uint32_t worker;
    const uint8_t *address; /* what its engine's `address` gave, address_size bytes; borrowed */
    size_t address_size;
} tarry_engine_member;

/* Those who take part in a sum. */
typedef struct tarry_engine_group {
    uint64_t epoch; /* never the same for two groups, or for one formed twice */
    uint32_t count; /* of members, >= 1 */
    uint32_t place; /* the own one among them */
    const tarry_engine_member
        *members; /* in ascending order of workers; the same at every member; borrowed */
} tarry_engine_group;

/* A sum: part p of the estimate is sum over members i of weights[p * count + i] times i's coded
 * part. */
typedef struct tarry_engine_sum {
    tarry_sum_id name; /* the same at every member, never used before; its digest says nothing */
    size_t dimension;  /* d: numbers of the sum */
    uint32_t
        parts; /* l: part p is numbers p * ceil(d / l) .. of the sum, the last may be shorter */
    const float *part;    /* own coded part, ceil(d / l) numbers (the last part's padding is zeros);
                             NULL: zeros */
    const float *weights; /* l x count, row-major, the same at every member */
    float *sum;           /* d numbers, written; not `part` */
    /* With one part: what the numbers are, and who has them if they are not float32 in host memory.
     * `part` and `sum` are NULL then, and the owner has these at part_place (TARRY_NO_PLACE: zeros)
     * and sum_place. vectors NULL: `part` and `sum` are all there is. */
    tarry_element element;
    tarry_vectors *vectors;
    uint32_t part_place, sum_place;
    /* Numbers first .. first + count - 1 of the sum are there, and change no more: who has to read
     * them reads them here while they are in a cache. No number twice; an engine need not tell of
     * all. By the thread that works on the sum, and not once it is DONE, FAILED or abandoned. NULL:
     * nobody is told. */
    void (*came)(void *user, size_t first, size_t count);
    void *user;
    /*
     * The forms in which numbers travel (docs/compression.md), the same at every member, and
     * another than NONE only with one part: those of the coded parts on their way to who sums them,
     * and of the sum on its way back. BF16 or INT8, which rounds by the seed, the step, the worker
     * and the place. All members have the sum as it was sent. The last `compress_exact` numbers are
     * float32 all the same. tarry/sum_form.h has them for engines; who knows none refuses others
     * than NONE.
     */
    tarry_compress compress, compress_down;
    uint64_t compress_seed;
    uint32_t compress_exact;
} tarry_engine_sum;

typedef enum tarry_engine_state {
    TARRY_ENGINE_IDLE, /* nothing was started since the group was formed, or it was abandoned */
    TARRY_ENGINE_RUNNING,
    TARRY_ENGINE_DONE,   /* the sum is there */
    TARRY_ENGINE_FAILED, /* it is not, and its numbers mean nothing */
} tarry_engine_state;

typedef struct tarry_engine_progress {
    tarry_engine_state state;
    uint32_t suspect; /* FAILED: the member that it suspects, by its id; TARRY_ENGINE_NOBODY */
    uint64_t
        moved;     /* bytes sent to other members since the start (shared memory: read from them) */
    char why[128]; /* FAILED: a few words */
} tarry_engine_progress;

#define TARRY_ENGINE_NOBODY UINT32_MAX

typedef struct tarry_engine tarry_engine;

/* The functions of an engine. One thread at a time calls them, but for `wake`. */
typedef struct tarry_engine_methods {
    const char *name; /* "direct" */
    /* How others reach it: *size bytes, at most TARRY_ENGINE_ADDRESS_MOST. It does not change. */
    void (*address)(tarry_engine *engine, uint8_t *bytes, size_t *size);
    /* Goes on with this group; ends what runs, as `abandon`. Does not wait for other members.
     * Errors: ARGUMENT (an address that makes no sense), NO_MEMORY, SYSTEM. */
    int (*form)(tarry_engine *engine, const tarry_engine_group *group,
                tarry_diagnostic *diagnostic);
    /* Starts a sum of the group. All that is pointed to is borrowed until it is DONE, FAILED or
     * abandoned. Does not wait. Errors: STATE (no group, or one runs), NO_MEMORY, ARGUMENT
     * (forms that it does not have). */
    int (*start)(tarry_engine *engine, const tarry_engine_sum *sum);
    /* Works on it, and waits until it is DONE or FAILED, until_ns of the monotonic clock (0: does
     * not wait), or `wake`. Waiting takes next to no processor time. */
    void (*wait)(tarry_engine *engine, uint64_t until_ns, tarry_engine_progress *progress);
    /* Ends the wait in progress, or the next one. Any thread. */
    void (*wake)(tarry_engine *engine);
    /* Ends what runs: nothing of it is read or written any more when it returns, and it does not
     * wait for others. */
    void (*abandon)(tarry_engine *engine);
    void (*free)(tarry_engine *engine);
    bool forms;  /* it knows those of tarry_engine_sum: nobody asks another one for them */
    bool owners; /* it sums what an owner has (tarry_engine_sum.vectors), of every element: nobody
                    asks another one for that */
} tarry_engine_methods;

/* What every engine begins with. */
struct tarry_engine {
    const tarry_engine_methods *methods;
};

#ifdef __cplusplus
}
#endif

#endif
