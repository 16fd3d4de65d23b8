/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/jitter.h"

#include <math.h>

jitter jitter_make(const tarry_sim_settings *settings)
{
    const tarry_sim_link *link = &settings->link;
    const double deviation = sqrt(log1p(link->jitter_spread * link->jitter_spread));
    return (jitter){
        .median_ns = (double)link->jitter_ns * exp(-deviation * deviation / 2),
        .deviation = deviation,
        .draws = random_stream_make(settings->seed, RANDOM_JITTER, (uint32_t)settings->first_round,
                                    (uint32_t)(settings->first_round >> 32)),
    };
}

static uint64_t wait_of(const jitter *state, double normal)
{
    double time = rint(state->median_ns * exp(state->deviation * normal));
    return time < 0x1p63 ? (uint64_t)time : UINT64_C(1) << 63;
}

uint64_t jitter_most(const jitter *state)
{
    return wait_of(state, 8);
}

uint64_t jitter_draw(jitter *state)
{
    return state->median_ns > 0 ? wait_of(state, random_normal(&state->draws)) : 0;
}

/* What a standard normal number exceeds with the probability `tail`, within 0.00045: M. Abramowitz
 * and I. Stegun, Handbook of Mathematical Functions, 26.2.23. */
static double normal_above(double tail)
{
    if (tail > 0.5)
        return -normal_above(1 - tail);
    const double t = sqrt(-2 * log(tail));
    return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                   (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

uint64_t jitter_longest(jitter *state, uint64_t messages)
{
    if (!(state->median_ns > 0) || messages == 0)
        return 0;
    /* All are below x with the probability P(one is) to the power of their number. */
    const double tail = -expm1(log(random_uniform(&state->draws)) / (double)messages);
    return wait_of(state, normal_above(fmin(fmax(tail, 0x1p-1022), 1 - 0x1p-53)));
}
