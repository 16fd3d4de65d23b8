/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runner/children.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarry/event.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/clock.h"

enum { MILLISECOND_NS = 1000000, LAST_SIZE = 512, ARGUMENTS_MOST = 48, LOOK_MILLISECONDS = 50 };

#define LEAST_LIFE_NS UINT64_C(1000000000) /* from one start to the next */
#define LAST_WAIT_NS UINT64_C(2000000000)  /* for those that were told to end */

typedef struct child {
    pid_t process; /* 0: none runs */
    int handle;    /* a pidfd; -1: none */
    uint64_t started_ns;
    bool waits; /* to be started again */
} child;

struct children {
    uint32_t count;
    char *const *arguments;
    int input;
    bool quiet;
    child *one;
    struct pollfd *polled; /* count + 1: the last one is `wake` */
    int wake;              /* an eventfd */
    pid_t parent;
    pthread_t thread;
    atomic_bool retired, ending;
    _Atomic uint32_t left;
};

/* What is left to do between fork and exec, where only few functions may be called. */
static _Noreturn void become(const children *all, char *const *arguments)
{
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != all->parent)
        _exit(1);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int input = all->input >= 0 ? all->input : open("/dev/null", O_RDONLY);
    if (input >= 0)
        dup2(input, STDIN_FILENO);
    execv("/proc/self/exe", arguments);
    _exit(127);
}

static bool start(children *all, uint32_t index)
{
    child *one = &all->one[index];
    char last[LAST_SIZE];
    char *arguments[ARGUMENTS_MOST + 1];
    size_t count = 0;
    for (; all->arguments[count] != NULL; count++)
        arguments[count] = all->arguments[count];
    snprintf(last, sizeof(last), "%s%" PRIu32, arguments[count - 1], index);
    arguments[count - 1] = last;
    arguments[count] = NULL;
    one->waits = false;
    one->started_ns = clock_now_ns();
    pid_t process = fork();
    if (process == 0)
        become(all, arguments);
    if (process < 0)
        return false;
    one->process = process;
    one->handle = (int)syscall(SYS_pidfd_open, process, 0);
    return true;
}

static void tell(const children *all, uint32_t index, pid_t process, int number)
{
    if (all->quiet)
        return;
    /* A line that shows how far the run is makes room. */
    fprintf(stderr, "%sworker %" PRIu32 " (process %d): killed by signal %d; it is started again\n",
            isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", index, (int)process, number);
}

static void forget(children *all, child *one)
{
    if (one->handle >= 0)
        close(one->handle);
    one->handle = -1;
    one->process = 0;
    atomic_fetch_sub(&all->left, 1);
}

/* Takes note of one that has ended. */
static void reap(children *all, uint32_t index)
{
    child *one = &all->one[index];
    int status;
    pid_t process = one->process;
    if (process == 0 || waitpid(process, &status, WNOHANG) != process)
        return;
    forget(all, one);
    if (!WIFSIGNALED(status) || atomic_load(&all->retired))
        return;
    tell(all, index, process, WTERMSIG(status));
    one->waits = true;
    atomic_fetch_add(&all->left, 1);
}

/* Starts those again whose time it is, and gives back the milliseconds to the next one; -1: there
 * is none. */
static int start_again(children *all)
{
    uint64_t now = clock_now_ns(), soonest = TARRY_NEVER;
    for (uint32_t i = 0; i < all->count; i++) {
        child *one = &all->one[i];
        if (!one->waits)
            continue;
        if (atomic_load(&all->retired)) {
            one->waits = false;
            atomic_fetch_sub(&all->left, 1);
            continue;
        }
        if (one->started_ns + LEAST_LIFE_NS <= now && start(all, i))
            continue;
        uint64_t due = one->started_ns + LEAST_LIFE_NS;
        one->waits = true;
        soonest = due < soonest ? due : soonest;
    }
    if (soonest == TARRY_NEVER)
        return -1;
    return soonest <= now ? 1 : (int)((soonest - now) / MILLISECOND_NS) + 1;
}

static void wait_for_news(children *all, int milliseconds)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const child *one = &all->one[i];
        all->polled[i] = (struct pollfd){.fd = one->handle, .events = POLLIN};
        /* Where a kernel has no pidfds, it is looked every now and then. */
        if (one->process > 0 && one->handle < 0 &&
            (milliseconds < 0 || milliseconds > LOOK_MILLISECONDS))
            milliseconds = LOOK_MILLISECONDS;
    }
    all->polled[all->count] = (struct pollfd){.fd = all->wake, .events = POLLIN};
    poll(all->polled, all->count + 1, milliseconds);
    uint64_t news;
    ssize_t got = read(all->wake, &news, sizeof(news));
    (void)got; /* nothing to read is well, too */
}

static void kill_all(const children *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (all->one[i].process > 0)
            kill(all->one[i].process, SIGKILL);
}

/* A process is killed when the thread ends that started it: all is done by this one. */
static void *look_after(void *user)
{
    children *all = user;
    uint64_t until = TARRY_NEVER;
    for (uint32_t i = 0; i < all->count; i++)
        all->one[i].waits = !start(all, i);
    for (;;) {
        int soonest = start_again(all);
        if (atomic_load(&all->ending) && until == TARRY_NEVER)
            until = clock_now_ns() + LAST_WAIT_NS;
        if (until != TARRY_NEVER) {
            if (atomic_load(&all->left) == 0)
                return NULL;
            if (clock_now_ns() >= until)
                kill_all(all);
            soonest = 10;
        }
        wait_for_news(all, soonest);
        for (uint32_t i = 0; i < all->count; i++)
            reap(all, i);
    }
}

static void release(children *all)
{
    if (all->wake >= 0)
        close(all->wake);
    memory_release(NULL, all->polled);
    memory_release(NULL, all->one);
    memory_release(NULL, all);
}

int children_start(uint32_t count, char *const *arguments, int input, bool quiet, children **out,
                   tarry_diagnostic *diagnostic)
{
    children *all = memory_allocate(NULL, 1, sizeof(*all));
    if (all == NULL)
        return diagnose_no_memory(diagnostic, "worker processes");
    all->count = count;
    all->arguments = arguments;
    all->input = input;
    all->quiet = quiet;
    all->parent = getpid();
    all->left = count;
    all->one = memory_allocate(NULL, count, sizeof(*all->one));
    all->polled = memory_allocate(NULL, (size_t)count + 1, sizeof(*all->polled));
    all->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (all->one == NULL || all->polled == NULL) {
        release(all);
        return diagnose_no_memory(diagnostic, "worker processes");
    }
    for (uint32_t i = 0; i < count; i++)
        all->one[i].handle = -1;
    int failed = all->wake < 0 ? errno : pthread_create(&all->thread, NULL, look_after, all);
    if (failed != 0) {
        release(all);
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "worker processes: %s", strerror(failed));
    }
    *out = all;
    return TARRY_OK;
}

uint32_t children_left(const children *all)
{
    return atomic_load(&all->left);
}

void children_retire(children *all)
{
    atomic_store(&all->retired, true);
}

void children_end(children *all)
{
    if (all == NULL)
        return;
    const uint64_t one = 1;
    children_retire(all);
    atomic_store(&all->ending, true);
    ssize_t written = write(all->wake, &one, sizeof(one));
    (void)written; /* an eventfd takes it unless its counter is full */
    pthread_join(all->thread, NULL);
    release(all);
}
