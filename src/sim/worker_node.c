/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "protocol/form.h"
#include "sim/cost.h"
#include "sim/world.h"

static tarry_worker_settings machine_settings(const tarry_sim *sim)
{
    return (tarry_worker_settings){
        .keeps_stale = sim->settings.server.fill == TARRY_FILL_STALE,
        .dimension = sim->settings.dimension,
        .stripe_length = sim->settings.server.stripe_length,
        .conditioning_limit = sim->settings.server.conditioning_limit,
        .keep = sim->settings.server.keep,
        .ahead = sim->settings.server.ahead,
        .sum = sim->settings.server.sum,
        .feedback = compress_feeds_back(sim->settings.server.compress),
        .secure = sim->settings.server.secure,
    };
}

static codec_shape shape_of(const tarry_sim *sim, uint32_t id)
{
    codec_shape shape = codec_shape_of(sim->plan, id, sim->stripes);
    if (sim->settings.server.secure != 0)
        codec_shape_secure(&shape, sim->plan);
    return shape;
}

int worker_node_shared(const tarry_sim *sim, const tarry_plan *plan, worker_shared **shared)
{
    const tarry_worker_settings settings = machine_settings(sim);
    return worker_shared_create(plan, &settings, &sim->allocator, shared);
}

int worker_node_machine(const tarry_sim *sim, const tarry_plan *plan, worker_shared *shared,
                        uint32_t id, tarry_worker **machine)
{
    tarry_worker_settings settings = machine_settings(sim);
    settings.worker = id;
    settings.last = sim->workers[id].replica.last;
    return worker_create_shared(plan, &settings, shared, &sim->allocator, machine, NULL);
}

int worker_node_create(tarry_sim *sim, uint32_t id)
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
    if (sim->vectors != NULL)
        vectors_forget(sim->vectors, id);
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

void worker_node_replan(tarry_sim *sim, uint32_t id, tarry_worker **machine)
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
        return last ? compress_bytes(form_of(&sim->settings.server),
                                     sim_layout(sim, sim->plan->parts).part_length)
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
    /* With another `keep` the part is the running sum. */
    if (!sim_uploads_at_once(sim) && sim->vectors != NULL &&
        sim->settings.server.keep == TARRY_KEEP_ALL)
        vectors_encode(sim->vectors, effect->round, id, effect->parts, effect->stripe,
                       effect->coefficients, effect->stale);
    if (!sim_uploads_at_once(sim) && sim->vectors != NULL)
        vectors_send(sim->vectors, effect->round, effect->attempt, id, effect->stripe);
    if (!sim_uploads_at_once(sim) && !sim_sums_everywhere(sim)) {
        layout cut = sim_layout(sim, effect->parts);
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
            if (sim->vectors != NULL)
                vectors_fold(sim->vectors, effect->round, id, effect->slot, effect->weight,
                             effect->begins);
            break;
        case TARRY_EFFECT_SETTLE:
            if (sim->vectors != NULL)
                vectors_settle(sim->vectors, id, effect->stood, effect->voids);
            break;
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
        case TARRY_EFFECT_STOP:
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

int worker_node_take(tarry_sim *sim, const sim_event *event)
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
