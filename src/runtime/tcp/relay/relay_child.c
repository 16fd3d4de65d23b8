/* SPDX-License-Identifier: Apache-2.0 */
/* A child's connection: what it says goes up, once it has said HELLO. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "protocol/wire/codec.h"
#include "runtime/tcp/relay/relay_state.h"

/* Nanoseconds: until HELLO has come; for last words. */
#define HELLO_NS UINT64_C(10000000000)
#define FAREWELL_NS UINT64_C(1000000000)

enum {
    MOST_WAITING = 4 << 20, /* bytes of small frames that a child does not take */
    HEARTBEAT_FRACTION = 8, /* of the silence that counts as absence */
    HEARTBEATS = 256,       /* at a time, as after a stall; and so many in the time of a silence */
    HEARTBEATS_BACK = 32,
};

/* What workers send has no sets, for which a shape would be needed. */
static const codec_shape NO_SETS;

/* ---- lists ---- */

void relay_put(child_list *list, relay_child *child)
{
    child->before = list->last;
    child->after = NULL;
    if (list->last != NULL)
        list->last->after = child;
    else
        list->first = child;
    list->last = child;
    list->count++;
}

void relay_take(child_list *list, relay_child *child)
{
    if (child->before != NULL)
        child->before->after = child->after;
    else
        list->first = child->after;
    if (child->after != NULL)
        child->after->before = child->before;
    else
        list->last = child->before;
    child->before = child->after = NULL;
    list->count--;
}

/* ---- the end ---- */

static void tell(relay_child *child, tarry_tcp_notice_type type, const char *text)
{
    relay_notify(child->relay, &(tarry_tcp_notice){
                                   .type = type,
                                   .worker = TARRY_TCP_NO_WORKER,
                                   .peer = channel_peer(child->channel),
                                   .text = text,
                               });
}

/* Nothing is read any more by what still goes out, and nobody finds it. */
static void close_child(relay_child *child, bool gently)
{
    tcp_relay *self = child->relay;
    relay_round_stop(child);
    for (outgoing_tag tag = OUTGOING_PARAMETERS; tag <= OUTGOING_DATA; tag++)
        outgoing_drop(&child->large, child->channel, tag);
    relay_take(child->state == CHILD_NEW ? &self->newcomers : &self->children, child);
    child->state = CHILD_OVER;
    child->after = self->over;
    self->over = child;
    if (gently)
        channel_close_gently(child->channel, FAREWELL_NS);
    else
        channel_close(child->channel);
    child->channel = NULL;
    relay_buffer_release(child->incoming);
    child->incoming = NULL;
    relay_gather_lose(child);
    relay_blob_let_go(child);
    self->work.children = self->children.count;
}

void relay_child_end(relay_child *child, wire_lane_reason reason, const char *why, bool gently)
{
    tcp_relay *self = child->relay;
    if (child->state == CHILD_OVER)
        return;
    bool open = child->state == CHILD_OPEN;
    tell(child, open ? TARRY_TCP_LEFT : TARRY_TCP_REFUSED, why);
    if (open) {
        relay_up_end(self, child->lane, reason, why);
        if (child->state == CHILD_OVER)
            return; /* the trunk was lost */
        relay_lane_leave(self, child->lane);
    }
    close_child(child, gently);
}

void relay_child_farewell(relay_child *child, wire_bye bye)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    channel_send(child->channel, frame, wire_bye_encode(bye, frame));
    close_child(child, true);
}

void relay_children_farewell(tcp_relay *self, wire_bye bye)
{
    while (self->children.first != NULL)
        relay_child_farewell(self->children.first, bye);
}

static void refuse(relay_child *child, wire_reason reason, const char *why)
{
    wire_refused words = {.reason = reason};
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    snprintf(words.text, sizeof(words.text), "%s", why);
    channel_send(child->channel, frame, wire_refused_encode(&words, frame));
    relay_child_end(child, WIRE_LANE_NOT_FRAMES, why, true);
}

void relay_children_free(tcp_relay *self)
{
    while (self->over != NULL) {
        relay_child *child = self->over;
        self->over = child->after;
        memory_release(&self->allocator, child);
    }
}

/* ---- what comes ---- */

static void hear(relay_child *child)
{
    tcp_relay *self = child->relay;
    self->heard[child->lane / 8] |= (uint8_t)(1u << child->lane % 8);
    self->has_heard = true;
}

static void take_hello(relay_child *child, const wire_head *head, const uint8_t *body)
{
    tcp_relay *self = child->relay;
    wire_hello hello;
    if (wire_hello_decode(head, body, &hello) != TARRY_OK) {
        refuse(child, WIRE_REFUSED_FORMAT, "what came is no HELLO");
        return;
    }
    bool lasting = hello.role == WIRE_ROLE_WORKER || hello.role == WIRE_ROLE_STANDBY;
    if (!lasting) {
        refuse(child, WIRE_REFUSED_IDENTITY,
               "a relay is for workers; others connect to the server");
        return;
    }
    if (self->trunk.stage != TRUNK_UP) {
        refuse(child, WIRE_REFUSED_CLOSING, "this relay has no connection to its server");
        return;
    }
    if (!relay_lane_take(self, child)) {
        refuse(child, WIRE_REFUSED_FULL, "this relay has no room for more workers");
        return;
    }
    relay_take(&self->newcomers, child);
    child->state = CHILD_OPEN;
    child->window = WIRE_LANE_WINDOW;
    relay_put(&self->children, child);
    self->work.children = self->children.count;
    self->work.arrivals++;
    hear(child);
    tell(child, TARRY_TCP_JOINED, NULL);
    relay_up_open(child);
    if (child->state == CHILD_OPEN)
        relay_up_frame(child, WIRE_HELLO, body, head->length);
}

/* Reports go with others. False: it is no frame of a worker. */
static bool take_message(relay_child *child, const wire_head *head, const uint8_t *body)
{
    tarry_message message;
    if (body[0] != TARRY_MESSAGE_REPORT) {
        relay_up_frame(child, head->kind, body, head->length);
        return true;
    }
    if (codec_decode(&NO_SETS, body, head->length, NULL, &message) != TARRY_OK)
        return false;
    relay_up_report(child, &message);
    return true;
}

static bool take_batch(relay_child *child, const wire_head *head, const uint8_t *body)
{
    wire_batch batch;
    tarry_message message;
    uint32_t lane;
    if (wire_batch_decode(head, body, &batch) != TARRY_OK || batch.lanes)
        return false;
    for (uint32_t i = 0; i < batch.count && child->state == CHILD_OPEN; i++) {
        wire_batch_get(&batch, i, &lane, &message);
        relay_up_report(child, &message);
    }
    return true;
}

static bool take_heartbeat(relay_child *child)
{
    tcp_relay *self = child->relay;
    const bucket_size size = {
        .room = HEARTBEATS,
        .per_second = 1 + HEARTBEATS_BACK * 1e9 / (double)self->trunk.welcome.silence_ns,
    };
    if (bucket_take(&child->heartbeats, size, 1, relay_now(self)))
        return true;
    refuse(child, WIRE_REFUSED_FLOOD, "too many heartbeats");
    return true;
}

static bool take_frame(relay_child *child, const wire_head *head, const uint8_t *body)
{
    switch (head->kind) {
    case WIRE_HEARTBEAT:
        return take_heartbeat(child);
    case WIRE_MESSAGE:
        return take_message(child, head, body);
    case WIRE_BATCH:
        return take_batch(child, head, body);
    case WIRE_HELLO:
    case WIRE_BYE:
    case WIRE_FETCH:
    case WIRE_READY:
        relay_up_frame(child, head->kind, body, head->length);
        if (head->kind == WIRE_BYE && child->state == CHILD_OPEN)
            relay_child_end(child, WIRE_LANE_CLOSED, "it took its leave", false);
        return true;
    default:
        return false;
    }
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    relay_child *child = user;
    if (child->state == CHILD_NEW && head->kind == WIRE_HELLO)
        take_hello(child, head, body);
    else if (child->state == CHILD_NEW || !take_frame(child, head, body))
        refuse(child, WIRE_REFUSED_FORMAT, "a frame that makes no sense here");
    return child->state != CHILD_OVER;
}

/* A coded part that goes up as it is takes a buffer, of which the parent lets each child have some.
 */
static channel_verdict begin_lane_part(relay_child *child, const uint8_t *fixed, size_t bytes,
                                       void **place)
{
    if (child->window == 0) {
        child->waiting = true;
        return CHANNEL_WAIT;
    }
    child->incoming = relay_buffer_take(child->relay, bytes);
    if (child->incoming == NULL) {
        relay_child_end(child, WIRE_LANE_ADRIFT, "out of memory", false);
        return CHANNEL_END;
    }
    child->window--;
    child->incoming->gathers = false;
    memcpy(child->incoming->message, fixed, CODEC_HEADER_BYTES);
    *place = child->incoming->numbers;
    return CHANNEL_TAKE;
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    relay_child *child = user;
    if (child->state != CHILD_OPEN || head->kind != WIRE_MESSAGE ||
        bytes > relay_stripe_bytes(child->relay)) {
        refuse(child, WIRE_REFUSED_FORMAT, "a large frame that makes no sense here");
        return CHANNEL_END;
    }
    switch (relay_gather_begin_part(child, fixed, bytes)) {
    case RELAY_GATHER_TAKE:
        *place = child->incoming->numbers;
        return CHANNEL_TAKE;
    case RELAY_GATHER_DROP:
        return CHANNEL_TAKE; /* to nowhere */
    case RELAY_GATHER_WAIT:
        child->waiting = true;
        return CHANNEL_WAIT;
    case RELAY_GATHER_NO_MEMORY:
        relay_child_end(child, WIRE_LANE_ADRIFT, "out of memory", false);
        return CHANNEL_END;
    case RELAY_GATHER_NOT:
        break;
    }
    return begin_lane_part(child, fixed, bytes, place);
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    (void)head;
    (void)fixed;
    relay_child *child = user;
    relay_buffer *buffer = child->incoming;
    if (child->into != NULL) {
        relay_gather_part(child);
    } else if (buffer != NULL) {
        child->incoming = NULL;
        if (buffer->gathers)
            relay_buffer_release(buffer); /* its group is no more */
        else
            relay_up_part(child, buffer);
    }
    return child->state != CHILD_OVER;
}

void relay_child_resume(relay_child *child)
{
    if (!child->waiting)
        return;
    child->resumes = true;
    child->relay->has_tasks = true;
}

static void on_opened(void *user)
{
    relay_child *child = user;
    credential_identity who;
    if (child->trusted)
        return;
    if (credential_peer(channel_ssl(child->channel), &who) != TARRY_OK ||
        who.role != CREDENTIAL_WORKER)
        refuse(child, WIRE_REFUSED_IDENTITY, "not the credentials of a worker");
}

static void on_heard(void *user)
{
    relay_child *child = user;
    if (child->state == CHILD_OPEN)
        hear(child);
}

static void on_ended(void *user, channel_end how)
{
    relay_child *child = user;
    const char *why = how == CHANNEL_PEER_CLOSED && child->state == CHILD_NEW
                          ? "closed before it said who it is"
                      : how == CHANNEL_STUCK ? "does not take what is sent to it"
                                             : channel_failure(child->channel);
    relay_child_end(child,
                    how == CHANNEL_PEER_CLOSED  ? WIRE_LANE_CLOSED
                    : how == CHANNEL_STUCK      ? WIRE_LANE_STUCK
                    : how == CHANNEL_NOT_FRAMES ? WIRE_LANE_NOT_FRAMES
                    : how == CHANNEL_NO_MEMORY  ? WIRE_LANE_ADRIFT
                                                : WIRE_LANE_BROKEN,
                    why, false);
}

/* ---- the beginning ---- */

int relay_child_open(tcp_relay *self, int fd, bool member)
{
    SSL *ssl = NULL;
    bool trusted = member || self->credential == NULL;
    relay_child *child = memory_allocate(&self->allocator, 1, sizeof(*child));
    if (child != NULL && !trusted)
        ssl = credential_accept(self->credential);
    if (child == NULL || (!trusted && ssl == NULL)) {
        memory_release(&self->allocator, child);
        close(fd);
        return TARRY_ERROR_NO_MEMORY;
    }
    child->relay = self;
    child->trusted = trusted;
    child->since_ns = child->sent_ns = relay_now(self);
    const channel_settings settings = {
        .most_waiting = MOST_WAITING,
        .most_length = WIRE_SMALL_BYTES,
        .shared = self->read_buffer,
    };
    const channel_handlers handlers = {
        .user = child,
        .opened = on_opened,
        .heard = on_heard,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .ended = on_ended,
    };
    int error = link_channel_open(&self->loop, fd, ssl, false, &settings, &handlers,
                                  &self->allocator, &child->channel);
    if (error != TARRY_OK) {
        memory_release(&self->allocator, child);
        return error;
    }
    /* The one that has been silent for longest makes room. */
    if (self->newcomers.count == RELAY_NEWCOMERS)
        relay_child_end(self->newcomers.first, WIRE_LANE_CLOSED, "made room for others", false);
    relay_put(&self->newcomers, child);
    return TARRY_OK;
}

/* ---- tasks ---- */

static void on_sent(void *user, void *owner)
{
    (void)user;
    relay_child *child = owner;
    child->pumps = true;
    child->relay->has_tasks = true;
}

void relay_child_pump(relay_child *child)
{
    if (!outgoing_pump(&child->large, child->channel, on_sent, child))
        return;
    relay_round_pump(child);
    if (child->large.count == 0 && child->blob_first == child->blob_count &&
        channel_loads(child->channel) == 0)
        relay_blob_let_go(child);
}

void relay_children_do_tasks(tcp_relay *self)
{
    while (self->has_tasks) {
        self->has_tasks = false;
        for (relay_child *child = self->children.first, *after; child != NULL; child = after) {
            after = child->after;
            bool resumes = child->resumes, pumps = child->pumps;
            child->resumes = child->pumps = false;
            if (resumes && child->waiting) {
                child->waiting = false;
                channel_resume(child->channel);
            }
            if (pumps)
                relay_child_pump(child);
        }
    }
}

void relay_child_tick(relay_child *child, uint64_t now)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (child->state == CHILD_NEW) {
        if (now - child->since_ns > HELLO_NS)
            relay_child_end(child, WIRE_LANE_CLOSED, "did not say who it is in time", false);
        return;
    }
    uint64_t sent = channel_sent(child->channel);
    uint64_t silence = child->relay->trunk.welcome.silence_ns;
    if (child->waiting)
        hear(child); /* nothing is read from it */
    if (sent != child->sent_bytes) {
        child->sent_bytes = sent;
        child->sent_ns = now;
    } else if (child->welcome && now - child->sent_ns >= silence / HEARTBEAT_FRACTION) {
        child->sent_ns = now;
        channel_send(child->channel, frame, wire_heartbeat_encode(frame));
    }
}
