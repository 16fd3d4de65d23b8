/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/faults/cluster.h"
#include "sim/faults/invariants.h"

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

/* Sets, which depend on the plan, are in the server's messages alone. */
static void put_on_link(cluster *it, uint64_t arrival, item_type direction, uint32_t worker,
                        const tarry_message *message, const coded *part)
{
    const codec_shape *shape = &it->shapes[worker];
    cluster_item *sent = cluster_add(it, arrival, direction, worker);
    sent->connection = it->nodes[worker].connection;
    sent->parameters = it->parameters;
    sent->plan = it->number;
    sent->size = (uint32_t)codec_size(shape, message);
    codec_encode(shape, message, sent->frame);
    if (part != NULL)
        sent->part = *part;
    sent->parcel.count = 0;
    if (message->type == TARRY_MESSAGE_ROUND)
        seen_send(it, worker, message->round, &sent->parcel);
}

uint64_t cluster_arrival(cluster *it, item_type direction, uint32_t worker, bool reorder)
{
    cluster_node *node = &it->nodes[worker];
    bool up = direction == ITEM_TO_SERVER;
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

void cluster_transmit(cluster *it, item_type direction, uint32_t worker,
                      const tarry_message *message, const coded *part)
{
    const cluster_node *node = &it->nodes[worker];
    bool up = direction == ITEM_TO_SERVER;
    uint64_t arrival =
        cluster_arrival(it, direction, worker, up ? it->reorder_up : it->reorder_down);
    random_stream details;
    put_on_link(it, arrival, direction, worker, message, part);
    if (up && draws_chance(&it->draws, DRAW_HEARD, worker, HEARD_CHANCE)) {
        uint32_t time = (uint32_t)(arrival - it->now);
        uint64_t sooner = it->now + draws_between(&it->draws, DRAW_HEARD, worker, 0, time);
        cluster_add(it, sooner, ITEM_HEARD, worker)->connection = node->connection;
    }
    if (draws_fault(&it->draws, FAULT_DUPLICATE, worker, it->duplicates, &details)) {
        uint32_t most = stream_chance(&details, 0.3) ? MUCH_LATER : 2 * it->delay;
        put_on_link(it, arrival + stream_between(&details, 0, most), direction, worker, message,
                    part);
    }
}

/* What a dead connection carried is lost, but for strays. */
static bool arrives(cluster *it, const cluster_item *sent, double strays)
{
    const cluster_node *node = &it->nodes[sent->worker];
    random_stream details;
    return (node->connected && sent->connection == node->connection) ||
           draws_fault(&it->draws, FAULT_STRAY, sent->worker, strays, &details);
}

static bool read_frame(cluster *it, const cluster_item *sent, const codec_shape *shape,
                       uint64_t *words, tarry_message *message)
{
    int error = codec_decode(shape, sent->frame, sent->size, words, message);
    if (error != TARRY_OK)
        invariant_broken(it, "frames_are_read", "%s", tarry_error_text(error));
    return error == TARRY_OK;
}

void cluster_deliver_to_server(cluster *it, cluster_item *sent)
{
    uint64_t words[FRAME_WORDS];
    tarry_message message;
    if ((!cluster_planted(it, PLANT_WAIT_FOR_THE_LOST) && !arrives(it, sent, 0.5)) ||
        !read_frame(it, sent, &it->shapes[sent->worker], words, &message))
        return;
    cluster_note_message(it, "from", sent->worker, &message);
    if (cluster_planted(it, PLANT_FORGE_EPOCH))
        message.epoch = it->model.members[sent->worker].epoch;
    tarry_event event = {.type = TARRY_EVENT_MESSAGE, .worker = sent->worker, .message = &message};
    if (cluster_planted(it, PLANT_LOSE_REPORT) && message.type == TARRY_MESSAGE_REPORT) {
        model_event(&it->model, it->now, &event);
        event = (tarry_event){.type = TARRY_EVENT_TIME};
    }
    if (cluster_planted(it, PLANT_REPEAT_UNNOTICED) && message.type == TARRY_MESSAGE_ALIVE) {
        const tarry_effects *unseen;
        (void)tarry_server_step(it->server, it->now, &event, &unseen);
    }
    cluster_step_server(it, &event, message.type == TARRY_MESSAGE_PART ? &sent->part : NULL);
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
static bool is_meant_for(const cluster *it, const cluster_node *node, const cluster_item *sent)
{
    tarry_message_type type;
    uint64_t round;
    return sent->plan == node->plan || cluster_planted(it, PLANT_OLD_ORDERS) ||
           (codec_peek(sent->frame, sent->size, &type, &round) == TARRY_OK &&
            type == TARRY_MESSAGE_PROBE);
}

void cluster_deliver_to_worker(cluster *it, const cluster_item *sent)
{
    const cluster_node *node = &it->nodes[sent->worker];
    uint64_t words[FRAME_WORDS] = {0};
    tarry_message message;
    if (node->machine == NULL || !seen_receive(it, sent))
        return;
    if (!arrives(it, sent, it->strays) || !is_meant_for(it, node, sent))
        return;
    codec_shape shape = sent->plan == node->plan
                            ? node->shape
                            : cluster_shape(it, it->plans[sent->plan].plan, sent->worker);
    if (!read_frame(it, sent, &shape, words, &message))
        return;
    uint64_t kept;
    uint32_t stood[MAX_STRIPES], holders[MAX_CHUNKS];
    bend_stood(it, sent->worker, &message, stood);
    bend_holders(it, sent->worker, &message, holders);
    if (cluster_planted(it, PLANT_KEEP_BARRED))
        keep_barred(it, sent->worker, &message, &kept);
    if (cluster_planted(it, PLANT_USUAL_LIMIT) && sent->worker == 0)
        message.limit = 0;
    if (cluster_planted(it, PLANT_OTHER_SHAPE) && sent->worker == 0)
        message.shape = (tarry_shape){
            message.shape.kind == TARRY_SHAPE_TREE ? TARRY_SHAPE_DIRECT : TARRY_SHAPE_TREE, 0};
    cluster_note_message(it, "at", sent->worker, &message);
    secure_hear(it, sent->worker, &message);
    cluster_step_worker(it, sent->worker,
                        &(tarry_event){.type = TARRY_EVENT_MESSAGE, .message = &message}, sent);
}
