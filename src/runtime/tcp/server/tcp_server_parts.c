/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

#include <assert.h>

/* By the thread that received them: where they are of one stripe the sum is read and written once
 * for all, and as many, of 256 KiB each, are still in the core's cache. Measured: 1, 2, 6 and 8
 * take longer. */
enum { SUMMED_TOGETHER = 4 };

/* Whether the machine can want it. What it does want, it says itself once all of it is there. */
static bool is_wanted(const tarry_tcp_server *server, uint32_t worker, const tarry_message *message)
{
    const tcp_member *member = &server->members[worker];
    const tcp_signal *signal = &member->signal;
    return member->joined && signal->open && message->round == signal->round &&
           message->attempt == signal->attempt && message->epoch == signal->epoch &&
           message->parts == signal->parts;
}

/* How the gradient is cut for this part. False: it can't be cut so. */
static bool find_cut(const tarry_tcp_server *server, const tarry_message *message, layout *cut)
{
    const tarry_plan *plan = server->plan;
    if (message->parts < plan_least_parts(plan) || message->parts > plan->parts)
        return false;
    *cut = layout_make(server->cut.dimension, message->parts, server->cut.stripe_length);
    return message->stripe < cut->stripes;
}

static void begin_stripe(peer *who, const tarry_message *message, stripe *item)
{
    item->worker = who->worker;
    item->round = message->round;
    item->attempt = message->attempt;
    item->index = message->stripe;
    who->incoming = item;
}

channel_verdict tcp_server_begin_part(tarry_tcp_server *server, peer *who,
                                      const tarry_message *message, size_t bytes, void **place)
{
    layout cut;
    if (!find_cut(server, message, &cut) ||
        bytes != layout_stripe_length(&cut, message->stripe) * sizeof(float)) {
        peer_refuse(who, WIRE_REFUSED_FORMAT, "a coded part of the wrong length");
        return CHANNEL_END;
    }
    *place = NULL;
    if (!is_wanted(server, who->worker, message))
        return CHANNEL_TAKE;
    tcp_member *member = &server->members[who->worker];
    if (member->buffers == TCP_STRIPES_PER_WORKER) {
        who->waiting = true;
        return CHANNEL_WAIT;
    }
    stripe *item = stripes_take(&server->pool);
    if (item == NULL) {
        tcp_server_fail_round(server, TARRY_ERROR_NO_MEMORY);
        return CHANNEL_TAKE;
    }
    member->buffers++;
    begin_stripe(who, message, item);
    *place = item->numbers;
    return CHANNEL_TAKE;
}

bool tcp_server_begin_near_part(tarry_tcp_server *server, peer *who, const tarry_message *message)
{
    layout cut;
    if (!who->near_opened || !find_cut(server, message, &cut)) {
        peer_refuse(who, WIRE_REFUSED_FORMAT, "a coded part without its numbers");
        return false;
    }
    if (!is_wanted(server, who->worker, message))
        return true;
    stripe *item = near_part_take(who->near, &cut, message->stripe);
    if (item != NULL)
        begin_stripe(who, message, item);
    return true;
}

/* Takes a stripe out of the list; UINT32_MAX: any. */
static stripe *take_parked(tcp_member *member, uint32_t index)
{
    stripe **at = &member->parked;
    while (*at != NULL && index != UINT32_MAX && (*at)->index != index)
        at = &(*at)->next;
    stripe *item = *at;
    if (item != NULL) {
        *at = item->next;
        item->next = NULL;
    }
    return item;
}

static void park(tarry_tcp_server *server, stripe *item)
{
    tcp_member *member = &server->members[item->worker];
    item->next = member->parked;
    member->parked = item;
}

void tcp_server_take_part(tarry_tcp_server *server, peer *who, tarry_message *message)
{
    stripe *item = who->incoming;
    who->incoming = NULL;
    if (item == NULL)
        message->epoch = 0; /* of no arrival: it is counted, and never summed */
    server->arrived = item;
    tcp_server_step(server, &(tarry_event){
                                .type = TARRY_EVENT_MESSAGE,
                                .worker = who->worker,
                                .message = message,
                            });
    item = server->arrived;
    server->arrived = NULL;
    if (item == NULL)
        return;
    /* Its attempt may have been given up in the same step. */
    if (server->rejected || !server->round.running || !is_wanted(server, who->worker, message))
        tcp_server_give_stripe(server, item);
    else
        park(server, item);
}

static stripe *find(tarry_tcp_server *server, uint32_t worker, uint32_t index)
{
    stripe *item = server->arrived;
    if (item != NULL && item->worker == worker && item->index == index) {
        server->arrived = NULL;
        return item;
    }
    return take_parked(&server->members[worker], index);
}

void tcp_server_combine(tarry_tcp_server *server, const tarry_effect *effect)
{
    stripe *item = find(server, effect->worker, effect->stripe);
    assert(item != NULL && item->attempt == effect->attempt);
    item->scale = effect->scale;
    stripe_queue_push(&server->combining, item);
    server->combining_count++;
}

void tcp_server_sum(tarry_tcp_server *server)
{
    decoding_add(server->sums, &server->combining);
    server->combining_count = 0;
}

void tcp_server_sum_received(tarry_tcp_server *server)
{
    if (server->settings.decode_threads > 0 || server->combining_count < SUMMED_TOGETHER)
        return;
    tcp_server_sum(server);
    tcp_server_collect(server);
}

static void unpark(tarry_tcp_server *server, uint32_t worker, uint32_t index)
{
    for (stripe *item; (item = take_parked(&server->members[worker], index)) != NULL;)
        tcp_server_give_stripe(server, item);
}

void tcp_server_unpark(tarry_tcp_server *server, uint32_t index)
{
    if (!server->settings.server.reproducible)
        return; /* nothing is ever parked */
    for (uint32_t worker = 0; worker < server->plan->workers; worker++)
        unpark(server, worker, index);
}

void tcp_server_unpark_all(tarry_tcp_server *server)
{
    tcp_server_unpark(server, UINT32_MAX);
}

void tcp_server_give_stripe(tarry_tcp_server *server, stripe *item)
{
    if (item->near != NULL) {
        near_part_give(item->near, item);
        return;
    }
    tcp_member *member = &server->members[item->worker];
    peer *who = tcp_server_peer(server, item->worker);
    member->buffers--;
    stripes_give(&server->pool, item);
    if (who != NULL && who->waiting)
        peer_later(who, PEER_RESUME);
}

void tcp_server_collect(tarry_tcp_server *server)
{
    stripe_queue summed = {0}, dropped = {0};
    decoding_take(server->sums, &summed, &dropped);
    for (stripe *item; (item = stripe_queue_pop(&summed)) != NULL;) {
        if (server->round.running)
            tcp_server_step(server, &(tarry_event){
                                        .type = TARRY_EVENT_COMBINED,
                                        .worker = item->worker,
                                        .round = item->round,
                                        .attempt = item->attempt,
                                        .stripe = item->index,
                                    });
        tcp_server_give_stripe(server, item);
    }
    for (stripe *item; (item = stripe_queue_pop(&dropped)) != NULL;)
        tcp_server_give_stripe(server, item);
}
