/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/cluster.h"

#include <string.h>

#include "base/memory.h"
#include "worlds/invariants.h"

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
    tarry_server_settings settings = it->settings;
    settings.reproducible = settings.reproducible || it->secure.reproducible;
    if (cluster_planted(it, PLANT_OTHER_SEED))
        settings.sample_seed++;
    if (cluster_planted(it, PLANT_NO_GRACE))
        settings.voters_grace_ns = 0;
    return tarry_server_create(it->plan, &settings, &counting, &it->server, NULL);
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
    seen_end_round(it);
    cluster_drop_held(it);
    cluster_note(it, "round over");
    if (result->error == TARRY_ERROR_DIFFER || result->error == TARRY_ERROR_GONE) {
        cluster_note(it, "the run ends: %s", tarry_error_text(result->error));
        it->rounds = it->rounds_done;
        it->over = true;
    }
    it->rest = it->now;
    if (it->job.settles && !it->calm && !it->over && it->rounds_done == it->rounds)
        cluster_calm_down(it);
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
    cluster_send_up(it, probe->worker, &alive, NULL);
}

static void carry_out(cluster *it, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND) {
            if (effect->message.type == TARRY_MESSAGE_ROUND)
                secure_arrive(it, effect->worker, effect->message.epoch);
            cluster_note_message(it, "  to worker", effect->worker, &effect->message);
            bool connected = cluster_connected(it, effect->worker);
            tarry_message_type type = effect->message.type;
            bool swallowed =
                (cluster_planted(it, PLANT_SWALLOW_SIGNAL) && type == TARRY_MESSAGE_SIGNAL) ||
                (cluster_planted(it, PLANT_SWALLOW_NEWS) && type == TARRY_MESSAGE_NEWS);
            if (connected && !swallowed && it->nodes[effect->worker].turning &&
                type != TARRY_MESSAGE_PROBE)
                cluster_hold(it, effect->worker, &effect->message);
            else if (connected && !swallowed)
                cluster_send_down(it, effect->worker, &effect->message);
            if (!connected && cluster_planted(it, PLANT_WAIT_FOR_THE_LOST) &&
                effect->message.type == TARRY_MESSAGE_PROBE)
                answer_for_the_lost(it, effect);
        } else if (effect->type == TARRY_EFFECT_LEFT_OUT) {
            cluster_note(it, "  without %u: reason %d, waited %llu of %llu", effect->worker,
                         effect->reason, (unsigned long long)effect->waited_ns,
                         (unsigned long long)effect->limit_ns);
        } else if (effect->type == TARRY_EFFECT_LOG) {
            everywhere_log(it, effect);
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
        if (node->machine != NULL && cluster_connected(it, worker) &&
            !tarry_server_present(it->server, worker))
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
        .stripe = event->message->stripe,
    };
    invariants_of_step(it, &(tarry_event){.type = TARRY_EVENT_TIME}, true,
                       &(tarry_effects){.count = 1, .items = &forged});
}

/* Planted errors: another worker is named for the first chunk; a worker is not told what is
 * sampled. */
static void bend_messages(const cluster *it, const tarry_effects *effects, uint32_t *holders)
{
    for (size_t i = 0; i < effects->count; i++) {
        tarry_message *message = (tarry_message *)&effects->items[i].message;
        if (effects->items[i].type != TARRY_EFFECT_SEND)
            continue;
        if (cluster_planted(it, PLANT_NO_WEIGHTS))
            message->weights = NULL;
        if (!cluster_planted(it, PLANT_NAME_ANOTHER) || message->holders == NULL)
            continue;
        memcpy(holders, message->holders, tarry_plan_chunks(it->plan) * sizeof(*holders));
        holders[0] = (holders[0] + 1) % it->workers;
        message->holders = holders;
    }
}

void cluster_step_server(cluster *it, const tarry_event *event, const coded *part)
{
    const tarry_effects *effects;
    uint64_t allocations = it->allocations;
    bool should_take = model_event(&it->model, it->now, event);
    tarry_message forged;
    tarry_event given = everywhere_forge(it, event, &forged);
    int error = tarry_server_step(it->server, it->now, &given, &effects);
    if (error != TARRY_OK) {
        invariant_broken(it, "steps_succeed", "server: %s", tarry_error_text(error));
        return;
    }
    uint32_t holders[MAX_CHUNKS];
    bend_messages(it, effects, holders);
    if (it->allocations != allocations)
        invariant_broken(it, "memory_is_taken_at_creation", "event %d", event->type);
    bool kept = part != NULL && cluster_planted(it, PLANT_SUM_OTHER_PLAN) &&
                it->inbox[event->worker][event->message->stripe].plan != it->number;
    if (should_take && part != NULL && !kept)
        it->inbox[event->worker][event->message->stripe] = *part;
    cluster_add_up(it, effects);
    invariants_of_step(it, event, should_take, effects);
    if (cluster_planted(it, PLANT_SUM_STALE) && !should_take && part != NULL &&
        event->message->attempt != it->model.attempt)
        combine_stale(it, event);
    if (it->broken != NULL)
        return;
    carry_out(it, effects);
    call_back(it);
}

void cluster_save(cluster *it)
{
    uint8_t unused[CHECKPOINT_BYTES];
    bool keep = cluster_planted(it, PLANT_OLD_CHECKPOINT) && it->counts.restarts > 0;
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
    if (it->everywhere)
        everywhere_save(it);
    seen_save(it);
    it->saved_plan = it->number;
    it->saved_round = it->model.round;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        it->saved_epochs[worker] = it->model.members[worker].epoch;
}

/* Every worker finds its connection gone, and comes back. */
static void disconnect_all(cluster *it, random_stream *details)
{
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        if (!cluster_connected(it, worker))
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
    cluster_drop_sums(it);
    if (it->everywhere)
        everywhere_settle_log(it, details);
    it->counts.restarts++;
    it->parameters += !it->everywhere;
    feedback_restart(it);
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
    const size_t lost = cluster_planted(it, PLANT_SPOIL_CHECKPOINT);
    error = tarry_server_restore(it->server, it->checkpoint, it->checkpoint_size - lost, NULL);
    if (error != TARRY_OK) {
        invariant_broken(it, "restarts_from_its_checkpoint", "%s", tarry_error_text(error));
        return TARRY_OK;
    }
    uint32_t epochs[MAX_WORKERS];
    for (uint32_t worker = 0; worker < it->workers; worker++)
        epochs[worker] = it->saved_epochs[worker] + TARRY_CHECKPOINT_ARRIVALS;
    model_restart(&it->model, it->saved_round, epochs);
    error = seen_restart(it);
    if (error != TARRY_OK)
        return error;
    if (cluster_samples(it))
        model_sample_init(&it->model); /* until it samples again */
    if (it->everywhere)
        everywhere_restore(it);
    cluster_save(it);
    disconnect_all(it, details);
    it->server_paused_until = it->now + stream_between(details, 0, 300);
    cluster_disturb(it, it->server_paused_until);
    if (running)
        start_later(it, false);
    return TARRY_OK;
}
