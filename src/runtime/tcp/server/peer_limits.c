/* SPDX-License-Identifier: Apache-2.0 */
/* How much a peer may say. */
#include "runtime/tcp/server/tcp_server.h"

enum {
    SENSELESS = 64, /* tokens of a message that makes no sense; others are one */
    MESSAGES_LEAST = 1024,
    MESSAGES_EACH = 4,    /* times the worker's chunks and stripes */
    HEARTBEATS = 256,     /* at a time, as after a stall; */
    HEARTBEATS_BACK = 32, /* in the time of a silence, in which 8 are due; and one a second, as who
                             is held up again and again sends more */
    FETCHES_MORE = 32,
};

static bool refuse(peer *its)
{
    its->refusal = WIRE_REFUSED_FLOOD;
    peer_later(its, PEER_REFUSE);
    return false;
}

/* Tokens come back with each round, four times what an honest worker says in it, and with time, for
 * the rounds that are long. */
static void find_most(peer *its)
{
    const tarry_tcp_server *server = its->server;
    double each = MESSAGES_EACH * ((double)tarry_plan_load(server->base.host->plan, its->worker) +
                                   (double)server->base.host->cut.stripes);
    its->limits.each_round = SENSELESS + each;
    its->limits.most = (bucket_size){
        .room = SENSELESS * (MESSAGES_LEAST + each),
        .per_second = SENSELESS + SENSELESS * 1e9 / (double)server->settings.server.silence_ns,
    };
}

void peer_limits_begin(peer *its)
{
    its->limits.answers = 1;
    its->limits.fetches = its->server->base.host->plan->origins + FETCHES_MORE;
    find_most(its);
}

void peer_limits_replan(peer *its)
{
    its->limits.answers++;
    find_most(its);
}

bool peer_count_message(peer *its, const tarry_reject *reject)
{
    tarry_tcp_server *server = its->server;
    peer_limits *limits = &its->limits;
    if (limits->counted_round != server->base.host->round.number) {
        limits->counted_round = server->base.host->round.number;
        bucket_give(&limits->messages, limits->each_round);
    }
    bool senseless = reject != NULL && *reject != TARRY_REJECT_STALE;
    return bucket_take(&limits->messages, limits->most, senseless ? SENSELESS : 1,
                       tcp_server_now(server)) ||
           refuse(its);
}

static bool take_one(uint32_t *left)
{
    bool some = *left > 0;
    *left -= some;
    return some;
}

bool peer_count_frame(peer *its, wire_kind kind)
{
    peer_limits *limits = &its->limits;
    tarry_tcp_server *server = its->server;
    bool within = true;
    if (kind == WIRE_READY)
        within = take_one(&limits->answers);
    else if (kind == WIRE_SHARED)
        within = take_one(&limits->shared_answers);
    else if (kind == WIRE_FETCH)
        within = take_one(&limits->fetches);
    else if (kind == WIRE_HEARTBEAT)
        within = bucket_take(&limits->heartbeats,
                             (bucket_size){
                                 .room = HEARTBEATS,
                                 .per_second = 1 + HEARTBEATS_BACK * 1e9 /
                                                       (double)server->settings.server.silence_ns,
                             },
                             1, tcp_server_now(server));
    return within || refuse(its);
}
