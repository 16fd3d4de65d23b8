/* SPDX-License-Identifier: Apache-2.0 */
/* Which relays a worker is told of, for when it loses its own. */
#ifndef PROTOCOL_SECOND_PARENTS_H
#define PROTOCOL_SECOND_PARENTS_H

#include <stdint.h>

#include "protocol/wire/wire_trunk.h"

typedef struct second_parent {
    uint32_t lanes;         /* children that it has */
    uint64_t round_trip_ns; /* to the server and back; 0: not known, and taken for quick */
} second_parent;

/*
 * Of `count` relays, those that a worker is told of whose own is `own` (count: none of them): up to
 * WIRE_PARENTS_MOST, in the order in which it is to try them. Those come first that are quick and
 * have few children, then quick ones that have many, then slow ones in the same order; of these
 * each worker begins with another one, so that the children of a relay that is lost spread over the
 * others. Sets chosen[0..result-1].
 */
uint32_t second_parents_choose(const second_parent *of, uint32_t count, uint32_t own,
                               uint32_t worker, uint32_t chosen[WIRE_PARENTS_MOST]);

#endif
