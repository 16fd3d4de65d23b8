/* SPDX-License-Identifier: Apache-2.0 */
/* The errors that can be planted into the worlds, and what finds them. */
#ifndef WORLDS_PLANTS_H
#define WORLDS_PLANTS_H

#include "worlds/cluster.h"

/* Worlds that show an error. */
typedef enum plant_worlds {
    PLANT_SERVER,     /* those whose coordinator makes the sum */
    PLANT_EVERYWHERE, /* those whose workers make it among themselves */
    PLANT_SECURE,     /* those whose sums are secure */
} plant_worlds;

typedef struct planted_error {
    const char *name;
    const char *title; /* what is wrong */
    plant planted;
    plant_worlds worlds;
    const char *invariant; /* finds it in some worlds */
    /* Invariants that may find it instead, if it has done other damage first: names joined by
     * blanks; NULL: any. */
    const char *others;
    uint32_t first; /* number of the world to begin with: few faults show the error there */
    uint64_t seed;  /* of these worlds; 0: any */
} planted_error;

extern const planted_error planted_errors[];
extern const size_t planted_error_count;

#endif
