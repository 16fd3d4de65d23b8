/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another plan between two rounds. All that it needs is made before anything changes. A worker
 * turns to it at once: what it was at, and what it has not heard of the plan before, is dropped.
 */
#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "sim/world.h"

/* What takes the place of what the world has. */
typedef struct replacement {
    tarry_server *server;
    worker_shared *shared;
    tarry_worker **machines; /* NULL for those that are not there */
    vectors *vectors;
} replacement;

static int check(const tarry_sim *sim, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (next->workers != sim->plan->workers)
        fault = "another number of workers";
    else if (next->origins != sim->plan->origins)
        fault = "other data";
    else if (next->parts != sim->plan->parts || next->adaptive != sim->plan->adaptive)
        fault = "another number of parts";
    return fault == NULL ? TARRY_OK
                         : diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                                    "simulator: the next plan is of %s", fault);
}

static int make_machine(const tarry_sim *sim, const tarry_plan *next, worker_shared *shared,
                        uint32_t worker, tarry_worker **machine)
{
    int error = worker_node_machine(sim, next, shared, worker, machine);
    return error == TARRY_OK && sim_sums_everywhere(sim)
               ? tarry_worker_adopt(*machine, sim->workers[worker].machine, NULL)
               : error;
}

static int make(const tarry_sim *sim, const tarry_plan *next, replacement *made,
                tarry_diagnostic *diagnostic)
{
    const tarry_allocator *allocator = &sim->allocator;
    const tarry_server_settings *server = &sim->settings.server;
    int error = tarry_server_create(next, server, allocator, &made->server, diagnostic);
    if (error == TARRY_OK)
        error = tarry_server_adopt(made->server, sim->server, diagnostic);
    if (error == TARRY_OK)
        error = worker_node_shared(sim, next, &made->shared);
    if (error != TARRY_OK)
        return error;
    made->machines = memory_allocate(allocator, next->workers, sizeof(tarry_worker *));
    error = made->machines == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    for (uint32_t worker = 0; worker < next->workers && error == TARRY_OK; worker++)
        if (sim->workers[worker].there)
            error = make_machine(sim, next, made->shared, worker, &made->machines[worker]);
    if (error == TARRY_OK && sim->vectors != NULL)
        error = vectors_create(next, server, sim->settings.seed, allocator, &made->vectors);
    return error == TARRY_OK ? TARRY_OK : diagnose_no_memory(diagnostic, "simulator");
}

static void discard(replacement *made, uint32_t workers, const tarry_allocator *allocator)
{
    for (uint32_t worker = 0; made->machines != NULL && worker < workers; worker++)
        tarry_worker_free(made->machines[worker]);
    memory_release(allocator, made->machines);
    worker_shared_free(made->shared);
    vectors_free(made->vectors);
    tarry_server_free(made->server);
}

/* Of what is on its way to workers, the new machines have use for nothing but the question whether
 * they are there; what workers did is stale, and the server knows. */
static bool is_over(const sim_event *event)
{
    return event->kind == SIM_ENCODED ||
           (event->kind == SIM_TO_WORKER && event->message.type != TARRY_MESSAGE_PROBE);
}

int tarry_sim_replan(tarry_sim *sim, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    replacement made = {0};
    int error = check(sim, next, diagnostic);
    if (error == TARRY_OK && sim_sums_everywhere(sim))
        error = sim_settle(sim);
    if (error == TARRY_OK)
        error = make(sim, next, &made, diagnostic);
    if (error == TARRY_OK) {
        tarry_server *server = sim->server;
        vectors *last = sim->vectors;
        worker_shared *shared = sim->shared;
        sim->plan = next;
        sim->server = made.server;
        sim->vectors = made.vectors;
        sim->shared = made.shared;
        made.server = server;
        made.vectors = last;
        made.shared = shared;
        for (uint32_t worker = 0; worker < next->workers; worker++)
            worker_node_replan(sim, worker, &made.machines[worker]);
        queue_sweep(&sim->queue, is_over);
    }
    discard(&made, next->workers, &sim->allocator);
    /* The new server asks everyone what it has. */
    if (error == TARRY_OK && sim_sums_everywhere(sim))
        error = server_node_step(sim, &(tarry_event){.type = TARRY_EVENT_TIME});
    if (error == TARRY_OK && sim_sums_everywhere(sim))
        error = sim_settle(sim);
    return error;
}
