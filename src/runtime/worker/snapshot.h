/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the parameters, one per round, kept until the last thread that computes with one lets
 * go: a compute function that outlasts its round reads on what it was given.
 */
#ifndef RUNTIME_SNAPSHOT_H
#define RUNTIME_SNAPSHOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>

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
