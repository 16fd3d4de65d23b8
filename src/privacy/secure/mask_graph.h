/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which members of a group share masks. Whatever at most `colluders` members are taken out, the
 * others stay connected: so their parts, unmasked as far as the colluders can, show the sum of all
 * others' parts and nothing else.
 *
 * Up to MASK_GRAPH_COMPLETE members, all do with all. Larger groups form a circle on which each
 * shares masks with the h before and the h behind it, h = ceil(k / 2), k = max(colluders + 1,
 * MASK_GRAPH_DEGREE): a Harary graph, which needs 2 h members taken out before it falls apart
 * (Harary, The maximum connectivity of a graph, PNAS 48 (1962), 1142-1146).
 */
#ifndef PRIVACY_SECURE_MASK_GRAPH_H
#define PRIVACY_SECURE_MASK_GRAPH_H

#include <stdint.h>

enum { MASK_GRAPH_COMPLETE = 33, MASK_GRAPH_DEGREE = 32 };

/* How many neighbours each of `members` (1 or more) has. */
uint32_t mask_graph_degree(uint32_t members, uint32_t colluders);

/* The neighbours of the member at `position` (0..members-1), ascending, as many as that. */
void mask_graph_neighbours(uint32_t members, uint32_t colluders, uint32_t position,
                           uint32_t *neighbours);

#endif
