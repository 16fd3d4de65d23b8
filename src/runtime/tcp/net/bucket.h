/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket: how much there may be of something, at a time and for good. Whatever happens
 * takes tokens, which come back with time.
 */
#ifndef TCP_BUCKET_H
#define TCP_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bucket_size {
    double room;       /* tokens when it is full, >= 0 */
    double per_second; /* that come back, >= 0 */
} bucket_size;

/* Full if it is all zeros. */
typedef struct bucket {
    double taken;
    uint64_t then_ns;
} bucket;

/* Takes `tokens` at the time now_ns, which never goes back. False: there are not as many, and none
 * is taken. */
static inline bool bucket_take(bucket *self, bucket_size size, double tokens, uint64_t now_ns)
{
    if (now_ns != self->then_ns) {
        double back = (double)(now_ns - self->then_ns) * 1e-9 * size.per_second;
        self->taken = self->taken > back ? self->taken - back : 0;
        self->then_ns = now_ns;
    }
    if (self->taken + tokens > size.room)
        return false;
    self->taken += tokens;
    return true;
}

/* Puts back as many, as far as there is room. */
static inline void bucket_give(bucket *self, double tokens)
{
    self->taken = self->taken > tokens ? self->taken - tokens : 0;
}

#endif
