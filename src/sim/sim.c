/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "compress/compress_lowrank.h"
#include "plan/plan.h"
#include "sim/world.h"

/* Every worker is mostly waited for by one event, and a signal to all is followed by as many
 * answers. */
static uint32_t first_capacity(uint32_t workers)
{
    return workers < UINT32_MAX / 4 - 64 ? 2 * workers + 64 : UINT32_MAX / 2;
}

static int create_workers(tarry_sim *sim)
{
    int error = TARRY_OK;
    for (uint32_t worker = 0; worker < sim->plan->workers && error == TARRY_OK; worker++) {
        error = worker_node_create(sim, worker);
        if (error == TARRY_OK)
            error =
                server_node_step(sim, &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = worker});
    }
    return error;
}

static int create(tarry_sim *sim, tarry_diagnostic *diagnostic)
{
    const tarry_allocator *allocator = &sim->allocator;
    uint32_t workers = sim->plan->workers;
    int error = network_init(&sim->network, &sim->settings, workers, allocator);
    int queued = queue_init(&sim->queue, first_capacity(workers), allocator);
    error = error == TARRY_OK ? queued : error;
    if (error == TARRY_OK)
        error = tarry_server_create(sim->plan, &sim->settings.server, allocator, &sim->server,
                                    diagnostic);
    if (error == TARRY_ERROR_ARGUMENT)
        return error;
    if (error == TARRY_OK)
        error = worker_node_shared(sim, sim->plan, &sim->shared);
    if (error == TARRY_OK) {
        sim->workers = memory_allocate(allocator, workers, sizeof(*sim->workers));
        error = sim->workers != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
    }
    if (error == TARRY_OK && sim_sums_everywhere(sim))
        error = group_create(sim);
    if (error == TARRY_OK)
        error = create_workers(sim);
    if (error == TARRY_OK && sim->settings.vectors)
        error = vectors_create(sim->plan, &sim->settings.server, sim->settings.seed, allocator,
                               &sim->vectors);
    if (error != TARRY_OK)
        diagnose_no_memory(diagnostic, "simulator");
    return error;
}

int tarry_sim_create(const tarry_plan *plan, const tarry_sim_settings *settings,
                     const tarry_allocator *allocator, tarry_sim **sim,
                     tarry_diagnostic *diagnostic)
{
    int error = settings_check(plan, settings, diagnostic);
    if (error == TARRY_OK && settings->way != TARRY_SIM_STAR &&
        settings->upload != TARRY_SIM_UPLOAD_CODED)
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                         "simulator: only coded parts are summed among workers");
    else if (error == TARRY_OK && settings->way != TARRY_SIM_STAR &&
             settings->way != TARRY_SIM_DIRECT && settings->way != TARRY_SIM_CHOSEN &&
             (settings->server.compress != TARRY_COMPRESS_NONE ||
              settings->server.compress_down != TARRY_COMPRESS_NONE))
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                         "simulator: where each hop would round anew, numbers are float32");
    if (error != TARRY_OK)
        return error;
    tarry_sim *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return diagnose_no_memory(diagnostic, "simulator");
    made->allocator = memory_allocator(allocator);
    made->plan = plan;
    made->settings = *settings;
    made->settings.server.dimension = settings->dimension;
    made->settings.server.compress_seed = made->settings.server.sample_seed = settings->seed;
    if (settings->server.compress == TARRY_COMPRESS_POWERSGD &&
        settings->server.compress_matrices == NULL) {
        made->square = lowrank_square(settings->dimension);
        made->settings.server.compress_matrices = &made->square;
        made->settings.server.compress_matrix_count = 1;
    }
    made->settings.server.sum = sim_sums_everywhere(made) ? TARRY_SUM_EVERYWHERE : TARRY_SUM_SERVER;
    layout cut = sim_layout(made, plan_least_parts(plan));
    if (made->settings.server.stripe_length > cut.part_length)
        made->settings.server.stripe_length = cut.part_length;
    made->stripes = cut.stripes;
    error = create(made, diagnostic);
    if (error == TARRY_OK && sim_sums_everywhere(made))
        error = sim_settle(made);
    if (error != TARRY_OK) {
        tarry_sim_free(made);
        return error;
    }
    *sim = made;
    return TARRY_OK;
}

void tarry_sim_free(tarry_sim *sim)
{
    if (sim == NULL)
        return;
    tarry_allocator allocator = sim->allocator;
    for (uint32_t worker = 0; sim->workers != NULL && worker < sim->plan->workers; worker++)
        tarry_worker_free(sim->workers[worker].machine);
    worker_shared_free(sim->shared);
    memory_release(&allocator, sim->workers);
    vectors_free(sim->vectors);
    group_free(sim);
    tarry_server_free(sim->server);
    queue_destroy(&sim->queue);
    network_destroy(&sim->network);
    memory_release(&allocator, sim);
}

static int carry_out(tarry_sim *sim, const sim_event *event)
{
    switch (event->kind) {
    case SIM_AT_CARD:
    case SIM_TO_SERVER:
    case SIM_COMBINED:
    case SIM_JOINS:
    case SIM_LOGGED:
        return server_node_take(sim, event);
    case SIM_TO_WORKER:
    case SIM_COMPUTED:
    case SIM_ENCODED:
    case SIM_DIES:
    case SIM_COMES_BACK:
    case SIM_REDUCED:
    case SIM_FETCHED:
    case SIM_LOADED:
    case SIM_STEPPED:
        break;
    case SIM_ASKS:
    case SIM_NOTICED: /* a baseline's, which has a queue of its own */
        assert(false);
        break;
    }
    return worker_node_take(sim, event);
}

static int run_once(tarry_sim *sim)
{
    uint64_t next = queue_next(&sim->queue), deadline = tarry_server_deadline(sim->server);
    sim->events++;
    if (deadline < next) {
        sim->now = deadline > sim->now ? deadline : sim->now;
        return server_node_step(sim, &(tarry_event){.type = TARRY_EVENT_TIME});
    }
    assert(next != TARRY_NEVER);
    sim->now = next;
    sim_event event = queue_pop(&sim->queue);
    int error = carry_out(sim, &event);
    memory_release(&sim->allocator, event.bits);
    return error;
}

int sim_settle(tarry_sim *sim)
{
    const uint64_t hop_ns =
        network_after(sim->network.latency_ns, jitter_most(&sim->network.jitter));
    uint64_t until_ns = network_after(sim->now, network_after(hop_ns, hop_ns));
    int error = TARRY_OK;
    while (error == TARRY_OK && queue_next(&sim->queue) <= until_ns && until_ns != TARRY_NEVER)
        error = run_once(sim);
    return error;
}

int tarry_sim_costs(tarry_sim *sim, const double *chunk_cost, tarry_diagnostic *diagnostic)
{
    int error = settings_check_costs(sim->plan, chunk_cost, diagnostic);
    if (error == TARRY_OK)
        sim->settings.chunk_cost = chunk_cost;
    return error;
}

/* What chunks of the plan cost by those of the original one. */
static int tell_costs(tarry_sim *sim)
{
    const double *cost = sim->settings.chunk_cost;
    if (!sim->settings.costs_known)
        return TARRY_OK;
    if (cost == NULL || tarry_plan_is_original(sim->plan))
        return tarry_server_costs(sim->server, cost);
    double *own = memory_allocate(&sim->allocator, sim->plan->chunks, sizeof(*own));
    if (own == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t chunk = 0; chunk < sim->plan->chunks; chunk++)
        for (uint32_t i = 0; i < tarry_plan_span_count(sim->plan, chunk); i++) {
            tarry_span span = tarry_plan_span(sim->plan, chunk, i);
            own[chunk] += cost[span.origin] * span.count / span.of;
        }
    int error = tarry_server_costs(sim->server, own);
    memory_release(&sim->allocator, own);
    return error;
}

/* What cards carry counts from here on. */
static void begin_traffic(tarry_sim *sim)
{
    sim->traffic = (tarry_sim_traffic){0};
    sim->signalled_ns = TARRY_NEVER;
    sim->network.server.in.bytes = sim->network.server.out.bytes = 0;
    for (uint32_t worker = 0; worker < sim->plan->workers; worker++)
        sim->network.workers[worker].in.bytes = sim->network.workers[worker].out.bytes = 0;
}

int tarry_sim_round(tarry_sim *sim, tarry_round_result *result)
{
    sim->done = false;
    begin_traffic(sim);
    sim->gradient_bytes = sim->answers = sim->moved_bytes = 0;
    if (sim->vectors != NULL)
        vectors_begin(sim->vectors, sim->round);
    int error = tell_costs(sim);
    if (error == TARRY_OK)
        error = server_node_step(sim, &(tarry_event){.type = TARRY_EVENT_START});
    while (error == TARRY_OK && !sim->done)
        error = run_once(sim);
    if (error != TARRY_OK)
        return error;
    sim->round++;
    *result = sim->result;
    return TARRY_OK;
}

const float *tarry_sim_estimate(const tarry_sim *sim)
{
    return sim->vectors != NULL ? vectors_estimate(sim->vectors) : NULL;
}

const double *tarry_sim_truth(const tarry_sim *sim)
{
    return sim->vectors != NULL ? vectors_truth(sim->vectors) : NULL;
}

tarry_sim_traffic tarry_sim_last_traffic(const tarry_sim *sim)
{
    return sim->traffic;
}

const tarry_server *tarry_sim_server(const tarry_sim *sim)
{
    return sim->server;
}

uint64_t tarry_sim_now_ns(const tarry_sim *sim)
{
    return sim->now;
}

uint64_t tarry_sim_events(const tarry_sim *sim)
{
    return sim->events;
}
