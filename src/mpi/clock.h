/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPI_CLOCK_H
#define MPI_CLOCK_H

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

static inline uint64_t clock_from_now(uint64_t ns)
{
    uint64_t now = clock_now_ns();
    return ns < TARRY_NEVER - now ? now + ns : TARRY_NEVER;
}

/* A condition whose timed waits end at times of this clock. */
static inline bool clock_init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(condition, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return made;
}

/* Waits for a change until the time at most. False: it is that late. */
static inline bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns)
{
    if (until_ns == TARRY_NEVER)
        return pthread_cond_wait(condition, lock) == 0;
    struct timespec until = {.tv_sec = (time_t)(until_ns / UINT64_C(1000000000)),
                             .tv_nsec = (long)(until_ns % UINT64_C(1000000000))};
    return pthread_cond_timedwait(condition, lock, &until) == 0;
}

#endif
