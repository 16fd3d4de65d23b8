/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each message waits besides its link's latency, before it leaves: a lognormal time, drawn
 * anew for each. It holds up no card.
 */
#ifndef SIM_JITTER_H
#define SIM_JITTER_H

#include <tarry/sim.h>

#include "base/random.h"

typedef struct jitter {
    double median_ns; /* 0: nothing waits */
    double deviation; /* of the logarithm */
    random_stream draws;
} jitter;

jitter jitter_make(const tarry_sim_settings *settings);
/* Of the next message. */
uint64_t jitter_draw(jitter *state);
/* More than any that is likely to be drawn. */
uint64_t jitter_most(const jitter *state);
/* The longest of the next so many messages; 0 of none. */
uint64_t jitter_longest(jitter *state, uint64_t messages);

#endif
