/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/runtime.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <tarry/runtime.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "coding/vector_digest.h"
#include "runtime/clock.h"
#include "runtime/host/host.h"
#include "runtime/worker/exchange.h"

typedef struct copied_state {
    tarry_sum_id after;
    uint8_t *bytes; /* of the host's allocator */
    uint64_t size;
} copied_state;

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

/* Ends the transfer in progress, if there is one. */
static void copying_end(tarry_runtime *runtime)
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
    const exchange_numbers into = exchange_numbers_at(own->numbers, dimension_of(runtime));
    return own->numbers != NULL ? methods->fetch(own->by, own->from, &own->wanted, &into)
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

/* Calls `request` as runtime_methods.ask has it. */
static void runtime_ask(tarry_runtime *runtime, runtime_request *request, void *argument)
{
    if (runtime->methods->ask != NULL)
        runtime->methods->ask(runtime, request, argument);
    else
        request(runtime, argument);
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

/* A state after the last sum, or a later one. Waits until until_ns at most; the transfer in
 * progress continues after that. Errors: STATE (it is not there yet), NO_MEMORY. */
static int copying_state(tarry_runtime *runtime, uint64_t until_ns, copied_state *found)
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

/* The last sum; as copying_state. `into` is only written on success. */
static int copying_sum(tarry_runtime *runtime, uint64_t until_ns, float *into)
{
    copying *own = &runtime->copying;
    size_t dimension = dimension_of(runtime);
    exchange_progress progress;
    for (;;) {
        int error = run(runtime, until_ns, true, &progress);
        if (error != TARRY_OK)
            return error;
        if (vector_digest(own->wanted.step, own->numbers, dimension) == own->wanted.digest)
            break;
        give_up(runtime);
    }
    memcpy(into, own->numbers, dimension * sizeof(float));
    copying_end(runtime);
    own->limit_ns = 0;
    return TARRY_OK;
}

/* The calls of a runtime's owner. What concerns the machine alone is the same for all. */

void tarry_runtime_free(tarry_runtime *runtime, bool finished)
{
    if (runtime == NULL)
        return;
    copying_end(runtime);
    runtime->methods->free(runtime, finished);
}

int tarry_runtime_open(tarry_runtime *runtime, tarry_diagnostic *diagnostic)
{
    if (runtime->awaits_checkpoint)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "%s: a checkpoint has to be stored before anybody is let in",
                        runtime->host->settings.name);
    return runtime->methods->open != NULL ? runtime->methods->open(runtime, diagnostic) : TARRY_OK;
}

int tarry_runtime_wait(tarry_runtime *runtime, uint32_t workers, uint64_t wait_ns,
                       tarry_diagnostic *diagnostic)
{
    int error = tarry_runtime_open(runtime, diagnostic);
    if (error != TARRY_OK || runtime->methods->wait == NULL)
        return error;
    error = runtime->methods->wait(runtime, workers, clock_from_now(wait_ns));
    if (error == TARRY_ERROR_INTERRUPTED)
        return diagnose(diagnostic, error, "interrupted while waiting for %u workers", workers);
    if (error == TARRY_ERROR_STATE)
        return diagnose(diagnostic, error, "waited %.3g s for %u workers, and not all of them came",
                        (double)wait_ns / 1e9, workers);
    return error;
}

int tarry_runtime_round(tarry_runtime *runtime, const float *parameters, float *sum,
                        tarry_round_result *result, tarry_diagnostic *diagnostic)
{
    copying_end(runtime);
    int error = tarry_runtime_open(runtime, diagnostic);
    return error == TARRY_OK ? runtime->methods->round(runtime, parameters, sum, result, diagnostic)
                             : error;
}

void tarry_runtime_interrupt(tarry_runtime *runtime)
{
    atomic_store(&runtime->interrupted, true);
    runtime->methods->wake(runtime);
}

int tarry_runtime_replan(tarry_runtime *runtime, const tarry_plan *next,
                         tarry_diagnostic *diagnostic)
{
    return runtime->methods->replan(runtime, next, diagnostic);
}

/* ---- the machine's ---- */

typedef struct costs_request {
    const double *costs;
    int error;
} costs_request;

static void set_costs(tarry_runtime *runtime, void *argument)
{
    costs_request *wanted = argument;
    wanted->error = tarry_server_costs(runtime->host->machine, wanted->costs);
}

int tarry_runtime_costs(tarry_runtime *runtime, const double *costs)
{
    costs_request wanted = {.costs = costs};
    runtime_ask(runtime, set_costs, &wanted);
    return wanted.error;
}

typedef struct visit_request {
    int (*look)(void *user, const tarry_server *machine);
    void *user;
    int result;
} visit_request;

static void visit(tarry_runtime *runtime, void *argument)
{
    visit_request *wanted = argument;
    wanted->result = wanted->look(wanted->user, runtime->host->machine);
}

int tarry_runtime_visit(tarry_runtime *runtime,
                        int (*look)(void *user, const tarry_server *machine), void *user)
{
    visit_request wanted = {.look = look, .user = user};
    runtime_ask(runtime, visit, &wanted);
    return wanted.result;
}

static int write_checkpoint(void *user, const tarry_server *machine)
{
    return tarry_server_checkpoint(machine, user);
}

int tarry_runtime_checkpoint(tarry_runtime *runtime, uint8_t *bytes)
{
    return tarry_runtime_visit(runtime, write_checkpoint, bytes);
}

static void note_stored(tarry_runtime *runtime, void *argument)
{
    const uint8_t *const *bytes = argument;
    tarry_server_stored(runtime->host->machine, *bytes);
    runtime->awaits_checkpoint = false;
}

void tarry_runtime_stored(tarry_runtime *runtime, const uint8_t *bytes)
{
    runtime_ask(runtime, note_stored, &bytes);
}

typedef struct worker_request {
    uint32_t worker;
    tarry_worker_state state;
} worker_request;

static void look_at_worker(tarry_runtime *runtime, void *argument)
{
    worker_request *wanted = argument;
    const host *server = runtime->host;
    wanted->state = (tarry_worker_state){
        .chunks = server->members[wanted->worker].chunks,
        .pace = tarry_server_pace_ns(server->machine, wanted->worker) / 1e9,
        .present = server->members[wanted->worker].joined,
    };
    if (runtime->methods->describe != NULL)
        runtime->methods->describe(runtime, wanted->worker, &wanted->state);
}

tarry_worker_state tarry_runtime_worker(tarry_runtime *runtime, uint32_t worker)
{
    assert(worker < runtime->host->plan->workers);
    worker_request wanted = {.worker = worker};
    runtime_ask(runtime, look_at_worker, &wanted);
    return wanted.state;
}

tarry_view tarry_runtime_view(const tarry_runtime *runtime)
{
    const view *seen = runtime->host->seen;
    if (seen == NULL || view_stamp(seen) == 0)
        return (tarry_view){0};
    return (tarry_view){.numbers = view_numbers(seen), .round = view_stamp(seen) - 1};
}

/* ---- where workers have the parameters ---- */

static int check_everywhere(const tarry_runtime *runtime, tarry_diagnostic *diagnostic)
{
    return runtime->methods->reach != NULL &&
                   runtime->host->settings.server.sum == TARRY_SUM_EVERYWHERE
               ? TARRY_OK
               : diagnose(diagnostic, TARRY_ERROR_STATE, "%s: its workers have no parameters",
                          runtime->host->settings.name);
}

int tarry_runtime_state(tarry_runtime *runtime, uint64_t wait_ns, tarry_sum_id *after, void **bytes,
                        uint64_t *size, tarry_diagnostic *diagnostic)
{
    copied_state found;
    int error = check_everywhere(runtime, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = copying_state(runtime, clock_from_now(wait_ns), &found);
    if (error != TARRY_OK)
        return diagnose(diagnostic, error,
                        error == TARRY_ERROR_STATE
                            ? "%s: no worker has the state after the last sum"
                            : "%s: no memory for a worker's state",
                        runtime->host->settings.name);
    *after = found.after;
    *bytes = found.bytes;
    *size = found.size;
    return TARRY_OK;
}

int tarry_runtime_sum(tarry_runtime *runtime, uint64_t wait_ns, float *sum,
                      tarry_diagnostic *diagnostic)
{
    int error = check_everywhere(runtime, diagnostic);
    if (error == TARRY_OK && runtime->host->committed.step == 0)
        error = diagnose(diagnostic, TARRY_ERROR_STATE, "%s: nothing was summed yet",
                         runtime->host->settings.name);
    else if (error == TARRY_OK && runtime->host->settings.server.element != TARRY_ELEMENT_FLOAT32)
        error = diagnose(diagnostic, TARRY_ERROR_STATE, "%s: copies of sums are of float32 alone",
                         runtime->host->settings.name);
    if (error != TARRY_OK)
        return error;
    error = copying_sum(runtime, clock_from_now(wait_ns), sum);
    return error == TARRY_OK ? TARRY_OK
                             : diagnose(diagnostic, error, "%s: no worker holds the last sum: %s",
                                        runtime->host->settings.name, tarry_error_text(error));
}

int tarry_runtime_vectors(tarry_runtime *runtime, const tarry_sum_id *after, const void *bytes,
                          uint64_t size, tarry_diagnostic *diagnostic)
{
    int error = check_everywhere(runtime, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = runtime->methods->vectors != NULL
                ? runtime->methods->vectors(runtime, after, bytes, size)
                : TARRY_ERROR_STATE;
    return error == TARRY_OK ? TARRY_OK
                             : diagnose(diagnostic, error, "%s: workers can't load a state from it",
                                        runtime->host->settings.name);
}

uint64_t tarry_runtime_copied(const tarry_runtime *runtime)
{
    return runtime->copying.copied;
}

void tarry_runtime_release_state(tarry_runtime *runtime, void *bytes)
{
    memory_release(&runtime->host->allocator, bytes);
}

/* ---- what some have ---- */

const char *tarry_runtime_address(const tarry_runtime *runtime, uint32_t index)
{
    return runtime->methods->address != NULL ? runtime->methods->address(runtime, index) : NULL;
}

void tarry_runtime_job_id(const tarry_runtime *runtime, uint8_t id[TARRY_JOB_ID_SIZE])
{
    memset(id, 0, TARRY_JOB_ID_SIZE);
    if (runtime->methods->job_id != NULL)
        memcpy(id, runtime->methods->job_id(runtime), TARRY_JOB_ID_SIZE);
}

typedef struct note_request {
    uint64_t done, rounds;
    const char *note;
} note_request;

static void take_note(tarry_runtime *runtime, void *argument)
{
    const note_request *wanted = argument;
    runtime->methods->note(runtime, wanted->done, wanted->rounds, wanted->note);
}

void tarry_runtime_note(tarry_runtime *runtime, uint64_t done, uint64_t rounds, const char *note)
{
    note_request wanted = {.done = done, .rounds = rounds, .note = note};
    if (runtime->methods->note != NULL)
        runtime_ask(runtime, take_note, &wanted);
}

typedef struct status_request {
    record_out out;
    bool written;
} status_request;

static void write_status(tarry_runtime *runtime, void *argument)
{
    status_request *wanted = argument;
    wanted->written = runtime->methods->status(runtime, &wanted->out);
}

int tarry_runtime_status(tarry_runtime *runtime, char *text, size_t size)
{
    if (runtime->methods->status == NULL)
        return TARRY_ERROR_STATE;
    status_request wanted = {.out = {.text = text, .size = size > 0 ? size - 1 : 0}};
    runtime_ask(runtime, write_status, &wanted);
    if (!wanted.written)
        return TARRY_ERROR_ARGUMENT;
    text[wanted.out.length] = '\0';
    return TARRY_OK;
}
