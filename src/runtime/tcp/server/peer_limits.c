/* SPDX-License-Identifier: Apache-2.0 */
/* How much a peer may say. */
#include "runtime/tcp/server/peer.h"

enum {
    SENSELESS = 64, /* tokens of a message that makes no sense; others are one */
    MESSAGES_LEAST = 1024,
    MESSAGES_EACH = 4,    /* times the worker's chunks and stripes */
    HEARTBEATS = 256,     /* at a time, as after a stall; */
    HEARTBEATS_BACK = 32, /* in the time of a silence, in which 8 are due; and one a second, as who
                             is held up again and again sends more */
    FETCHES_MORE = 32,
};

static bool refuse(peer *self)
{
    self->refusal = WIRE_REFUSED_FLOOD;
    peer_defer(self, PEER_REFUSE);
    return false;
}

/* Tokens come back with each round, four times what an honest worker says in it, and with time, for
 * the rounds that are long. */
static void find_most(peer *self, double each)
{
    double most = MESSAGES_EACH * each;
    self->limits.each_round = SENSELESS + most;
    self->limits.most = (bucket_size){
        .room = SENSELESS * (MESSAGES_LEAST + most),
        .per_second = SENSELESS + SENSELESS * 1e9 / (double)self->all->silence_ns,
    };
}

void peer_limits_begin(peer *self, double each, uint32_t chunks)
{
    self->limits.answers = 1;
    self->limits.fetches = chunks + FETCHES_MORE;
    find_most(self, each);
}

void peer_limits_replan(peer *self, double each)
{
    self->limits.answers++;
    find_most(self, each);
}

static uint64_t now_of(const peer *self)
{
    return self->all->events.now(self->all->events.user);
}

bool peer_count_message(peer *self, uint64_t round, const tarry_reject *reject)
{
    peer_limits *limits = &self->limits;
    if (limits->counted_round != round) {
        limits->counted_round = round;
        bucket_give(&limits->messages, limits->each_round);
    }
    bool senseless = reject != NULL && *reject != TARRY_REJECT_STALE;
    return bucket_take(&limits->messages, limits->most, senseless ? SENSELESS : 1, now_of(self)) ||
           refuse(self);
}

static bool take_one(uint32_t *left)
{
    bool some = *left > 0;
    *left -= some;
    return some;
}

bool peer_count_frame(peer *self, wire_kind kind)
{
    peer_limits *limits = &self->limits;
    bool within = true;
    if (kind == WIRE_READY)
        within = take_one(&limits->answers);
    else if (kind == WIRE_SHARED)
        within = take_one(&limits->shared_answers);
    else if (kind == WIRE_FETCH)
        within = take_one(&limits->fetches);
    else if (kind == WIRE_HEARTBEAT)
        within =
            bucket_take(&limits->heartbeats,
                        (bucket_size){
                            .room = HEARTBEATS,
                            .per_second = 1 + HEARTBEATS_BACK * 1e9 / (double)self->all->silence_ns,
                        },
                        1, now_of(self));
    return within || refuse(self);
}
