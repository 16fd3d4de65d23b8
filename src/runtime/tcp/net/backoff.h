/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long to wait before the next attempt to connect: a random time below a bound that doubles
 * with each attempt ("full jitter"), so that workers which lost their server together don't come
 * back together. Source: M. Brooker, Exponential backoff and jitter, AWS Architecture Blog, 2015.
 */
#ifndef TCP_BACKOFF_H
#define TCP_BACKOFF_H

#include "base/random.h"

#define BACKOFF_LEAST_NS UINT64_C(100000000)
#define BACKOFF_MOST_NS UINT64_C(30000000000)
#define BACKOFF_STEADY_NS UINT64_C(2000000000) /* a connection that was up for so long was good */

typedef struct backoff {
    random_stream random;
    uint64_t bound_ns;
} backoff;

/* a, b: what tells this stream of the seed from others'. */
void backoff_init(backoff *state, uint64_t seed, uint32_t a, uint32_t b);
/* The next wait: in 0..bound, which is then doubled, from LEAST up to MOST. */
uint64_t backoff_next_ns(backoff *state);
/* It went well: the bound is LEAST again. */
void backoff_reset(backoff *state);
/* A connection is lost that was up for `up_ns`: if that is STEADY at least, it went well. */
void backoff_lost(backoff *state, uint64_t up_ns);

#endif
