/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <tarry/error.h>

#include "base/memory.h"

enum { SIGNALS = 3 };

struct interrupt {
    void (*stop)(void *user);
    void *user;
    int wake; /* an eventfd: one count for each signal and for interrupt_end */
    pthread_t thread;
    sigset_t mask_before;
    struct sigaction before[SIGNALS];
    atomic_bool seen;
};

static const int signals[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

/*
 * A handler can only reach static data. It is needed beside the blocked signals: libraries start
 * threads of their own before main (OpenBLAS does), which do not block these signals, so that
 * waiting for them in one thread alone would miss some.
 */
static atomic_int handler_wake = -1;
static atomic_int handler_count;

static void handle(int number)
{
    int error = errno;
    if (atomic_fetch_add(&handler_count, 1) == 0) {
        const uint64_t one = 1;
        ssize_t written = write(atomic_load(&handler_wake), &one, sizeof(one));
        (void)written; /* an eventfd takes it unless its counter is full */
    } else {
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = error;
}

static void unblock(sigset_t *before)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < SIGNALS; i++)
        sigaddset(&set, signals[i]);
    pthread_sigmask(SIG_UNBLOCK, &set, before);
}

static void *wait_for_signal(void *user)
{
    interrupt *state = user;
    unblock(NULL);
    uint64_t count;
    while (read(state->wake, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
    if (atomic_load(&handler_count) > 0) {
        atomic_store(&state->seen, true);
        state->stop(state->user);
        /* Stays, so that a second signal finds a thread that takes it. */
        while (read(state->wake, &count, sizeof(count)) < 0 && errno == EINTR) {
        }
    }
    return NULL;
}

int interrupt_begin(void (*stop)(void *user), void *user, interrupt **out)
{
    interrupt *state = memory_allocate(NULL, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->stop = stop;
    state->user = user;
    state->wake = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (state->wake < 0)
        goto release;
    atomic_store(&handler_count, 0);
    atomic_store(&handler_wake, state->wake);

    sigset_t set;
    sigemptyset(&set);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < SIGNALS; i++) {
        sigaddset(&set, signals[i]);
        sigaction(signals[i], NULL, &state->before[i]);
        /* What the caller ignores (nohup, a script's background) stays ignored. */
        if (state->before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    pthread_sigmask(SIG_BLOCK, &set, &state->mask_before);
    if (pthread_create(&state->thread, NULL, wait_for_signal, state) != 0)
        goto restore;
    *out = state;
    return TARRY_OK;

restore:
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &state->before[i], NULL);
    pthread_sigmask(SIG_SETMASK, &state->mask_before, NULL);
    close(state->wake);
release:
    memory_release(NULL, state);
    return TARRY_ERROR_SYSTEM;
}

bool interrupt_seen(const interrupt *state)
{
    return atomic_load(&state->seen);
}

void interrupt_end(interrupt *state)
{
    if (state == NULL)
        return;
    const uint64_t one = 1;
    ssize_t written = write(state->wake, &one, sizeof(one));
    (void)written;
    pthread_join(state->thread, NULL);
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &state->before[i], NULL);
    pthread_sigmask(SIG_SETMASK, &state->mask_before, NULL);
    close(state->wake);
    memory_release(NULL, state);
}
