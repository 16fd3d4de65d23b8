/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/copying.h"

#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/sum_id.h"
#include "engine/sum_digest.h"
#include "runtime/clock.h"
#include "runtime/host/runtime.h"

enum {
    PAUSE_NS = 1000000, /* between two looks for a worker that has it */
    PATIENCE = 5,       /* silence limits until a worker that sends nothing is given up first; */
    LONGER = 2,         /* the next one is given so much longer */
};
#define LONGEST_LIMIT_NS UINT64_C(60000000000)

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static size_t dimension_of(const tarry_runtime *runtime)
{
    return runtime->host->cut.dimension;
}

void copying_end(tarry_runtime *runtime)
{
    copying *own = &runtime->copying;
    if (own->by == NULL)
        return;
    own->by->methods->abandon(own->by);
    own->by = NULL;
    memory_release(&runtime->host->allocator, own->numbers);
    own->numbers = NULL;
    if (runtime->methods->leave != NULL)
        runtime->methods->leave(runtime, own->from);
}

/* The next call begins with another worker. */
static void give_up(tarry_runtime *runtime)
{
    copying *own = &runtime->copying;
    own->next = (own->from + 1) % runtime->host->plan->workers;
    copying_end(runtime);
}

/* ---- the beginning of a transfer ---- */

typedef struct search {
    uint32_t worker;
    bool found;
} search;

/* Sets the first worker from search.worker on that has stepped on the last sum. In the host's
 * thread. Asking one that has not would make it write a useless state. */
static void find_ready(tarry_runtime *runtime, void *argument)
{
    search *wanted = argument;
    uint32_t workers = runtime->host->plan->workers;
    for (uint32_t i = 0; i < workers && !wanted->found; i++) {
        uint32_t worker = (wanted->worker + i) % workers;
        wanted->found = tarry_server_ready(runtime->host->machine, worker);
        if (wanted->found)
            wanted->worker = worker;
    }
}

static int send_request(tarry_runtime *runtime)
{
    copying *own = &runtime->copying;
    const exchange_methods *methods = own->by->methods;
    return own->numbers != NULL ? methods->fetch(own->by, own->from, &own->wanted, own->numbers,
                                                 dimension_of(runtime))
                                : methods->load(own->by, own->from, &own->wanted);
}

/* Asks one worker. Errors: STATE (none can be asked now), NO_MEMORY. */
static int begin(tarry_runtime *runtime, uint32_t worker, bool sum)
{
    copying *own = &runtime->copying;
    exchange *by = runtime->methods->reach(runtime, worker);
    if (by == NULL)
        return TARRY_ERROR_STATE;
    own->by = by;
    own->from = worker;
    own->wanted = runtime->host->committed;
    own->got = 0;
    own->moved_ns = clock_now_ns();
    if (own->limit_ns == 0)
        own->limit_ns =
            sooner(runtime->host->settings.server.silence_ns, LONGEST_LIMIT_NS / PATIENCE) *
            PATIENCE;
    if (sum)
        own->numbers =
            memory_allocate(&runtime->host->allocator, dimension_of(runtime), sizeof(float));
    int error = sum && own->numbers == NULL ? TARRY_ERROR_NO_MEMORY : send_request(runtime);
    if (error != TARRY_OK)
        copying_end(runtime);
    return error;
}

/* Every worker holds the sum, but only those that are ready have the state. */
static int begin_any(tarry_runtime *runtime, bool sum)
{
    copying *own = &runtime->copying;
    uint32_t workers = runtime->host->plan->workers;
    int error = TARRY_ERROR_STATE;
    for (uint32_t i = 0; i < workers && error == TARRY_ERROR_STATE; i++) {
        search wanted = {.worker = (own->next + i) % workers, .found = sum};
        if (!sum)
            runtime_ask(runtime, find_ready, &wanted);
        if (!wanted.found)
            break;
        error = begin(runtime, wanted.worker, sum);
    }
    return error;
}

/* A round, or another question, came between the calls. */
static bool is_superseded(const tarry_runtime *runtime, bool sum)
{
    const copying *own = &runtime->copying;
    return sum != (own->numbers != NULL) || !sum_id_same(&own->wanted, &runtime->host->committed);
}

/* ---- its progress ---- */

static uint64_t after(uint64_t from_ns, uint64_t wait_ns)
{
    return wait_ns < TARRY_NEVER - from_ns ? from_ns + wait_ns : TARRY_NEVER;
}

static void note_progress(copying *own, const exchange_progress *progress)
{
    if (progress->got <= own->got)
        return;
    own->copied += progress->got - own->got;
    own->got = progress->got;
    own->moved_ns = clock_now_ns();
}

/* Waits for the transfer's end, until_ns or the limit of silence. A worker that sends nothing is
 * given up; the limit is longer for the next one, as writing a large state takes time. */
static void await(tarry_runtime *runtime, uint64_t until_ns, exchange_progress *progress)
{
    copying *own = &runtime->copying;
    uint64_t limit = after(own->moved_ns, own->limit_ns);
    uint64_t until = sooner(until_ns, limit);
    if (runtime->methods->await != NULL)
        runtime->methods->await(runtime, until, progress);
    else
        own->by->methods->wait(own->by, until, progress);
    note_progress(own, progress);
    if (progress->state != EXCHANGE_RUNNING || clock_now_ns() < after(own->moved_ns, own->limit_ns))
        return;
    progress->state = EXCHANGE_FAILED;
}

/* Nobody has it, or the one that was asked does not give it. */
static void pause_before_next(tarry_runtime *runtime)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    if (runtime->methods->listen != NULL)
        runtime->methods->listen(runtime, clock_from_now(PAUSE_NS));
    else
        nanosleep(&pause, NULL);
}

/* Errors: STATE (it is still in progress, or no worker has it). */
static int run(tarry_runtime *runtime, uint64_t until_ns, bool sum, exchange_progress *progress)
{
    copying *own = &runtime->copying;
    if (own->by != NULL && is_superseded(runtime, sum))
        copying_end(runtime);
    do {
        int error = own->by != NULL ? TARRY_OK : begin_any(runtime, sum);
        if (error == TARRY_ERROR_NO_MEMORY)
            return error;
        if (error == TARRY_OK)
            await(runtime, until_ns, progress);
        if (error == TARRY_OK && progress->state == EXCHANGE_DONE)
            return TARRY_OK;
        if (error == TARRY_OK && progress->state != EXCHANGE_RUNNING) {
            own->limit_ns = sooner(LONGER * own->limit_ns, LONGEST_LIMIT_NS);
            give_up(runtime);
        }
        if (own->by == NULL && clock_now_ns() < until_ns)
            pause_before_next(runtime);
    } while (clock_now_ns() < until_ns);
    return TARRY_ERROR_STATE;
}

/* ---- its end ---- */

int copying_state(tarry_runtime *runtime, uint64_t until_ns, copied_state *found)
{
    copying *own = &runtime->copying;
    exchange_progress progress;
    int error = run(runtime, until_ns, false, &progress);
    if (error != TARRY_OK)
        return error;
    uint8_t *bytes = own->by->methods->take(own->by);
    if (bytes != NULL)
        *found = (copied_state){.after = progress.after, .bytes = bytes, .size = progress.size};
    copying_end(runtime);
    own->limit_ns = 0;
    return bytes != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

int copying_sum(tarry_runtime *runtime, uint64_t until_ns, float *into)
{
    copying *own = &runtime->copying;
    size_t dimension = dimension_of(runtime);
    exchange_progress progress;
    for (;;) {
        int error = run(runtime, until_ns, true, &progress);
        if (error != TARRY_OK)
            return error;
        if (sum_digest(own->wanted.step, own->numbers, dimension) == own->wanted.digest)
            break;
        give_up(runtime);
    }
    memcpy(into, own->numbers, dimension * sizeof(float));
    copying_end(runtime);
    own->limit_ns = 0;
    return TARRY_OK;
}
