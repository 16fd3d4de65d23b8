/* SPDX-License-Identifier: Apache-2.0 */
/* What the steering learns: how fast workers are, and what chunks cost. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "protocol/server/server_state.h"

/* Of a chunk, relative to the mean: one that costs nothing must be computed all the same. */
#define LEAST_COST 1e-3

/* The dearest first; equal ones as they are numbered. Heapsort, since a comparison needs the costs.
 */
static void sift(const double *cost, uint32_t *chunks, uint32_t root, uint32_t count)
{
    for (;;) {
        uint32_t least = root;
        for (uint32_t child = 2 * root + 1; child <= 2 * root + 2 && child < count; child++) {
            uint32_t a = chunks[child], b = chunks[least];
            if (cost[a] < cost[b] || (cost[a] == cost[b] && a > b))
                least = child;
        }
        if (least == root)
            return;
        uint32_t chunk = chunks[root];
        chunks[root] = chunks[least];
        chunks[least] = chunk;
        root = least;
    }
}

void steering_sort(const double *values, uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t root = count / 2; root-- > 0;)
        sift(values, order, root, count);
    for (uint32_t last = count; last-- > 1;) {
        uint32_t top = order[0];
        order[0] = order[last];
        order[last] = top;
        sift(values, order, 0, last);
    }
}

static void sort_by_cost(steering *it, uint32_t count)
{
    steering_sort(it->cost, it->by_cost, count);
}

int tarry_server_costs(tarry_server *server, const double *costs)
{
    if (server->phase != SERVER_IDLE)
        return TARRY_ERROR_STATE;
    uint32_t chunks = server->plan->chunks;
    double sum = 0;
    for (uint32_t chunk = 0; chunk < chunks && costs != NULL; chunk++) {
        if (!(costs[chunk] >= 0 && isfinite(costs[chunk])))
            return TARRY_ERROR_ARGUMENT;
        sum += costs[chunk];
    }
    steering *it = server->steering;
    if (it == NULL)
        return TARRY_OK;
    for (uint32_t chunk = 0; chunk < chunks; chunk++)
        it->cost[chunk] = sum > 0 ? fmax(costs[chunk] / (sum / chunks), LEAST_COST) : 1;
    it->given = costs != NULL;
    sort_by_cost(it, chunks);
    return TARRY_OK;
}

int steering_adopt(tarry_server *server, const tarry_server *from)
{
    steering *it = server->steering;
    const steering *other = from->steering;
    if (it == NULL || other == NULL)
        return TARRY_OK;
    int error =
        tarry_plan_carry_cost(from->plan, other->cost, server->plan, &server->allocator, it->cost);
    if (error == TARRY_OK)
        error = chunk_costs_carry(&it->learned, server->plan, &other->learned, from->plan,
                                  &server->allocator);
    if (error != TARRY_OK) {
        for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
            it->cost[chunk] = 1;
        return error;
    }
    it->given = other->given;
    /* Paces and costs are in units of the mean chunk, which is another one now. */
    double grown = (double)server->plan->chunks / from->plan->chunks;
    for (uint32_t chunk = 0; chunk < server->plan->chunks; chunk++)
        it->cost[chunk] *= grown;
    sort_by_cost(it, server->plan->chunks);
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        it->workers[worker].pace.past = other->workers[worker].pace.past / grown;
    it->prior_ns = other->prior_ns / grown;
    return TARRY_OK;
}

double tarry_server_pace_ns(const tarry_server *server, uint32_t worker)
{
    assert(worker < server->plan->workers);
    const pace *of = server->steering != NULL ? &server->steering->workers[worker].pace
                                              : &server->members[worker].pace;
    return pace_of(of, 0, 0, 0);
}

double tarry_server_chunk_cost(const tarry_server *server, uint32_t chunk)
{
    assert(chunk < server->plan->chunks);
    return server->steering != NULL ? server->steering->cost[chunk] : 1;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void learn_prior(tarry_server *server, double time)
{
    steering *it = server->steering;
    uint32_t count = 0, known = 0;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        const steering_worker *of = &it->workers[worker];
        if (!member_able(&server->members[worker]))
            continue;
        double per_cost_ns = pace_of(&of->pace, 0, 0, 0);
        known += per_cost_ns > 0;
        if (!(per_cost_ns > 0) && of->current < server_load(server, worker))
            per_cost_ns =
                (time - of->since_ns) / it->cost[steering_chunk(server, worker, of->current)];
        it->values[count++] = per_cost_ns;
    }
    it->updates_seen = 0;
    if (known == 0)
        return;
    qsort(it->values, count, sizeof(double), compare);
    it->prior_ns = fmax(it->values[count / 2], 1);
}

void learn_time(tarry_server *server, uint32_t worker, uint32_t chunk, double ns)
{
    steering *it = server->steering;
    pace *of = &it->workers[worker].pace;
    double expected = pace_of(of, it->prior_ns, 0, 0);
    if (expected > 0)
        chunk_costs_add(&it->learned, chunk, ns / expected);
    pace_add(of, it->cost[chunk], ns, expected);
}

void learn_unfinished(tarry_server *server, uint32_t worker, double time)
{
    pace *of = &server->steering->workers[worker].pace;
    double known = pace_of(of, server->steering->prior_ns, 0, 0);
    if (!(known > 0) || of->cost > 0)
        return;
    double per_cost_ns = steering_pace(server, worker, time);
    if (per_cost_ns > known)
        of->past = per_cost_ns;
}

void learn_least(tarry_server *server, uint32_t worker, double time)
{
    const steering *it = server->steering;
    const steering_worker *who = &it->workers[worker];
    pace *of = &it->workers[worker].pace;
    double cost = it->cost[steering_chunk(server, worker, who->current)];
    if (!(of->cost > 0))
        of->past = fmax(of->past, (time - who->since_ns) / cost);
}

void learn_begin_round(tarry_server *server)
{
    steering *it = server->steering;
    if (it->prior_ns > 0)
        learn_prior(server, 0);
    if (!it->given && server->settings.learn_costs) {
        chunk_costs_settle(&it->learned, it->cost);
        sort_by_cost(it, server->plan->chunks);
    }
}

void learn_end_round(tarry_server *server)
{
    const steering *it = server->steering;
    for (uint32_t worker = 0; worker < server->plan->workers; worker++) {
        pace *of = &it->workers[worker].pace;
        if (of->cost > 0)
            pace_end_round(of, pace_of(of, it->prior_ns, 0, 0));
    }
}
