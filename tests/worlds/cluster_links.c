/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "worlds/cluster.h"
#include "worlds/invariants.h"

enum { SLOW_LINK_FACTOR = 10, MUCH_LATER = 5000 };

static const double HEARD_CHANCE = 0.2;

static const char *const message_names[] = {
    "ROUND", "SIGNAL", "RESUME", "NEWS", "PROBE",  "FINISH", "REPORT", "PART", "ALIVE",
    "ASK",   "BREAK",  "FETCH",  "LOAD", "COMMIT", "HELD",   "FAILED", "STATE"};
_Static_assert(sizeof(message_names) / sizeof(*message_names) == TARRY_MESSAGE_TYPES,
               "each type has a name");

void cluster_note_message(cluster *it, const char *where, uint32_t worker,
                          const tarry_message *message)
{
    cluster_note(it, "%s %u: %s round %llu epoch %u attempt %u slot %u next %u stripe %u%s", where,
                 worker, message_names[message->type], (unsigned long long)message->round,
                 message->epoch, message->attempt, message->slot, message->next, message->stripe,
                 message->failed ? " failed" : "");
    if (message->sum.step != 0 || message->type == TARRY_MESSAGE_STATE)
        cluster_note(it, "    sum %llu.%u.%u %04x, last %llu.%u.%u, from %d%s",
                     (unsigned long long)message->sum.step, message->sum.term, message->sum.attempt,
                     (unsigned)(message->sum.digest & 0xffff),
                     (unsigned long long)message->last.step, message->last.term,
                     message->last.attempt, (int)message->from,
                     message->fetched ? ", fetched" : "");
}

/* When what is sent now arrives. reorder: it may overtake what was sent before. */
static uint64_t draw_arrival(cluster *it, bool up, uint32_t worker, bool reorder)
{
    cluster_node *node = &it->nodes[worker];
    uint64_t *last = up ? &node->last_up : &node->last_down;
    uint64_t delay =
        draws_between(&it->draws, up ? DRAW_DELAY_UP : DRAW_DELAY_DOWN, worker, 0, it->delay);
    uint64_t arrival = it->now + (it->now < node->slow_until ? SLOW_LINK_FACTOR * delay : delay);
    random_stream details;
    if (arrival < *last &&
        !(reorder && draws_fault(&it->draws, FAULT_OVERTAKE, worker, 1, &details)))
        arrival = *last;
    if (arrival > *last)
        *last = arrival;
    return arrival;
}

/* Bytes of a message are heard before it, perhaps; and it comes twice, perhaps. */
void cluster_carry(void *user, uint32_t from, uint32_t to, const transport_frame *frame)
{
    cluster *it = user;
    const bool up = to == TRANSPORT_COORDINATOR;
    const uint32_t worker = up ? from : to;
    const bool message = frame->head_size > 0;
    uint64_t arrival =
        draw_arrival(it, up, worker, message && (up ? it->reorder_up : it->reorder_down));
    memory_network_deliver(it->network, arrival, from, to, frame);
    if (!message)
        return;
    if (up && draws_chance(&it->draws, DRAW_HEARD, worker, HEARD_CHANCE)) {
        uint32_t time = (uint32_t)(arrival - it->now);
        uint64_t sooner = it->now + draws_between(&it->draws, DRAW_HEARD, worker, 0, time);
        memory_network_hear(it->network, sooner, from, to);
    }
    random_stream details;
    if (draws_fault(&it->draws, FAULT_DUPLICATE, worker, it->duplicates, &details)) {
        uint32_t most = stream_chance(&details, 0.3) ? MUCH_LATER : 2 * it->delay;
        transport_frame again = *frame;
        if (!up)
            again.body_size = offsetof(cargo, parcel); /* a view comes once */
        memory_network_deliver(it->network, arrival + stream_between(&details, 0, most), from, to,
                               &again);
    }
}

uint64_t cluster_notice(void *user, uint32_t from, uint32_t to)
{
    cluster *it = user;
    if (to != TRANSPORT_COORDINATOR || !it->notices)
        return TARRY_NEVER;
    uint64_t time = it->now + draws_between(&it->draws, DRAW_NOTICE, from, 0, 2 * it->delay);
    cluster_disturb(it, time);
    return time;
}

/* Sets, which depend on the plan, are in the server's messages alone. */
static void send(cluster *it, uint32_t from, uint32_t to, const tarry_message *message,
                 const cargo *with, size_t size)
{
    const codec_shape *shape = &it->shapes[to == TRANSPORT_COORDINATOR ? from : to];
    uint8_t head[FRAME_BYTES];
    codec_encode(shape, message, head);
    const transport_frame frame = {head, codec_size(shape, message), with, size};
    if (cluster_planted(it, PLANT_WAIT_FOR_THE_LOST)) /* they are not connected */
        cluster_carry(it, from, to, &frame);
    else
        transport_send(memory_network_end(it->network, from), to, &frame);
}

void cluster_send_up(cluster *it, uint32_t worker, const tarry_message *message, const coded *part)
{
    cargo with;
    with.plan = it->number;
    with.parameters = it->parameters;
    if (part != NULL)
        with.part = *part;
    send(it, worker, TRANSPORT_COORDINATOR, message, &with,
         part != NULL ? offsetof(cargo, part) + sizeof(*part) : offsetof(cargo, part));
}

void cluster_send_down(cluster *it, uint32_t worker, const tarry_message *message)
{
    cargo with;
    with.plan = it->number;
    with.parameters = it->parameters;
    with.parcel.count = 0;
    if (message->type == TARRY_MESSAGE_ROUND)
        seen_send(it, worker, message->round, &with.parcel);
    send(it, TRANSPORT_COORDINATOR, worker, message, &with,
         with.parcel.count > 0 ? offsetof(cargo, parcel) + sizeof(with.parcel)
                               : offsetof(cargo, parcel));
}

void cluster_send_plan(cluster *it, uint32_t from, uint32_t to, const cargo *told)
{
    transport_send(memory_network_end(it->network, from), to,
                   &(transport_frame){NULL, 0, told, offsetof(cargo, part)});
}

/* What a dead connection carried is lost, but for strays. */
static bool arrives(cluster *it, uint32_t worker, const transport_event *sent, double strays)
{
    random_stream details;
    return cluster_is_present(it, worker, sent->connection) ||
           draws_fault(&it->draws, FAULT_STRAY, worker, strays, &details);
}

static bool read_frame(cluster *it, const transport_frame *frame, const codec_shape *shape,
                       uint64_t *words, tarry_message *message)
{
    int error = codec_decode(shape, frame->head, frame->head_size, words, message);
    if (error != TARRY_OK)
        invariant_broken(it, "frames_are_read", "%s", tarry_error_text(error));
    return error == TARRY_OK;
}

static void deliver_to_server(cluster *it, const transport_event *sent)
{
    const uint32_t worker = sent->peer;
    const cargo *with = sent->frame.body;
    uint64_t words[FRAME_WORDS];
    tarry_message message;
    if ((!cluster_planted(it, PLANT_WAIT_FOR_THE_LOST) && !arrives(it, worker, sent, 0.5)) ||
        !read_frame(it, &sent->frame, &it->shapes[worker], words, &message))
        return;
    cluster_note_message(it, "from", worker, &message);
    if (cluster_planted(it, PLANT_FORGE_EPOCH))
        message.epoch = it->model.members[worker].epoch;
    tarry_event event = {.type = TARRY_EVENT_MESSAGE, .worker = worker, .message = &message};
    if (cluster_planted(it, PLANT_LOSE_REPORT) && message.type == TARRY_MESSAGE_REPORT) {
        model_event(&it->model, it->now, &event);
        event = (tarry_event){.type = TARRY_EVENT_TIME};
    }
    if (cluster_planted(it, PLANT_REPEAT_UNNOTICED) && message.type == TARRY_MESSAGE_ALIVE) {
        const tarry_effects *unseen;
        (void)tarry_server_step(it->server, it->now, &event, &unseen);
    }
    cluster_step_server(it, &event, message.type == TARRY_MESSAGE_PART ? &with->part : NULL);
}

/* A planted error: what was barred before in the round stays so. */
static void keep_barred(const cluster *it, uint32_t worker, tarry_message *message, uint64_t *kept)
{
    if (message->type != TARRY_MESSAGE_NEWS && message->type != TARRY_MESSAGE_RESUME)
        return;
    *kept = message->barred != NULL ? *message->barred : 0;
    const tarry_plan *plan = cluster_plan_of(it, worker);
    for (uint32_t slot = 0; slot < tarry_plan_load(plan, worker); slot++)
        if (it->nodes[worker].barred >> tarry_plan_chunk(plan, worker, slot) & 1)
            *kept |= UINT64_C(1) << slot;
    message->barred = kept;
}

/* Planted errors: what the server says of the parts that stand is another. */
static void bend_stood(const cluster *it, uint32_t worker, tarry_message *message, uint32_t *stood)
{
    bool all = cluster_planted(it, PLANT_COMMIT_LATE),
         none = cluster_planted(it, PLANT_COMMIT_NONE);
    if (message->stood == NULL)
        return;
    if (cluster_planted(it, PLANT_KEEP_UNDONE))
        message->life = 0;
    if (!all && !none)
        return;
    for (uint32_t stripe = 0; stripe < it->stripes; stripe++)
        stood[stripe] = none ? 0 : it->nodes[worker].present.epoch;
    message->stood = stood;
}

codec_shape cluster_shape(const cluster *it, const tarry_plan *plan, uint32_t worker)
{
    codec_shape shape = codec_shape_of(plan, worker, it->stripes);
    if (it->secure.on)
        codec_shape_secure(&shape, plan);
    return shape;
}

/* A planted error: the first chunk is another's. */
static void bend_holders(const cluster *it, uint32_t worker, tarry_message *message,
                         uint32_t holders[MAX_CHUNKS])
{
    if (!cluster_planted(it, PLANT_BEND_HOLDERS) || message->holders == NULL || worker != 0)
        return;
    memcpy(holders, message->holders, tarry_plan_chunks(cluster_plan_of(it, 0)) * sizeof(*holders));
    holders[0] = (holders[0] + 1) % it->workers;
    message->holders = holders;
}

/* Whether the worker's machine is given the message: what was said under another plan would mean
 * other chunks, and speaks of rounds that are over; but for whether the worker is there. */
static bool is_meant_for(const cluster *it, const cluster_node *node, const transport_frame *frame)
{
    const cargo *with = frame->body;
    tarry_message_type type;
    uint64_t round;
    return with->plan == node->plan || cluster_planted(it, PLANT_OLD_ORDERS) ||
           (codec_peek(frame->head, frame->head_size, &type, &round) == TARRY_OK &&
            type == TARRY_MESSAGE_PROBE);
}

static void deliver_to_worker(cluster *it, uint32_t worker, const transport_event *sent)
{
    const cluster_node *node = &it->nodes[worker];
    const cargo *with = sent->frame.body;
    uint64_t words[FRAME_WORDS] = {0};
    tarry_message message;
    if (node->machine == NULL || !seen_receive(it, worker, sent))
        return;
    if (!arrives(it, worker, sent, it->strays) || !is_meant_for(it, node, &sent->frame))
        return;
    codec_shape shape = with->plan == node->plan
                            ? node->shape
                            : cluster_shape(it, it->plans[with->plan].plan, worker);
    if (!read_frame(it, &sent->frame, &shape, words, &message))
        return;
    uint64_t kept;
    uint32_t stood[MAX_STRIPES], holders[MAX_CHUNKS];
    bend_stood(it, worker, &message, stood);
    bend_holders(it, worker, &message, holders);
    if (cluster_planted(it, PLANT_KEEP_BARRED))
        keep_barred(it, worker, &message, &kept);
    cluster_note_message(it, "at", worker, &message);
    secure_hear(it, worker, &message);
    cluster_step_worker(it, worker,
                        &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message}, with);
}

/* The loss of an earlier connection has been overtaken by the arrival after it. */
static void lose(cluster *it, const transport_event *gone)
{
    if (gone->connection != memory_network_connection(it->network, gone->peer) ||
        cluster_connected(it, gone->peer) || cluster_planted(it, PLANT_WAIT_FOR_THE_LOST))
        return;
    cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_LOST, .worker = gone->peer}, NULL);
}

/* Bytes that come from a connection that is gone are not heard of. */
static void hear(cluster *it, const transport_event *bytes)
{
    if (!cluster_is_present(it, bytes->peer, bytes->connection))
        return;
    cluster_note(it, "bytes of worker %u", bytes->peer);
    cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_HEARD, .worker = bytes->peer}, NULL);
}

/* Somebody has asked for it while the round ran. */
static void abort_round(cluster *it)
{
    if (it->model.phase != MODEL_IDLE && it->aborted == it->rounds_done)
        cluster_step_server(it, &(tarry_event){.type = TARRY_EVENT_ABORT}, NULL);
}

void cluster_poll(cluster *it, uint32_t to)
{
    transport *end = memory_network_end(it->network, to);
    transport_event event;
    transport_poll(end, transport_now(end), &event);
    const bool message = event.frame.head_size > 0;
    if (event.type == TRANSPORT_WOKEN)
        abort_round(it);
    else if (event.type == TRANSPORT_GONE)
        lose(it, &event);
    else if (event.type == TRANSPORT_HEARD)
        hear(it, &event);
    else if (to == TRANSPORT_COORDINATOR && message)
        deliver_to_server(it, &event);
    else if (to == TRANSPORT_COORDINATOR)
        cluster_hear_ready(it, event.peer, event.connection, event.frame.body);
    else if (message)
        deliver_to_worker(it, to, &event);
    else
        cluster_hear_plan(it, to, event.connection, event.frame.body);
}
