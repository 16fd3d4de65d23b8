/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a runtime's owner. What concerns the machine alone is the same for all. */
#include "runtime/host/runtime.h"

#include <assert.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/clock.h"

void runtime_ask(tarry_runtime *runtime, runtime_request *request, void *argument)
{
    if (runtime->methods->ask != NULL)
        runtime->methods->ask(runtime, request, argument);
    else
        request(runtime, argument);
}

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
    return runtime->methods->wait(runtime, workers, wait_ns, diagnostic);
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
    runtime->methods->interrupt(runtime);
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
