/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As the network runtime does it: the server goes on with the next plan at once. Whoever is
 * connected is sent it, behind all that was said before, prepares itself, and says so; until then
 * orders wait at the server, and questions whether it is there don't. Who comes back is given the
 * plan that is then in force. What was said under one plan never reaches a machine of another.
 */
#include "worlds/cluster.h"
#include "worlds/invariants.h"

#include <string.h>

enum { LONGEST_PREPARATION = 400 };

static const double CHANGE_CHANCE = 0.25;

void cluster_plan_change(cluster *it, uint64_t start)
{
    random_stream details;
    if (cluster_samples(it) || !draws_fault(&it->draws, FAULT_REPLAN, 0, CHANGE_CHANCE, &details))
        return;
    uint32_t changes = stream_chance(&details, 0.2) ? 2 : 1;
    for (uint32_t i = 0; i < changes; i++) {
        uint64_t time = it->now + stream_between(&details, 0, (uint32_t)(start - it->now));
        cluster_add(it, time, ITEM_REPLAN, 0)->details = details;
    }
}

/* Mostly one that there was not yet in this world; or one that there was. */
static uint32_t draw_number(const cluster *it, random_stream *details)
{
    uint32_t next = it->newest + 1;
    bool back = stream_chance(details, next < MAX_PLANS ? 0.2 : 1);
    if (!back || it->newest == 0)
        return next;
    uint32_t earlier = stream_between(details, 0, it->newest - 1);
    return earlier < it->number ? earlier : earlier + 1;
}

static int make_server(cluster *it)
{
    tarry_server *last = it->server;
    it->server = NULL;
    int error = cluster_make_server(it);
    const tarry_effects *unused;
    if (error == TARRY_OK && cluster_planted(it, PLANT_JOIN_FIRST))
        error = tarry_server_step(it->server, it->now, &(tarry_event){.type = TARRY_EVENT_JOINED},
                                  &unused);
    if (error == TARRY_OK)
        error = tarry_server_adopt(it->server, last, NULL);
    tarry_server_free(last);
    if (error != TARRY_OK && error != TARRY_ERROR_NO_MEMORY)
        invariant_broken(it, "plans_follow_each_other", "%s", tarry_error_text(error));
    return error == TARRY_ERROR_NO_MEMORY ? error : TARRY_OK;
}

static void tell(cluster *it, uint32_t worker, random_stream *details)
{
    cluster_node *node = &it->nodes[worker];
    uint32_t preparing =
        stream_chance(details, 0.3) ? 0 : stream_between(details, 0, LONGEST_PREPARATION);
    node->held_count = 0;
    node->turning = true;
    cluster_send_plan(it, TRANSPORT_COORDINATOR, worker,
                      &(cargo){.plan = it->number, .preparing = preparing, .turn = ++node->turns});
}

int cluster_replan(cluster *it, cluster_item *due)
{
    if (it->model.phase != MODEL_IDLE || everywhere_logs(it))
        return TARRY_OK;
    uint32_t number = draw_number(it, &due->details);
    bool there;
    int error = cluster_later_plan(it, number, &there);
    if (error != TARRY_OK || !there || number == it->number)
        return error;
    server_model next;
    if (!model_turn(&it->model, it->plans[number].plan, &next))
        return TARRY_OK;
    it->model = next;
    cluster_take_plan(it, number);
    it->newest = number > it->newest ? number : it->newest;
    it->counts.replans++;
    cluster_note(it, "plan %u: %u chunks", number, tarry_plan_chunks(it->plan));
    error = make_server(it);
    if (error != TARRY_OK)
        return error;
    cluster_find_bound(it);
    cluster_disturb(it, it->now);
    for (uint32_t worker = 0; worker < it->workers; worker++)
        if (cluster_connected(it, worker))
            tell(it, worker, &due->details);
    if (stream_chance(&due->details, 0.5))
        cluster_save(it);
    return TARRY_OK;
}

void cluster_hear_plan(cluster *it, uint32_t worker, uint32_t connection, const cargo *told)
{
    cluster_node *node = &it->nodes[worker];
    if (node->machine == NULL || !cluster_is_present(it, worker, connection))
        return;
    node->preparing = true;
    node->next = told->plan;
    node->turn = told->turn;
    uint64_t until = it->now + told->preparing;
    cluster_item *turn = cluster_add(it, until, ITEM_TURN, worker);
    turn->connection = connection;
    turn->plan = told->plan;
    turn->turn = told->turn;
    cluster_disturb(it, until);
}

int cluster_turn(cluster *it, const cluster_item *due)
{
    cluster_node *node = &it->nodes[due->worker];
    if (node->machine == NULL || !cluster_is_present(it, due->worker, due->connection) ||
        !node->preparing || node->turn != due->turn)
        return TARRY_OK;
    cluster_note(it, "worker %u turns to plan %u", due->worker, due->plan);
    node->preparing = false;
    int error = cluster_make_machine(it, due->worker, due->plan);
    if (error != TARRY_OK)
        return error;
    it->counts.turned++;
    cluster_send_plan(it, due->worker, TRANSPORT_COORDINATOR,
                      &(cargo){.plan = due->plan, .turn = due->turn});
    cluster_disturb(it, node->last_up);
    return TARRY_OK;
}

/* A round that begins or ends makes what was said of one before void, but not questions and orders
 * of the vote. */
static void drop_held(cluster_node *node)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < node->held_count; i++) {
        tarry_message_type type;
        uint64_t round;
        const held_frame *held = &node->held[i];
        if (codec_peek(held->bytes, held->size, &type, &round) == TARRY_OK && codec_votes(type))
            node->held[kept++] = *held;
    }
    node->held_count = kept;
}

void cluster_drop_held(cluster *it)
{
    for (uint32_t worker = 0; worker < it->workers && !it->everywhere; worker++)
        it->nodes[worker].held_count = 0;
}

void cluster_hold(cluster *it, uint32_t worker, const tarry_message *message)
{
    cluster_node *node = &it->nodes[worker];
    if (message->type == TARRY_MESSAGE_ROUND || message->type == TARRY_MESSAGE_FINISH)
        drop_held(node);
    if (message->type == TARRY_MESSAGE_FINISH)
        return;
    if (node->held_count == MAX_HELD) {
        cluster_disconnect(it, worker, true);
        cluster_come_back(it, worker);
        return;
    }
    held_frame *held = &node->held[node->held_count++];
    held->size = (uint32_t)codec_size(&it->shapes[worker], message);
    codec_encode(&it->shapes[worker], message, held->bytes);
}

/* What was said of a plan before is followed by the word on this one. */
void cluster_hear_ready(cluster *it, uint32_t worker, uint32_t connection, const cargo *told)
{
    cluster_node *node = &it->nodes[worker];
    if (!cluster_is_present(it, worker, connection) || !node->turning)
        return;
    if (cluster_planted(it, PLANT_ANY_TURN) ? told->plan != it->number : told->turn != node->turns)
        return;
    node->turning = false;
    cluster_disturb(it, it->now);
    for (uint32_t i = 0; i < node->held_count; i++) {
        uint64_t words[FRAME_WORDS];
        tarry_message message;
        const held_frame *held = &node->held[i];
        if (codec_decode(&it->shapes[worker], held->bytes, held->size, words, &message) == TARRY_OK)
            cluster_send_down(it, worker, &message);
    }
    node->held_count = 0;
}
