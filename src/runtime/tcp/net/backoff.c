/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/backoff.h"

void backoff_init(backoff *state, uint64_t seed, uint32_t a, uint32_t b)
{
    *state = (backoff){
        .random = random_stream_make(seed, RANDOM_BACKOFF, a, b),
        .bound_ns = BACKOFF_LEAST_NS,
    };
}

uint64_t backoff_next_ns(backoff *state)
{
    uint64_t wait = (uint64_t)(random_uniform(&state->random) * (double)state->bound_ns);
    state->bound_ns = state->bound_ns < BACKOFF_MOST_NS / 2 ? 2 * state->bound_ns : BACKOFF_MOST_NS;
    return wait;
}

void backoff_reset(backoff *state)
{
    state->bound_ns = BACKOFF_LEAST_NS;
}

void backoff_lost(backoff *state, uint64_t up_ns)
{
    if (up_ns >= BACKOFF_STEADY_NS)
        backoff_reset(state);
}
