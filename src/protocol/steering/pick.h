/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pick rules: which chunk a worker should turn to after the one it is at. Pure functions of what
 * the server knows of the chunks that are open for it.
 */
#ifndef PROTOCOL_PICK_H
#define PROTOCOL_PICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/server.h>

/* A chunk that the worker holds, has not finished, is not at, and of which copies are wanted. */
typedef struct pick_candidate {
    uint32_t slot;    /* its position in the worker's order; candidates ascend by it */
    uint32_t copies;  /* finished, in progress, and next in line at other workers */
    uint32_t wanted;  /* copies that the chunk should get, >= 1 */
    double capacity;  /* of its other holders: how many of all their open chunks they finish per ns,
                         divided by how many they have */
    double others_ns; /* until the `wanted`-th copy is expected from others; INFINITY: it isn't */
    double own_ns;    /* until the worker itself would have finished it */
} pick_candidate;

/* The candidate to turn to, or `count`: none, it is better to rest. */
typedef size_t pick_rule(const pick_candidate *candidates, size_t count);

/* Fewest copies first; of these the first position. Rests only where nothing is wanted. */
pick_rule pick_fewest;
/* Fewest copies first, but another copy than the wanted ones only if it comes sooner than they do;
 * of these the one whose other holders have the least capacity. */
pick_rule pick_capacity;
/* NULL for rules that don't go by candidates: TARRY_PICK_PLAN and TARRY_PICK_SHARE. */
pick_rule *pick_rule_of(tarry_pick pick);

#endif
