/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <tarry/error.h>

#include "base/memory.h"
#include "runtime/clock.h"

static void ignore(int number, struct sigaction *before)
{
    const struct sigaction nothing = {.sa_handler = SIG_IGN};
    sigaction(number, NULL, before);
    if (before->sa_handler == SIG_DFL)
        sigaction(number, &nothing, NULL);
}

void write_signals_ignore(write_signals *before)
{
    write_signals unused;
    if (before == NULL)
        before = &unused;
    ignore(SIGPIPE, &before->pipe);
    ignore(SIGXFSZ, &before->size);
}

/* They do again what they did before. */
static void write_signals_restore(const write_signals *before)
{
    sigaction(SIGPIPE, &before->pipe, NULL);
    sigaction(SIGXFSZ, &before->size, NULL);
}

/* ---- interrupt ---- */

enum { SIGNALS = 3 };

#define ONE_MOMENT_NS UINT64_C(200000000)

struct interrupt {
    void (*stop)(void *user);
    void *user;
    int wake; /* an eventfd: one count for each signal and for interrupt_end */
    pthread_t thread;
    sigset_t mask_before;
    struct sigaction before[SIGNALS];
    write_signals write_before;
    atomic_bool seen;
    pthread_mutex_t calling; /* held while stop is called */
    bool settled;            /* stop is not to be called any more */
};

static const int signals[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

/*
 * A handler can only reach static data. It is needed beside the blocked signals: libraries start
 * threads of their own before main (OpenBLAS does), which do not block these signals, so that
 * waiting for them in one thread alone would miss some.
 */
static atomic_int handler_wake = -1;
static _Atomic uint64_t handler_first_ns; /* when the first signal came; 0: none has */

static void handle(int number)
{
    int error = errno;
    uint64_t first = 0, now = clock_now_ns();
    if (atomic_compare_exchange_strong(&handler_first_ns, &first, now)) {
        const uint64_t one = 1;
        ssize_t written = write(atomic_load(&handler_wake), &one, sizeof(one));
        (void)written; /* an eventfd takes it unless its counter is full */
    } else if (now > first + ONE_MOMENT_NS) {
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

/*
 * Waits for one count. poll() comes back after each handler, which a read() that is restarted does
 * not: ThreadSanitizer puts a handler off until the call that it interrupted has come back.
 */
static void await_wake(const interrupt *state)
{
    struct pollfd wake = {.fd = state->wake, .events = POLLIN};
    uint64_t count;
    while (poll(&wake, 1, -1) < 0 && errno == EINTR) {
    }
    ssize_t got = read(state->wake, &count, sizeof(count));
    (void)got; /* there is one, and no other reader */
}

static void *wait_for_signal(void *user)
{
    interrupt *state = user;
    unblock(NULL);
    await_wake(state);
    if (atomic_load(&handler_first_ns) != 0) {
        atomic_store(&state->seen, true);
        pthread_mutex_lock(&state->calling);
        if (!state->settled)
            state->stop(state->user);
        pthread_mutex_unlock(&state->calling);
        /* Stays, so that a second signal finds a thread that takes it. */
        await_wake(state);
    }
    return NULL;
}

static void restore(const interrupt *state)
{
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &state->before[i], NULL);
    write_signals_restore(&state->write_before);
    pthread_sigmask(SIG_SETMASK, &state->mask_before, NULL);
}

int interrupt_begin(void (*stop)(void *user), void *user, interrupt **out)
{
    interrupt *state = memory_allocate(NULL, 1, sizeof(*state));
    if (state == NULL)
        return TARRY_ERROR_NO_MEMORY;
    state->stop = stop;
    state->user = user;
    if (pthread_mutex_init(&state->calling, NULL) != 0)
        goto release;
    state->wake = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (state->wake < 0)
        goto destroy;
    atomic_store(&handler_first_ns, 0);
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
    write_signals_ignore(&state->write_before);
    pthread_sigmask(SIG_BLOCK, &set, &state->mask_before);
    if (pthread_create(&state->thread, NULL, wait_for_signal, state) != 0)
        goto give_back;
    *out = state;
    return TARRY_OK;

give_back:
    restore(state);
    close(state->wake);
destroy:
    pthread_mutex_destroy(&state->calling);
release:
    memory_release(NULL, state);
    return TARRY_ERROR_SYSTEM;
}

bool interrupt_seen(const interrupt *state)
{
    return atomic_load(&state->seen);
}

void interrupt_settle(interrupt *state)
{
    if (state == NULL)
        return;
    pthread_mutex_lock(&state->calling);
    state->settled = true;
    pthread_mutex_unlock(&state->calling);
}

void interrupt_end(interrupt *state)
{
    if (state == NULL)
        return;
    const uint64_t one = 1;
    ssize_t written = write(state->wake, &one, sizeof(one));
    (void)written;
    pthread_join(state->thread, NULL);
    restore(state);
    close(state->wake);
    pthread_mutex_destroy(&state->calling);
    memory_release(NULL, state);
}
