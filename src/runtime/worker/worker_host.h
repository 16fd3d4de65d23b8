/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_WORKER_HOST_H
#define RUNTIME_WORKER_HOST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/worker.h>

#include "coding/layout.h"
#include "compress/view.h"
#include "protocol/wire/codec.h"
#include "runtime/worker/secure_sum.h"
#include "runtime/worker/worker_vectors.h"

/* All that a worker has for one plan: its machine, and room for vectors. */

typedef struct worker_slate {
    const tarry_plan *plan; /* its machine's */
    uint32_t load;
    uint32_t banks; /* rounds whose gradients are kept: 1, or 2 with TARRY_FILL_STALE */
    codec_shape shape;
    uint64_t *words; /* of a decoded frame */
    tarry_keep keep;
    const worker_vectors *vectors;
    uint32_t *gradient; /* banks x load places; TARRY_NO_PLACE: it has none */
    /* TARRY_KEEP_ALL: per vector of `gradient`: the generation of the parameters for which it is
     * finished; 0: it is not. Secure sums: the same of the gradient at a position. */
    uint64_t *finished;
    /* TARRY_KEEP_CREDITED: the places that no gradient has. The last is taken first, so that no
     * more memory is written to than is needed at a time. */
    uint32_t *spare;
    uint32_t spare_count;
    uint32_t *folds;      /* scratch: load positions, of a step of the talking thread; */
    float *weights;       /* what their gradients are added times, */
    uint32_t *addends;    /* and where they are */
    const float **inputs; /* scratch: load, of transfer_encode */
    /* z, or TARRY_KEEP_CREDITED: the running sum. With one part it has a place; where there are
     * several, or sums are secure, host memory of its own. */
    uint32_t part; /* TARRY_NO_PLACE: it has `room` */
    void *room;
    uint32_t coded; /* where z is since it was encoded last: the part, or the one gradient that it
                       equals */
    /* Each stripe of z in the form in which it is sent, `packed_stride` bytes from one to the next;
     * NULL: as it is. */
    uint8_t *packed;
    size_t packed_stride;
    secure_sum secret;    /* secure sums: what the part is then */
    residuals *residuals; /* what that lost; NULL: a form without feedback */
    void *scratch;        /* of transfer_encode */
    tarry_worker *machine;
    /* What the chunk at `slot` stands for: span[span_offset[slot]] .. span_offset[slot + 1] - 1. */
    uint32_t *span_offset;
    tarry_span *span;
} worker_slate;

typedef struct worker_slate_settings {
    layout cut;
    const tarry_server_settings *server; /* for the call, but for what `cut` and `grid` say; z is
                                            sent in its form of parts */
    ring grid; /* secure sums: of the words that z is; bits 0: it is not */
    tarry_sum_id last;
    const worker_vectors *vectors; /* borrowed */
} worker_slate_settings;

/* The slate of `worker`; plan is borrowed by its machine. Errors: ARGUMENT, NO_MEMORY; nothing is
 * left to free then. */
int worker_slate_create(const tarry_plan *plan, uint32_t worker,
                        const worker_slate_settings *settings, const tarry_allocator *allocator,
                        worker_slate **made);
void worker_slate_free(worker_slate *self, const tarry_allocator *allocator); /* NULL is allowed */
/* Where z is. */
float *worker_slate_part(const worker_slate *self);
/* Where a stripe of z is as it is sent. */
void *worker_slate_stripe(const worker_slate *self, const layout *cut, uint32_t stripe);

/*
 * Copies of the parameters, one per round, kept until the last thread that computes with one lets
 * go: a compute function that outlasts its round reads on what it was given.
 */

typedef struct snapshot {
    uint64_t round;
    uint64_t generation; /* counts, from 1, what the pool got: two are never the same parameters */
    float *parameters;
    bool digested;
    uint8_t digest[32]; /* if it is: SHA-256 of the parameters */
    size_t holders;
} snapshot;

typedef struct snapshots {
    tarry_allocator allocator;
    size_t parameters; /* numbers in each */
    pthread_mutex_t lock;
    snapshot *items; /* taken when first needed */
    size_t capacity;
    snapshot *current; /* the last one published, held by the pool */
    snapshot *begun;   /* being filled in place, held by the pool */
    uint64_t generation;
} snapshots;

/* At most `holders` threads hold a snapshot at a time.
 * Errors: NO_MEMORY, SYSTEM; then nothing is left to destroy. */
int snapshots_init(snapshots *pool, size_t parameters, size_t holders,
                   const tarry_allocator *allocator);
void snapshots_destroy(snapshots *pool);

/* Copies the round's parameters into a snapshot that is free, the current one itself if nobody else
 * holds it, and makes that the current one: workers that keep in step share a single one. Errors:
 * NO_MEMORY. */
int snapshots_publish(snapshots *pool, uint64_t round, const float *parameters);
/*
 * The same without a copy: begin gives back a vector that nobody reads, to be filled at leisure;
 * it stays the same one until commit makes it the current snapshot, of `round`. NULL if there is no
 * memory. One thread at a time publishes, begins and commits, and publishes nothing in between.
 */
float *snapshots_begin(snapshots *pool);
void snapshots_commit(snapshots *pool, uint64_t round);
/* Before commit: this is the digest of what was filled in. */
void snapshots_set_digest(snapshots *pool, const uint8_t digest[32]);
/* The digest of the current snapshot, if it is of this generation and has one. */
bool snapshots_digest(snapshots *pool, uint64_t generation, uint8_t digest[32]);
/* The current snapshot's parameters are also those of `round`; there has to be one. Where it was of
 * another one, it counts as another generation. */
void snapshots_label(snapshots *pool, uint64_t round);
/* The generation of the current snapshot if it is of `round`; otherwise 0. */
uint64_t snapshots_generation(snapshots *pool, uint64_t round);
/* The current snapshot, NULL if there is none yet; give it back with snapshots_release. */
snapshot *snapshots_hold(snapshots *pool);
void snapshots_release(snapshots *pool, snapshot *held); /* NULL is allowed */

#endif
