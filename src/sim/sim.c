/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/plan.h>
#include <tarry/server.h>

#include "base/bitset.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "coding/layout.h"
#include "compress/compress_lowrank.h"
#include "plan/plan.h"
#include "protocol/form.h"
#include "sim/cost.h"
#include "sim/links/network.h"
#include "sim/world.h"

/*
 * What workers do among themselves where everyone gets the sum. An engine begins at each worker
 * when that is told to, and all of them end once everybody in the group has begun and the numbers
 * have passed the links; one that stops before its last byte has left keeps the others waiting
 * until the server tells them. All sums have the same bits, steps take no time, and nobody keeps a
 * checkpoint.
 */

static int group_create(tarry_sim *sim)
{
    sim_group *group = &sim->group;
    const uint32_t workers = sim->plan->workers;
    group->members = memory_allocate(&sim->allocator, workers, sizeof(*group->members));
    group->times = memory_allocate(&sim->allocator, workers, 2 * sizeof(*group->times));
    return group->members != NULL && group->times != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
}

static void group_free(tarry_sim *sim)
{
    memory_release(&sim->allocator, sim->group.members);
    memory_release(&sim->allocator, sim->group.times);
}

/* The task's end, if it is to come, does not come any more. */
static void drop_end(tarry_sim *sim, sim_replica *own)
{
    if (own->end != QUEUE_NONE)
        queue_remove(&sim->queue, own->end);
    own->end = QUEUE_NONE;
}

static int end_at(tarry_sim *sim, uint32_t id, uint64_t time, sim_event_kind kind,
                  const tarry_sum_id *sum, bool failed)
{
    sim_worker *node = &sim->workers[id];
    const sim_event event = {.kind = kind,
                             .node = id,
                             .life = node->life,
                             .message = {.sum = *sum, .failed = failed, .from = TARRY_NO_WORKER}};
    node->replica.ends_ns = time;
    return sim_schedule(sim, time, &event, &node->replica.end);
}

/* How a gradient is cut into parts. */
static layout sim_layout(const tarry_sim *sim)
{
    return layout_make(sim->settings.dimension, sim->plan->parts,
                       sim->settings.server.stripe_length);
}

/* ---- worker node ---- */

static tarry_worker_settings machine_settings(const tarry_sim *sim)
{
    tarry_worker_settings settings = {.server = sim->settings.server};
    settings.server.dimension = sim->settings.dimension;
    return settings;
}

static codec_shape shape_of(const tarry_sim *sim, uint32_t id)
{
    codec_shape shape = codec_shape_of(sim->plan, id, sim->stripes);
    if (sim->settings.server.secure != 0)
        codec_shape_secure(&shape, sim->plan);
    return shape;
}

static int worker_node_shared(const tarry_sim *sim, const tarry_plan *plan, worker_shared **shared)
{
    const tarry_worker_settings settings = machine_settings(sim);
    return worker_shared_create(plan, &settings, &sim->allocator, shared);
}

static int worker_node_machine(const tarry_sim *sim, const tarry_plan *plan, worker_shared *shared,
                               uint32_t id, tarry_worker **machine)
{
    tarry_worker_settings settings = machine_settings(sim);
    settings.worker = id;
    settings.last = sim->workers[id].replica.last;
    return worker_create_shared(plan, &settings, shared, &sim->allocator, machine, NULL);
}

static int worker_node_create(tarry_sim *sim, uint32_t id)
{
    sim_worker *node = &sim->workers[id];
    *node = (sim_worker){
        .shape = shape_of(sim, id),
        .there = !tarry_straggler_dead(sim->settings.straggler, id),
        .busy = QUEUE_NONE,
        .replica.end = QUEUE_NONE,
        .fate_round = TARRY_NEVER,
        .dies_at = UINT32_MAX,
    };
    return node->there ? worker_node_machine(sim, sim->plan, sim->shared, id, &node->machine)
                       : TARRY_OK;
}

/* Takes the end of a computation, or of the worker, out of the queue. */
static void drop_busy(tarry_sim *sim, sim_worker *node)
{
    if (node->busy != QUEUE_NONE)
        queue_remove(&sim->queue, node->busy);
    node->busy = QUEUE_NONE;
}

/* The event comes then, or with the worker's last one. */
static int say(tarry_sim *sim, sim_worker *node, uint64_t time, const sim_event *event)
{
    node->said_ns = network_later(node->said_ns, time);
    return sim_schedule(sim, node->said_ns, event, NULL);
}

/* A connection anew: its first byte takes the latency, and nothing waits on the link. */
static int come_back(tarry_sim *sim, uint32_t id)
{
    sim_worker *node = &sim->workers[id];
    tarry_worker_free(node->machine);
    node->machine = NULL;
    node->replica = (sim_replica){.end = QUEUE_NONE};
    int error = worker_node_machine(sim, sim->plan, sim->shared, id, &node->machine);
    if (error != TARRY_OK)
        return error;
    node->there = true;
    node->life++;
    node->seen = 0;
    network_renew(&sim->network, id, sim->now);
    node->computed = 0;
    node->said_ns = node->told_ns = sim->now;
    sim_event event = {.kind = SIM_JOINS, .node = id};
    return say(sim, node, network_after(sim->now, sim->network.latency_ns), &event);
}

static int send_message(tarry_sim *sim, uint32_t id, const tarry_message *message, uint64_t bytes)
{
    sim_worker *node = &sim->workers[id];
    sim_event event = {
        .kind = SIM_TO_SERVER,
        .node = id,
        .life = node->life,
        .bytes = codec_size(&node->shape, message) + bytes,
        .message = *message,
    };
    uint64_t first_ns;
    event.left_ns = sim->now;
    if (sim_sums_everywhere(sim))
        return say(sim, node, network_after(sim->now, network_hop(&sim->network)), &event);
    event.left_ns = star_up(&sim->network, id, sim->now, event.bytes, &first_ns);
    if (star_card_is_free(&sim->network))
        return say(sim, node, network_after(event.left_ns, sim->network.latency_ns), &event);
    event.kind = SIM_AT_CARD;
    return say(sim, node, first_ns, &event);
}

static uint32_t load_of(const tarry_sim *sim, uint32_t id)
{
    return tarry_plan_load(sim->plan, id);
}

/* What goes along with a report. */
static uint64_t gradient_bytes(const tarry_sim *sim, uint32_t id, const tarry_message *message)
{
    bool finished = message->type == TARRY_MESSAGE_REPORT && !message->failed;
    bool last = sim->workers[id].computed + 1 == load_of(sim, id);
    switch (finished ? sim->settings.upload : TARRY_SIM_UPLOAD_CODED) {
    case TARRY_SIM_UPLOAD_EACH:
        return sim->settings.dimension * sizeof(float);
    case TARRY_SIM_UPLOAD_WHOLE:
        return last ? compress_bytes(form_of(&sim->settings.server), sim_layout(sim).part_length)
                    : 0;
    case TARRY_SIM_UPLOAD_CODED:
        break;
    }
    return 0;
}

static int report(tarry_sim *sim, uint32_t id, const tarry_message *message)
{
    return send_message(sim, id, message, gradient_bytes(sim, id, message));
}

static uint64_t stripe_bytes(const tarry_sim *sim, compress_form form, const layout *cut,
                             uint32_t stripe)
{
    const tarry_server_settings *server = &sim->settings.server;
    if (server->secure != 0)
        return form_secure_bytes(server->secure, layout_stripe_length(cut, stripe));
    return form_stripe_bytes(form, cut, stripe);
}

/* Done once the last byte has left, so that news can come before the next stripe; for a sum among
 * workers at once. */
static int encode(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    sim_worker *node = &sim->workers[id];
    uint64_t left_ns = sim->now;
    if (!sim_uploads_at_once(sim) && !sim_sums_everywhere(sim)) {
        layout cut = sim_layout(sim);
        tarry_message part = effect->message;
        const compress_form form = form_of_round(&sim->settings.server, effect->round);
        part.form = form.kind;
        uint64_t bytes = stripe_bytes(sim, form, &cut, effect->stripe);
        int error = send_message(sim, id, &part, bytes);
        if (error != TARRY_OK)
            return error;
        left_ns = sim->network.workers[id].out.free_ns;
    }
    sim_event event = {
        .kind = SIM_ENCODED,
        .node = id,
        .life = node->life,
        .message = effect->message,
    };
    return sim_schedule(sim, left_ns, &event, NULL);
}

/* A new round has a new fate in store; one that came true does not come again in the same round. */
static void draw_fate(tarry_sim *sim, uint32_t id, uint64_t round)
{
    sim_worker *node = &sim->workers[id];
    if (node->fate_round == round)
        return;
    node->fate_round = round;
    node->computed = 0;
    if (!tarry_straggler_fails(sim->settings.straggler, sim->settings.first_round + round, id,
                               load_of(sim, id), &node->dies_at))
        node->dies_at = UINT32_MAX;
}

/* A worker whose chunk takes for ever hangs: it says nothing any more. */
static int compute(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    sim_worker *node = &sim->workers[id];
    drop_busy(sim, node);
    draw_fate(sim, id, effect->round);
    uint64_t time =
        chunk_time_ns(sim->plan, &sim->settings, sim->settings.first_round + effect->round, id,
                      effect->slot, effect->chunk);
    sim_event event = {
        .kind = SIM_COMPUTED,
        .node = id,
        .life = node->life,
        .message = {.round = effect->round, .slot = effect->slot},
    };
    if (node->dies_at == effect->slot) {
        event.kind = SIM_DIES;
        time /= 2;
    } else if (time == TARRY_NEVER) {
        event.kind = SIM_DIES;
        time = 0;
    }
    return sim_schedule(sim, network_after(sim->now, time), &event, &node->busy);
}

/* ---- sums ---- */

/* Everybody has begun. */
static int finish(tarry_sim *sim)
{
    sim_group *group = &sim->group;
    uint64_t *ready_ns = group->times, *done_ns = group->times + sim->plan->workers, moved;
    const group_sum sum = {.members = group->members,
                           .count = group->begun,
                           .dimension = sim->settings.dimension,
                           .parts = sim->plan->parts,
                           .up = form_of(&sim->settings.server),
                           .down = form_of_sums(&sim->settings.server)};
    tarry_sum_id made = group->name;
    made.digest = 1; /* of equal bits everywhere */
    for (uint32_t place = 0; place < sum.count; place++)
        ready_ns[place] = sim->workers[group->members[place]].replica.begun_ns;
    int error = group_sum_run(&sim->network, sim->settings.way, &sum, ready_ns, done_ns, &moved);
    if (error != TARRY_OK)
        return error;
    sim->moved_bytes += moved;
    for (uint32_t place = 0; place < sum.count && error == TARRY_OK; place++)
        error = end_at(sim, group->members[place], done_ns[place], SIM_REDUCED, &made, false);
    return error;
}

static int reduce(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    sim_group *group = &sim->group;
    sim_replica *own = &sim->workers[id].replica;
    const uint64_t *bits = effect->message.group;
    if (!sum_id_named(&group->name, &effect->sum)) {
        group->name = effect->sum;
        group->begun = group->count = 0;
        group->broken = false;
        for (uint32_t worker = 0; worker < sim->plan->workers; worker++)
            if (bitset_test(bits, worker))
                group->members[group->count++] = worker;
    }
    own->reduces = true;
    own->empty = effect->empty;
    own->begun_ns = sim->now;
    own->held = (tarry_sum_id){0};
    group->begun++;
    return group->begun == group->count && !group->broken ? finish(sim) : TARRY_OK;
}

/* A member ends too early: who has not got its last byte never gets it. */
static void leave_group(tarry_sim *sim, uint32_t id)
{
    sim_group *group = &sim->group;
    uint64_t last_ns = network_after(sim->now, sim->network.latency_ns);
    sim->workers[id].replica.reduces = false;
    group->broken = true;
    for (uint32_t place = 0; place < group->count; place++) {
        sim_replica *other = &sim->workers[group->members[place]].replica;
        if (other->reduces && other->ends_ns > last_ns)
            drop_end(sim, other);
    }
}

/* The worker's engine or transfer ends at once. */
static void group_stop(tarry_sim *sim, uint32_t id)
{
    sim_replica *own = &sim->workers[id].replica;
    drop_end(sim, own);
    if (own->reduces)
        leave_group(sim, id);
}

static void worker_node_replan(tarry_sim *sim, uint32_t id, tarry_worker **machine)
{
    sim_worker *node = &sim->workers[id];
    node->shape = shape_of(sim, id);
    if (!node->there)
        return;
    drop_busy(sim, node);
    group_stop(sim, id);
    tarry_worker *last = node->machine;
    node->machine = *machine;
    *machine = last;
}

static int fall_silent(tarry_sim *sim, uint32_t id)
{
    sim_worker *node = &sim->workers[id];
    drop_busy(sim, node);
    group_stop(sim, id);
    node->there = false;
    node->silent_ns = sim->now;
    sim_event event = {.kind = SIM_COMES_BACK, .node = id};
    uint64_t absence = tarry_straggler_rejoin_ns(sim->settings.straggler);
    return sim_schedule(sim, network_after(sim->now, absence), &event, NULL);
}

/* ---- fetches and loads ---- */

/* `bytes` come from `from`, if it has what is asked for: `sum`, or the state after it. */
static int transfer(tarry_sim *sim, uint32_t id, const tarry_effect *effect, bool has,
                    const tarry_sum_id *sum, uint64_t bytes, sim_event_kind kind)
{
    network *links = &sim->network;
    uint64_t asked_ns = network_after(sim->now, links->latency_ns), first_ns;
    if (!has || !sim->workers[effect->from].there)
        return end_at(sim, id, network_after(asked_ns, links->latency_ns), kind, &effect->sum,
                      true);
    uint64_t left_ns =
        network_leave(links, &links->workers[effect->from].out, asked_ns, bytes, &first_ns);
    uint64_t there_ns = network_arrive(links, &links->workers[id].in, first_ns, bytes, left_ns);
    sim->moved_bytes += bytes;
    sim->workers[id].replica.from = effect->from;
    sim->workers[id].replica.from_life = sim->workers[effect->from].life;
    return end_at(sim, id, there_ns, kind, sum, false);
}

static int fetch(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    const sim_replica *source = &sim->workers[effect->from].replica;
    sim->workers[id].replica.held = (tarry_sum_id){0};
    return transfer(sim, id, effect, sum_id_same(&source->held, &effect->sum), &effect->sum,
                    sim->settings.dimension * sizeof(float), SIM_FETCHED);
}

static int load(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    const sim_replica *source = &sim->workers[effect->from].replica;
    bool has = effect->from != id &&
               (source->last.step > effect->sum.step || sum_id_same(&source->last, &effect->sum));
    return transfer(sim, id, effect, has, &source->last, sim->settings.parameter_bytes, SIM_LOADED);
}

/* REDUCE, ABANDON, FETCH, LOAD and STEP of a worker. */
static int group_take_effect(tarry_sim *sim, uint32_t id, const tarry_effect *effect)
{
    switch (effect->type) {
    case TARRY_EFFECT_REDUCE:
        return reduce(sim, id, effect);
    case TARRY_EFFECT_FETCH:
        return fetch(sim, id, effect);
    case TARRY_EFFECT_LOAD:
        return load(sim, id, effect);
    case TARRY_EFFECT_STEP:
        return end_at(sim, id, sim->now, SIM_STEPPED, &effect->sum, false);
    default:
        group_stop(sim, id);
        return TARRY_OK;
    }
}

/* ---- what a worker does next ---- */

static int step(tarry_sim *sim, uint32_t id, const tarry_event *event)
{
    sim_worker *node = &sim->workers[id];
    const tarry_effects *effects;
    int error = tarry_worker_step(node->machine, sim->now, event, &effects);
    if (error != TARRY_OK)
        return error;
    sim_observe(sim, id, event, effects);
    for (size_t i = 0; i < effects->count && error == TARRY_OK; i++) {
        const tarry_effect *effect = &effects->items[i];
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            error = report(sim, id, &effect->message);
            break;
        case TARRY_EFFECT_COMPUTE:
            error = compute(sim, id, effect);
            break;
        case TARRY_EFFECT_CANCEL:
            drop_busy(sim, node);
            break;
        case TARRY_EFFECT_ENCODE:
            error = encode(sim, id, effect);
            break;
        case TARRY_EFFECT_FOLD:
        case TARRY_EFFECT_SETTLE:
        case TARRY_EFFECT_DROP:
        case TARRY_EFFECT_REJECT:
        case TARRY_EFFECT_CLEAR:
        case TARRY_EFFECT_COMBINE:
        case TARRY_EFFECT_DONE:
        case TARRY_EFFECT_LEFT_OUT:
        case TARRY_EFFECT_LOG:
        case TARRY_EFFECT_REFUSE: /* of a server that breaks rules */
            break;
        case TARRY_EFFECT_REDUCE:
        case TARRY_EFFECT_ABANDON:
        case TARRY_EFFECT_FETCH:
        case TARRY_EFFECT_LOAD:
        case TARRY_EFFECT_STEP:
            error = group_take_effect(sim, id, effect);
            break;
        }
    }
    return error;
}

static int take_computed(tarry_sim *sim, const sim_event *event)
{
    uint32_t id = event->node;
    sim_worker *node = &sim->workers[id];
    node->busy = QUEUE_NONE;
    int error = step(sim, id,
                     &(tarry_event){
                         .type = TARRY_EVENT_COMPUTED,
                         .round = event->message.round,
                         .slot = event->message.slot,
                     });
    if (error == TARRY_OK && node->there && ++node->computed == load_of(sim, id) &&
        node->dies_at == node->computed) {
        node->dies_at = UINT32_MAX;
        return fall_silent(sim, id);
    }
    return error;
}

static int take_end(tarry_sim *sim, const sim_event *event)
{
    tarry_event ends = group_end(sim, event);
    return step(sim, event->node, &ends);
}

static int take_message(tarry_sim *sim, const sim_event *event)
{
    tarry_message message = event->message;
    if (message.type == TARRY_MESSAGE_SIGNAL && sim_sums_everywhere(sim))
        message.group = worker_shared_group(sim->shared);
    return step(sim, event->node, &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message});
}

static int worker_node_take(tarry_sim *sim, const sim_event *event)
{
    uint32_t id = event->node;
    sim_worker *node = &sim->workers[id];
    if (event->kind == SIM_COMES_BACK)
        return come_back(sim, id);
    if (!node->there || event->life != node->life)
        return TARRY_OK;
    switch (event->kind) {
    case SIM_TO_WORKER:
        return take_message(sim, event);
    case SIM_COMPUTED:
        return take_computed(sim, event);
    case SIM_REDUCED:
    case SIM_FETCHED:
    case SIM_LOADED:
    case SIM_STEPPED:
        return take_end(sim, event);
    case SIM_DIES:
        node->busy = QUEUE_NONE;
        node->dies_at = UINT32_MAX;
        return fall_silent(sim, id);
    default:
        break;
    }
    return step(sim, id,
                &(tarry_event){
                    .type = TARRY_EVENT_ENCODED,
                    .round = event->message.round,
                    .attempt = event->message.attempt,
                    .stripe = event->message.stripe,
                });
}

/* ---- sim ---- */

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
    else if (error == TARRY_OK && settings->way == TARRY_SIM_RING &&
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
    layout cut = sim_layout(made);
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

tarry_sim_traffic tarry_sim_last_traffic(const tarry_sim *sim)
{
    return sim->traffic;
}

const tarry_server *tarry_sim_server(const tarry_sim *sim)
{
    return sim->server;
}

/*
 * Another plan between two rounds. All that it needs is made before anything changes. A worker
 * turns to it at once: what it was at, and what it has not heard of the plan before, is dropped.
 */

/* What takes the place of what the world has. */
typedef struct replacement {
    tarry_server *server;
    worker_shared *shared;
    tarry_worker **machines; /* NULL for those that are not there */
} replacement;

static int check(const tarry_sim *sim, const tarry_plan *next, tarry_diagnostic *diagnostic)
{
    const char *fault = NULL;
    if (next->workers != sim->plan->workers)
        fault = "another number of workers";
    else if (next->origins != sim->plan->origins)
        fault = "other data";
    else if (next->parts != sim->plan->parts)
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
    return error == TARRY_OK ? TARRY_OK : diagnose_no_memory(diagnostic, "simulator");
}

static void discard(replacement *made, uint32_t workers, const tarry_allocator *allocator)
{
    for (uint32_t worker = 0; made->machines != NULL && worker < workers; worker++)
        tarry_worker_free(made->machines[worker]);
    memory_release(allocator, made->machines);
    worker_shared_free(made->shared);
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
        worker_shared *shared = sim->shared;
        sim->plan = next;
        sim->server = made.server;
        sim->shared = made.shared;
        made.server = server;
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

/* ---- ends ---- */

tarry_event group_end(tarry_sim *sim, const sim_event *event)
{
    sim_replica *own = &sim->workers[event->node].replica;
    const sim_worker *source = &sim->workers[own->from];
    tarry_event ends = {
        .sum = event->message.sum, .failed = event->message.failed, .from = TARRY_NO_WORKER};
    own->end = QUEUE_NONE;
    own->reduces = false;
    if (event->kind == SIM_FETCHED || event->kind == SIM_LOADED)
        ends.failed = ends.failed || !source->there || source->life != own->from_life;
    switch (event->kind) {
    case SIM_REDUCED:
        ends.type = TARRY_EVENT_REDUCED;
        own->held = ends.sum;
        break;
    case SIM_FETCHED:
        ends.type = TARRY_EVENT_FETCHED;
        if (!ends.failed)
            own->held = ends.sum;
        break;
    case SIM_LOADED:
        ends.type = TARRY_EVENT_LOADED;
        if (!ends.failed) {
            own->last = ends.sum;
            own->held = (tarry_sum_id){0};
        }
        break;
    default:
        ends.type = TARRY_EVENT_STEPPED;
        own->last = ends.sum;
        break;
    }
    return ends;
}
