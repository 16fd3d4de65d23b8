/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the parameters, one per round, kept until the last thread that computes with one lets
 * go: a compute function that outlasts its round reads on what it was given.
 */
#ifndef RUNTIME_SNAPSHOT_H
#define RUNTIME_SNAPSHOT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>

typedef struct snapshot {
    uint64_t round;
    float *parameters;
    size_t holders;
} snapshot;

typedef struct snapshots {
    tarry_allocator allocator;
    size_t parameters; /* numbers in each */
    pthread_mutex_t lock;
    snapshot *items; /* taken when first needed */
    size_t capacity;
    snapshot *current; /* the last one published, held by the pool */
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
/* The current snapshot; give it back with snapshots_release. */
snapshot *snapshots_hold(snapshots *pool);
void snapshots_release(snapshots *pool, snapshot *held); /* NULL is allowed */

#endif
