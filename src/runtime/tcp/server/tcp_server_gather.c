/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of coded parts that relays make on the way: runtime/host/host_gather.h. */
#include <assert.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "runtime/host/host_gather.h"
#include "runtime/tcp/server/tcp_server.h"

enum {
    ROOM_LEAST = 16,
    TAKEN_AT_ONCE = WIRE_LANE_WINDOW / 2,
    OUT_MOST = 2 * WIRE_LANE_WINDOW, /* stripes of one relay that are here */
};

/* What one relay gathers. */
struct tcp_gather {
    uint64_t source; /* the relay, as stripes name it */
    host_gather of;
    uint32_t number; /* of the group */
    bool open;       /* the relay was told of it, */
    bool building;   /* or is to be, in this call */
    uint32_t *worker, *epoch;
    uint32_t room; /* of each */
    uint32_t stripe;
    stripe **blocks; /* of that, that have come, and one that comes; parts of the plan */
    uint32_t have;
    uint32_t out, owed; /* stripes that are here; and are not any more, which it was not told */
};

static bool is_current(const tarry_tcp_server *server, const struct tcp_gather *gather)
{
    const host *core = server->base.host;
    return gather->open && core->round.running && gather->of.round == core->round.number &&
           gather->of.attempt == core->attempt;
}

static struct tcp_gather *make(tarry_tcp_server *server, peer *relay)
{
    const tarry_allocator *allocator = &server->allocator;
    struct tcp_gather *made = memory_allocate(allocator, 1, sizeof(*made));
    if (made == NULL)
        return NULL;
    made->blocks =
        memory_allocate(allocator, server->base.host->plan->parts, sizeof(*made->blocks));
    if (made->blocks == NULL) {
        memory_release(allocator, made);
        return NULL;
    }
    made->source = ++server->gather_sources;
    relay->gather = made;
    return made;
}

/* ---- who is to be in a sum ---- */

static bool reserve(const tarry_tcp_server *server, struct tcp_gather *gather)
{
    if (gather->of.count < gather->room)
        return true;
    const tarry_allocator *allocator = &server->allocator;
    uint32_t count = gather->of.count;
    size_t room = memory_room(gather->room, (size_t)count + 1, ROOM_LEAST);
    uint32_t *worker = memory_grow(allocator, gather->worker, count, room, sizeof(*worker));
    if (worker != NULL)
        gather->of.worker = gather->worker = worker;
    uint32_t *epoch = memory_grow(allocator, gather->epoch, count, room, sizeof(*epoch));
    if (epoch != NULL)
        gather->of.epoch = gather->epoch = epoch;
    if (worker == NULL || epoch == NULL)
        return false;
    gather->room = (uint32_t)room;
    return true;
}

/* More of a head's length than a frame has goes by itself. */
static uint32_t most_of(uint32_t parts)
{
    const wire_gather each = {.parts = parts};
    return (uint32_t)((WIRE_MESSAGE_BYTES - WIRE_GATHER_HEAD_BYTES) / wire_gather_stride(&each));
}

/* The worker's parts are to be in its relay's sum, if it has any to send. */
static void add(tarry_tcp_server *server, uint32_t worker, const tarry_message *signal)
{
    host *core = server->base.host;
    const peer *who = tcp_server_peer(server, worker);
    if (who == NULL || who->relay == NULL || who->state != PEER_READY)
        return;
    struct tcp_gather *gather = who->relay->gather;
    if (gather == NULL)
        gather = make(server, who->relay);
    uint32_t open = 0; /* a stripe that is asked for */
    while (open < core->cut.stripes && !bitset_test(signal->stripes, open))
        open++;
    tarry_message part = {
        .type = TARRY_MESSAGE_PART,
        .round = signal->round,
        .attempt = signal->attempt,
        .epoch = signal->epoch,
        .parts = signal->parts,
        .stripe = open,
    };
    if (gather == NULL || !tarry_server_wants(core->machine, worker, &part))
        return;
    bool same = gather->of.round == signal->round && gather->of.attempt == signal->attempt;
    if (!gather->building && gather->open && same)
        return; /* it came later than those of that attempt */
    if (!gather->building) {
        gather->building = true;
        gather->open = false;
        gather->of.round = signal->round;
        gather->of.attempt = signal->attempt;
        gather->of.parts = signal->parts;
        gather->of.scale = host_scale(core);
        gather->of.count = 0;
        gather->number++;
    }
    if (gather->of.count == most_of(signal->parts) || !reserve(server, gather))
        return;
    gather->worker[gather->of.count] = worker;
    gather->epoch[gather->of.count++] = signal->epoch;
}

/* Nothing is gained where a sum has as many blocks as there are parts to it. */
static void tell(tarry_tcp_server *server, peer *relay)
{
    struct tcp_gather *gather = relay->gather;
    const host_gather *of = &gather->of;
    gather->building = false;
    wire_gather words = {
        .round = of->round,
        .attempt = of->attempt,
        .group = gather->number,
        .parts = of->parts,
        .count = of->count,
    };
    if (of->count <= of->parts)
        return;
    size_t size = WIRE_HEAD_BYTES + WIRE_GATHER_HEAD_BYTES + of->count * wire_gather_stride(&words);
    uint8_t *frame = memory_allocate(&server->allocator, size, 1);
    float *weights = memory_allocate(&server->allocator, of->parts, sizeof(*weights));
    for (uint32_t i = 0; frame != NULL && weights != NULL && i < of->count; i++) {
        const peer *who = tcp_server_peer(server, of->worker[i]);
        host_weights(server->base.host, of->parts, of->worker[i], of->scale, weights);
        wire_gather_put(&words, frame, i, lane_number(who->channel), of->epoch[i], weights);
    }
    if (frame != NULL && weights != NULL)
        gather->open = channel_send(relay->channel, frame, wire_gather_encode(&words, frame));
    memory_release(&server->allocator, weights);
    memory_release(&server->allocator, frame);
}

void tcp_server_gather(void *user, const tarry_effects *effects)
{
    tarry_tcp_server *server = user;
    if (server->first_relay == NULL || !host_may_gather(server->base.host))
        return;
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND && effect->message.type == TARRY_MESSAGE_SIGNAL)
            add(server, effect->worker, &effect->message);
    }
    for (peer *relay = server->first_relay; relay != NULL; relay = relay->next_relay)
        if (relay->gather != NULL && relay->gather->building)
            tell(server, relay);
}

void tcp_server_leave_gathers(tarry_tcp_server *server, uint32_t worker)
{
    bool found = false;
    for (peer *relay = server->first_relay; relay != NULL; relay = relay->next_relay) {
        const struct tcp_gather *gather = relay->gather;
        if (gather == NULL || !is_current(server, gather))
            continue;
        for (uint32_t i = 0; i < gather->of.count; i++)
            found = found || gather->of.worker[i] == worker;
    }
    if (found)
        host_step(server->base.host, &(tarry_event){.type = TARRY_EVENT_STALLED});
}

/* ---- what comes ---- */

/* A stripe of the relay is not here any more. */
static void give_window(peer *relay)
{
    struct tcp_gather *gather = relay->gather;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (++gather->owed < TAKEN_AT_ONCE || relay->state != PEER_RELAY)
        return;
    const wire_taken words = {.lane = WIRE_NO_LANE, .count = gather->owed};
    gather->owed = 0;
    channel_send(relay->channel, frame, wire_taken_encode(&words, frame));
}

void tcp_server_release_gathered(tarry_tcp_server *server, const stripe *item)
{
    if (item->part != 0)
        return; /* the others go with it */
    for (peer *relay = server->first_relay; relay != NULL; relay = relay->next_relay) {
        if (relay->gather == NULL || relay->gather->source != item->source)
            continue;
        relay->gather->out--;
        give_window(relay);
    }
}

static void drop_blocks(tarry_tcp_server *server, struct tcp_gather *gather)
{
    uint32_t have = gather->have;
    gather->have = 0;
    for (uint32_t i = 0; i < have; i++)
        host_release(server->base.host, gather->blocks[i]);
}

static channel_verdict refuse(peer *relay, wire_reason reason, const char *why)
{
    peer_refuse(relay, reason, why);
    return CHANNEL_END;
}

/* Of an older attempt: it is only counted. */
static channel_verdict pass_over(tarry_tcp_server *server, peer *relay, const wire_gathered *words)
{
    drop_blocks(server, relay->gather);
    if (words->part == 0)
        give_window(relay);
    return CHANNEL_TAKE;
}

channel_verdict tcp_server_begin_gathered(void *user, peer *relay, const wire_gathered *words,
                                          void **place)
{
    tarry_tcp_server *server = user;
    host *core = server->base.host;
    struct tcp_gather *gather = relay->gather;
    *place = NULL;
    if (gather == NULL)
        return refuse(relay, WIRE_REFUSED_FORMAT, "a sum that it was not asked for");
    if (words->group != gather->number || !is_current(server, gather))
        return pass_over(server, relay, words);
    layout cut = layout_make(core->cut.dimension, gather->of.parts, core->cut.stripe_length);
    if (words->part >= cut.parts || words->stripe >= cut.stripes ||
        words->count != layout_present(&cut, words->part, words->stripe))
        return refuse(relay, WIRE_REFUSED_FORMAT, "a sum of the wrong length");
    if (words->part == 0)
        drop_blocks(server, gather);
    if (words->part != gather->have || (words->part > 0 && words->stripe != gather->stripe))
        return refuse(relay, WIRE_REFUSED_FORMAT, "a sum's blocks out of order");
    if (words->part == 0 && gather->out >= OUT_MOST)
        return refuse(relay, WIRE_REFUSED_FLOOD, "");
    stripe *item = host_take_room(core);
    if (item == NULL) {
        gather->open = false;
        return CHANNEL_TAKE;
    }
    item->gathered = true;
    item->part = words->part;
    item->source = gather->source;
    gather->out += words->part == 0;
    gather->stripe = words->stripe;
    gather->blocks[gather->have++] = item;
    *place = item->numbers;
    return CHANNEL_TAKE;
}

bool tcp_server_take_gathered(void *user, peer *relay, const wire_gathered *words)
{
    tarry_tcp_server *server = user;
    host *core = server->base.host;
    struct tcp_gather *gather = relay->gather;
    if (gather->have == 0 || words->group != gather->number || words->stripe != gather->stripe ||
        words->part + 1 != gather->have)
        return true; /* it was passed over */
    layout cut = layout_make(core->cut.dimension, gather->of.parts, core->cut.stripe_length);
    if (gather->have < cut.parts && layout_present(&cut, gather->have, words->stripe) > 0)
        return true;
    uint32_t have = gather->have;
    gather->have = 0;
    host_receive_gathered(core, &gather->of, words->stripe, gather->blocks, have);
    if (relay->state == PEER_OVER)
        return false;
    tcp_server_sum_received(server);
    return relay->state != PEER_OVER;
}

void tcp_server_free_gather(tarry_tcp_server *server, peer *relay)
{
    struct tcp_gather *gather = relay->gather;
    if (gather == NULL)
        return;
    drop_blocks(server, gather);
    memory_release(&server->allocator, gather->blocks);
    memory_release(&server->allocator, gather->epoch);
    memory_release(&server->allocator, gather->worker);
    memory_release(&server->allocator, gather);
    relay->gather = NULL;
}
