/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/faults/cluster.h"

#include <string.h>

#include "base/memory.h"
#include "sim/faults/invariants.h"

enum { LONG_BREAK = 5000, SHORT_BREAK = 20 };

/* The server's memory: all is taken when it is made. */
static void *allocate(void *user, size_t number, size_t size)
{
    cluster *it = user;
    it->allocations++;
    return memory_allocate(&it->allocator, number, size);
}

static void release(void *user, void *block)
{
    const cluster *it = user;
    memory_release(&it->allocator, block);
}

int cluster_make_server(cluster *it)
{
    tarry_allocator counting = {.user = it, .allocate = allocate, .release = release};
    return tarry_server_create(it->plan, &it->settings, &counting, &it->server, NULL);
}

static void add_sum(cluster *it, const tarry_effect *effect)
{
    uint64_t time = it->now + draws_between(&it->draws, DRAW_SUM, 0, 0, it->sum_time);
    it->last_sum = time > it->last_sum ? time : it->last_sum;
    bool clear = effect->type == TARRY_EFFECT_CLEAR;
    cluster_item *sum =
        cluster_add(it, it->last_sum, clear ? ITEM_CLEAR : ITEM_COMBINE, effect->worker);
    sum->round = effect->round;
    sum->attempt = effect->attempt;
    sum->parts = effect->parts;
    sum->stripe = effect->stripe;
    sum->scale = cluster_planted(it, PLANT_FORGET_SCALE) ? 1 : effect->scale;
    if (!clear)
        sum->part = it->inbox[effect->worker][effect->stripe];
}

void cluster_clear_estimate(cluster *it, uint32_t stripe)
{
    if (cluster_planted(it, PLANT_FORGET_CLEAR))
        return;
    memset(it->estimate[stripe], 0, sizeof(it->estimate[stripe]));
    memset(it->filling[stripe], 0, sizeof(it->filling[stripe]));
    it->summed[stripe] = 0;
}

/* C += scale R[., worker] u_i, for each unit of every chunk i, of the round that its gradient
 * belongs to. */
static void add_to_unit(cluster *it, const cluster_item *done, uint32_t chunk, uint32_t unit)
{
    bool stale = (done->part.stale >> chunk & 1) != 0;
    double(*sum)[MAX_PARTS] = (stale ? it->filling : it->estimate)[done->stripe][unit];
    for (uint32_t p = 0; p < done->parts; p++)
        for (uint32_t q = 0; q < done->parts; q++)
            sum[p][q] += done->scale *
                         tarry_plan_decode_weight(it->plan, done->parts, p, done->worker) *
                         done->part.u[chunk][q];
}

static void add_to_estimate(cluster *it, const cluster_item *done)
{
    invariants_of_sum(it, done);
    /* A chunk that a wrong cut does not have stands for another one of it. */
    const cluster_plan *cut = &it->plans[done->part.cut];
    uint32_t chunks = tarry_plan_chunks(cut->plan);
    for (uint32_t chunk = 0; chunk < MAX_CHUNKS; chunk++)
        for (uint32_t unit = 0; unit < MAX_CHUNKS * GRAIN; unit++)
            if (cut->units[chunk % chunks][unit / GRAIN] >> unit % GRAIN & 1)
                add_to_unit(it, done, chunk, unit);
}

static bool is_sum(item_type type)
{
    return type == ITEM_CLEAR || type == ITEM_COMBINE;
}

/* The sum that is to be carried out next; count if there is none. */
static size_t next_sum(const cluster *it)
{
    size_t next = it->count;
    for (size_t i = 0; i < it->count; i++)
        if (is_sum(it->items[i].type) &&
            (next == it->count || it->items[i].sequence < it->items[next].sequence))
            next = i;
    return next;
}

/* A round that is over has its estimate: what is still to be carried out then, is, in its order. */
static void settle_sums(cluster *it)
{
    for (size_t next = next_sum(it); next < it->count; next = next_sum(it)) {
        if (it->items[next].type == ITEM_CLEAR)
            cluster_clear_estimate(it, it->items[next].stripe);
        else
            add_to_estimate(it, &it->items[next]);
        cluster_remove(it, next);
    }
}

static void carry_out_sums(cluster *it, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        tarry_effect_type type = effects->items[i].type;
        if (type == TARRY_EFFECT_CLEAR || type == TARRY_EFFECT_COMBINE)
            add_sum(it, &effects->items[i]);
        if (type == TARRY_EFFECT_DONE)
            settle_sums(it);
    }
}

/* After a round that failed it mostly takes a while, in which workers come back. */
static void start_later(cluster *it, bool failed)
{
    bool long_break = draws_chance(&it->draws, DRAW_BREAK, 0, failed ? 0.8 : 0.3);
    uint64_t time =
        draws_between(&it->draws, DRAW_BREAK, 0, 0, long_break ? LONG_BREAK : SHORT_BREAK);
    cluster_plan_change(it, it->now + time);
    cluster_add(it, it->now + time, ITEM_START, 0);
}

static void end_round(cluster *it, const tarry_round_result *result)
{
    it->rounds_done++;
    cluster_note(it, "round over");
    if (it->rounds_done < it->rounds)
        start_later(it, result->error != TARRY_OK);
}

/* A planted error: the server is told that the lost are alive. */
static void answer_for_the_lost(cluster *it, const tarry_effect *probe)
{
    tarry_message alive = {
        .type = TARRY_MESSAGE_ALIVE,
        .epoch = probe->message.epoch,
        .round = probe->message.round,
    };
    cluster_transmit(it, ITEM_TO_SERVER, probe->worker, &alive, NULL);
}

static void carry_out(cluster *it, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND) {
            cluster_note_message(it, "  to worker", effect->worker, &effect->message);
            bool connected = it->nodes[effect->worker].connected;
            tarry_message_type type = effect->message.type;
            bool swallowed =
                (cluster_planted(it, PLANT_SWALLOW_SIGNAL) && type == TARRY_MESSAGE_SIGNAL) ||
                (cluster_planted(it, PLANT_SWALLOW_NEWS) && type == TARRY_MESSAGE_NEWS);
            if (connected && !swallowed && it->nodes[effect->worker].turning &&
                type != TARRY_MESSAGE_PROBE)
                cluster_hold(it, effect->worker, &effect->message);
            else if (connected && !swallowed)
                cluster_transmit(it, ITEM_TO_WORKER, effect->worker, &effect->message, NULL);
            if (!connected && cluster_planted(it, PLANT_WAIT_FOR_THE_LOST) &&
                effect->message.type == TARRY_MESSAGE_PROBE)
                answer_for_the_lost(it, effect);
        } else if (effect->type == TARRY_EFFECT_LEFT_OUT) {
            cluster_note(it, "  without %u: reason %d, waited %llu of %llu", effect->worker,
                         effect->reason, (unsigned long long)effect->waited_ns,
                         (unsigned long long)effect->limit_ns);
        } else if (effect->type == TARRY_EFFECT_DONE) {
            end_round(it, effect->result);
        }
    }
}

/* Workers that the server does not count on, and that know, come back. */
static void call_back(cluster *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        const cluster_node *node = &it->nodes[worker];
        if (node->machine != NULL && node->connected && !tarry_server_present(it->server, worker))
            cluster_come_back(it, worker);
    }
}

/* A planted error: what the server has just rejected as of another attempt is combined. */
static void combine_stale(cluster *it, const tarry_event *event)
{
    tarry_effect forged = {
        .type = TARRY_EFFECT_COMBINE,
        .worker = event->worker,
        .round = event->message->round,
        .attempt = event->message->attempt,
        .parts = event->message->parts,
        .stripe = event->message->stripe,
    };
    invariants_of_step(it, &(tarry_event){.type = TARRY_EVENT_TIME}, true,
                       &(tarry_effects){.count = 1, .items = &forged});
}

void cluster_step_server(cluster *it, const tarry_event *event, const coded *part)
{
    const tarry_effects *effects;
    uint64_t allocations = it->allocations;
    bool should_take = model_event(&it->model, it->now, event);
    int error = tarry_server_step(it->server, it->now, event, &effects);
    if (error != TARRY_OK) {
        invariant_broken(it, "steps_succeed", "server: %s", tarry_error_text(error));
        return;
    }
    if (it->allocations != allocations)
        invariant_broken(it, "memory_is_taken_at_creation", "event %d", event->type);
    bool kept = part != NULL && cluster_planted(it, PLANT_SUM_OTHER_PLAN) &&
                it->inbox[event->worker][event->message->stripe].plan != it->number;
    if (should_take && part != NULL && !kept)
        it->inbox[event->worker][event->message->stripe] = *part;
    carry_out_sums(it, effects);
    invariants_of_step(it, event, should_take, effects);
    if (cluster_planted(it, PLANT_SUM_STALE) && !should_take && part != NULL &&
        event->message->attempt != it->model.attempt)
        combine_stale(it, event);
    if (it->broken != NULL)
        return;
    carry_out(it, effects);
    call_back(it);
}

void cluster_combine(cluster *it, const cluster_item *done)
{
    add_to_estimate(it, done);
    if (cluster_planted(it, PLANT_SUM_TWICE))
        add_to_estimate(it, done);
    cluster_step_server(it,
                        &(tarry_event){.type = TARRY_EVENT_COMBINED,
                                       .worker = done->worker,
                                       .round = done->round,
                                       .attempt = done->attempt,
                                       .stripe = done->stripe},
                        NULL);
}

void cluster_save(cluster *it)
{
    uint8_t unused[CHECKPOINT_BYTES];
    bool keep = cluster_planted(it, PLANT_OLD_CHECKPOINT) && it->restarts > 0;
    it->checkpoint_size = tarry_server_checkpoint_size(it->server);
    int error = it->checkpoint_size <= CHECKPOINT_BYTES
                    ? tarry_server_checkpoint(it->server, keep ? unused : it->checkpoint)
                    : TARRY_ERROR_NO_MEMORY;
    if (error != TARRY_OK)
        invariant_broken(it, "restarts_from_its_checkpoint", "saving: %s", tarry_error_text(error));
    else
        tarry_server_stored(it->server, keep ? unused : it->checkpoint);
    if (keep)
        return;
    it->saved_plan = it->number;
    it->saved_round = it->model.round;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->saved_epochs[worker] = it->model.members[worker].epoch;
}

/* Every worker finds its connection gone, and comes back. */
static void disconnect_all(cluster *it, random_stream *details)
{
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        if (!it->nodes[worker].connected)
            continue;
        cluster_disconnect(it, worker, false);
        cluster_return_later(it, worker, 500, details);
    }
}

/* What it had in memory is gone: connections, sums, the round. Its caller begins the round again.
 */
int cluster_restart_server(cluster *it, random_stream *details)
{
    cluster_note(it, "the server restarts from its checkpoint of round %llu",
                 (unsigned long long)it->saved_round);
    for (size_t next = next_sum(it); next < it->count; next = next_sum(it))
        cluster_remove(it, next);
    it->last_sum = 0;
    it->restarts++;
    it->parameters++;
    tarry_server_free(it->server);
    it->server = NULL;
    bool running = it->model.phase != MODEL_IDLE;
    if (it->saved_plan != it->number) {
        server_model before = it->model;
        model_turn(&before, it->plans[it->saved_plan].plan, &it->model);
        cluster_take_plan(it, it->saved_plan);
        cluster_find_bound(it);
    }
    int error = cluster_make_server(it);
    if (error != TARRY_OK)
        return error;
    error = tarry_server_restore(it->server, it->checkpoint, it->checkpoint_size, NULL);
    if (error != TARRY_OK) {
        invariant_broken(it, "restarts_from_its_checkpoint", "%s", tarry_error_text(error));
        return TARRY_OK;
    }
    uint32_t epochs[MAX_WORKERS];
    for (uint32_t worker = 0; worker < it->workers; worker++)
        epochs[worker] = it->saved_epochs[worker] + TARRY_CHECKPOINT_ARRIVALS;
    model_restart(&it->model, it->saved_round, epochs);
    cluster_save(it);
    disconnect_all(it, details);
    it->server_paused_until = it->now + stream_between(details, 0, 300);
    cluster_disturb(it, it->server_paused_until);
    if (running)
        start_later(it, false);
    return TARRY_OK;
}
