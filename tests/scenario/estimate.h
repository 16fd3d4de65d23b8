/* SPDX-License-Identifier: Apache-2.0 */
/* What the server's sums contain: coefficients in place of numbers. */
#ifndef SCENARIO_ESTIMATE_H
#define SCENARIO_ESTIMATE_H

#include "cluster.h"

/*
 * Queues the effects CLEAR and COMBINE, to be carried out in their order, at once or later; and
 * carries out all that is queued when the round is over.
 */
void estimate_carry_out(cluster *it, const tarry_effects *effects);

void estimate_clear(cluster *it, uint32_t stripe);
/* Adds the coded part, as ITEM_COMBINE says. */
void estimate_add_part(cluster *it, const cluster_item *done);

#endif
