/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one plan to the next: what a server has learned makes the plan, and the server of that plan
 * takes over what is known of the workers.
 */
#include <math.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "protocol/server/server_state.h"

/* tarry_server_adapt: of a plan that copies moved for, if that makes it worse: sums of float32 keep
 * 5 digits then. */
#define MOST_CONDITIONING 100
/* Costs that are in the data need no more chunks than that (the sum of cost / mean is the number of
 * chunks). Others find no end: the first chunk of a round takes the longest, however small it is
 * cut, where chunks take less than the way to the worker. */
#define MOST_GROWTH 2

static int check(const tarry_server *server, const tarry_server *from, tarry_diagnostic *diagnostic)
{
    if (!server_is_fresh(server))
        return diagnose(diagnostic, TARRY_ERROR_STATE, "server: it is in use already");
    if (from->phase != SERVER_IDLE)
        return diagnose(diagnostic, TARRY_ERROR_STATE, "server: a round runs on the one before");
    if ((server->vote == NULL) != (from->vote == NULL))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "server: one of the two leaves the sum to the workers");
    if (from->vote != NULL && from->vote->phase != VOTE_CLOSED)
        return diagnose(diagnostic, TARRY_ERROR_STATE, "server: a sum is being logged");
    if (from->restored)
        return diagnose(diagnostic, TARRY_ERROR_STATE,
                        "server: the one before was restored, and no checkpoint taken since");
    if (server->plan->workers != from->plan->workers ||
        server->plan->origins != from->plan->origins)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "server: plans of %u and %u workers, from %u and %u chunks",
                        from->plan->workers, server->plan->workers, from->plan->origins,
                        server->plan->origins);
    return TARRY_OK;
}

int tarry_server_adopt(tarry_server *server, const tarry_server *from, tarry_diagnostic *diagnostic)
{
    int error = check(server, from, diagnostic);
    if (error != TARRY_OK)
        return error;
    error = steering_adopt(server, from);
    if (error != TARRY_OK)
        return diagnose_no_memory(diagnostic, "server");
    server->round = from->round;
    server->part_time = from->part_time;
    server->upload = from->upload;
    server->cover_time = from->cover_time;
    server->way_time = from->way_time;
    server->idle_ns = from->idle_ns;
    server->sweep_ns = from->sweep_ns;
    /* Paces are of the mean chunk, which is another one now. */
    double grown = (double)server->plan->chunks / from->plan->chunks;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        server->answers[worker] = from->answers[worker];
        const server_member *known = &from->members[worker];
        server->members[worker] = (server_member){
            .present = known->present,
            .behind = known->present && server->vote != NULL,
            .stopped = true,
            .epoch = known->epoch,
            .epoch_end = known->epoch_end,
            .pace.past = known->pace.past / grown,
            .heard_ns = known->heard_ns,
            .probe_ns = known->probe_ns,
            .overheard = known->overheard,
        };
    }
    server_stood_begin_life(server, from);
    if (server->vote != NULL) {
        vote_adopt(server->vote, from->vote);
        server->routes = from->routes;
    }
    server->vote_waits = server->vote != NULL;
    return TARRY_OK;
}

/* Workers that are there: their paces, the median where none is known yet. Others are gone; if all
 * are, nobody is known to be worse than another. */
static int list_paces(const tarry_server *server, const tarry_allocator *allocator, double *paces)
{
    uint32_t workers = server->plan->workers, there = 0, known = 0;
    double *values = memory_allocate(allocator, workers, sizeof(*values));
    if (values == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t worker = 0; worker < workers; worker++) {
        double ns = tarry_server_pace_ns(server, worker);
        if (!server->members[worker].present)
            continue;
        there++;
        if (ns > 0)
            values[known++] = ns;
    }
    double usual = known > 0 ? quantile_of(values, known, 0.5) : 1;
    for (uint32_t worker = 0; worker < workers; worker++) {
        double ns = tarry_server_pace_ns(server, worker);
        bool gone = there > 0 && !server->members[worker].present;
        paces[worker] = gone ? INFINITY : ns > 0 ? ns : usual;
    }
    memory_release(allocator, values);
    return TARRY_OK;
}

int tarry_server_evolve(const tarry_server *server, const tarry_plan_evolution *limits,
                        const tarry_allocator *allocator, tarry_plan **next,
                        tarry_plan_changes *changes, tarry_diagnostic *diagnostic)
{
    const tarry_plan *plan = server->plan;
    tarry_plan_evolution wanted = *limits;
    double *paces = memory_allocate(allocator, plan->workers, sizeof(*paces));
    double *cost = memory_allocate(allocator, plan->chunks, sizeof(*cost));
    int error = paces == NULL || cost == NULL ? TARRY_ERROR_NO_MEMORY
                                              : list_paces(server, allocator, paces);
    if (error == TARRY_OK) {
        for (uint32_t chunk = 0; chunk < plan->chunks; chunk++)
            cost[chunk] = tarry_server_chunk_cost(server, chunk);
        wanted.pace = paces;
        wanted.cost = cost;
        error = tarry_plan_evolve(plan, &wanted, allocator, next, changes, diagnostic);
    } else {
        diagnose_no_memory(diagnostic, "plan");
    }
    memory_release(allocator, cost);
    memory_release(allocator, paces);
    return error;
}

/* The decode matrix was made for the sets of workers that shared chunks at first. */
static bool grows_worse(const tarry_plan *plan, const tarry_plan *next)
{
    double worst = tarry_plan_conditioning(next).worst;
    return worst > MOST_CONDITIONING && worst > tarry_plan_conditioning(plan).worst;
}

int tarry_server_adapt(const tarry_server *server, double share, const uint32_t *rack,
                       const tarry_allocator *allocator, tarry_plan **next,
                       tarry_plan_changes *changes, tarry_diagnostic *diagnostic)
{
    const tarry_plan *plan = server->plan;
    tarry_plan_evolution limits;
    tarry_plan_evolution_init(&limits);
    limits.heaviest = 2;
    limits.most_chunks = MOST_GROWTH * plan->origins;
    limits.lightest = 0.25;
    limits.most_load = 1.5;
    limits.rack = rack;
    limits.most_moves = (uint32_t)ceil(share * (double)plan_edges(plan));
    tarry_plan *made;
    tarry_plan_changes done;
    int error = tarry_server_evolve(server, &limits, allocator, &made, &done, diagnostic);
    if (error == TARRY_OK && done.moved > 0 && grows_worse(plan, made)) {
        tarry_plan_free(made);
        limits.most_moves = 0;
        error = tarry_server_evolve(server, &limits, allocator, &made, &done, diagnostic);
    }
    if (error != TARRY_OK)
        return error;
    bool same = done.split == 0 && done.merged == 0 && done.moved == 0;
    *next = same ? NULL : made;
    if (same)
        tarry_plan_free(made);
    if (changes != NULL)
        *changes = done;
    return TARRY_OK;
}
