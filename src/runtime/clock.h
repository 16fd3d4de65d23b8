/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CLOCK_H
#define RUNTIME_CLOCK_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <tarry/event.h>

/* The monotonic clock, in nanoseconds. */
static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The time in so many nanoseconds; TARRY_NEVER if that does not come. */
static inline uint64_t clock_from_now(uint64_t ns)
{
    uint64_t now = clock_now_ns();
    return ns < TARRY_NEVER - now ? now + ns : TARRY_NEVER;
}

static inline struct timespec clock_timespec(uint64_t time_ns)
{
    return (struct timespec){
        .tv_sec = (time_t)(time_ns / UINT64_C(1000000000)),
        .tv_nsec = (long)(time_ns % UINT64_C(1000000000)),
    };
}

/* A condition whose timed waits end at times of this clock. Gives back 0, or -1 if the system
 * refuses it. */
static inline int clock_init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return -1;
    int failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (failed == 0)
        failed = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return failed == 0 ? 0 : -1;
}

/* Waits until somebody signals the condition, at most until a time; the lock is held. False: it is
 * that late. */
static inline bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns)
{
    if (until_ns == TARRY_NEVER) {
        pthread_cond_wait(condition, lock);
        return true;
    }
    const struct timespec until = clock_timespec(until_ns);
    return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}

#endif
