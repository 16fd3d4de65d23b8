/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/peer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "runtime/tcp/server/tcp_server.h"

/* Nanoseconds: until HELLO has come; for last words. */
#define HELLO_NS UINT64_C(10000000000)
#define FAREWELL_NS UINT64_C(1000000000)

enum {
    HEARTBEAT_FRACTION = 8, /* of the silence that counts as absence */
    FETCHES_MOST = 32,      /* of a peer that wait */
};

/* Says so. False: it is to go without a word. */
static bool refused(peer *its, const char *why)
{
    if (its->state == PEER_NEW)
        return newcomers_refused(its->server, its, channel_peer(its->channel), why);
    tcp_server_notify(its->server, &(tarry_tcp_notice){
                                       .type = TARRY_TCP_REFUSED,
                                       .worker = its->worker,
                                       .peer = channel_peer(its->channel),
                                       .text = why,
                                   });
    return true;
}

uint64_t peer_received(const peer *its)
{
    return channel_received(its->channel);
}

uint64_t peer_sent(const peer *its)
{
    return channel_sent(its->channel);
}

/* It may have spoken: nothing was read from it. */
static void excuse(peer *its)
{
    tarry_tcp_server *server = its->server;
    its->heard_ns = server->roster.seats[its->worker].heard_ns = tcp_server_now(server);
}

/* ---- tasks ---- */

void peer_later(peer *its, peer_task task)
{
    its->tasks |= task;
    if (its->listed)
        return;
    its->listed = true;
    its->next_task = its->server->peers.tasks;
    its->server->peers.tasks = its;
}

static void released(void *user, void *owner)
{
    (void)user;
    peer *its = owner;
    if (its->large.count > 0)
        peer_later(its, PEER_PUMP);
}

static void do_tasks(peer *its)
{
    tarry_tcp_server *server = its->server;
    unsigned tasks = its->tasks;
    its->tasks = 0;
    if ((tasks & PEER_REFUSE) != 0 && its->state != PEER_OVER)
        peer_refuse(its, its->refusal, "");
    if ((tasks & PEER_DROP) != 0 && its->state != PEER_OVER)
        peer_end(its, 0);
    if ((tasks & PEER_HEARD) != 0 && its->state != PEER_OVER &&
        its->spoke_ns != tcp_server_now(server) && its->worker != WIRE_ANY_WORKER &&
        server->base.host->members[its->worker].joined)
        host_step(server->base.host,
                  &(tarry_event){.type = TARRY_EVENT_HEARD, .worker = its->worker});
    if ((tasks & PEER_PUMP) != 0 && its->state != PEER_OVER)
        outgoing_pump(&its->large, its->channel, released, its);
    if ((tasks & PEER_RESUME) != 0 && its->state != PEER_OVER && its->waiting) {
        its->waiting = false;
        excuse(its);
        channel_resume(its->channel);
    }
}

void peer_do_tasks(tarry_tcp_server *server)
{
    while (server->peers.tasks != NULL) {
        peer *its = server->peers.tasks;
        server->peers.tasks = its->next_task;
        its->listed = false;
        do_tasks(its);
    }
}

/* ---- the end ---- */

void peer_drop(peer *its, outgoing_tag tag)
{
    outgoing_drop(&its->large, its->channel, tag);
}

/* Nobody finds it any more, and nothing of the server is read by what still goes out. */
static void detach(peer *its)
{
    tarry_tcp_server *server = its->server;
    if (its->before != NULL)
        its->before->after = its->after;
    else
        server->peers.first = its->after;
    if (its->after != NULL)
        its->after->before = its->before;
    server->connections--;
    server->viewers -= its->state == PEER_VIEWER;
    if (its->state == PEER_NEW)
        newcomers_remove(server, its);
    for (outgoing_tag tag = OUTGOING_PARAMETERS; tag <= OUTGOING_DATA; tag++)
        peer_drop(its, tag);
    its->state = PEER_OVER;
    if (its->worker != WIRE_ANY_WORKER && tcp_server_peer(server, its->worker) == its) {
        tcp_member *member = &server->members[its->worker];
        member->received += peer_received(its);
        member->sent += peer_sent(its);
        roster_leave(&server->roster, its->worker);
    }
    if (its->incoming != NULL) {
        host_release(server->base.host, its->incoming);
        its->incoming = NULL;
    }
    near_part_retire(its->near);
    its->near = NULL;
    its->after = server->peers.over;
    server->peers.over = its;
}

/* What the machine says when it hears of it goes to others. */
static void end(peer *its, bool gently)
{
    bool joined = its->state == PEER_READY || its->state == PEER_TURNING;
    detach(its);
    if (joined)
        tcp_server_lose(its->server, its);
    if (gently)
        channel_close_gently(its->channel, FAREWELL_NS);
    else
        channel_close(its->channel);
    its->channel = NULL;
}

void peer_refuse(peer *its, wire_reason reason, const char *text)
{
    assert(its->state != PEER_OVER);
    wire_refused words = {.reason = reason};
    snprintf(words.text, sizeof(words.text), "%s",
             text[0] != '\0' ? text : wire_reason_text(reason));
    bool told = refused(its, words.text);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (told)
        channel_send(its->channel, frame, wire_refused_encode(&words, frame));
    end(its, told);
}

void peer_end(peer *its, wire_bye bye)
{
    assert(its->state != PEER_OVER);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (bye != 0)
        channel_send(its->channel, frame, wire_bye_encode(bye, frame));
    end(its, bye != 0);
}

void peer_bury(tarry_tcp_server *server)
{
    while (server->peers.over != NULL) {
        peer *its = server->peers.over;
        server->peers.over = its->after;
        memory_release(&server->allocator, its->held);
        memory_release(&server->allocator, its);
    }
}

/* ---- what comes ---- */

static bool take_message(peer *its, tarry_message *message)
{
    tarry_tcp_server *server = its->server;
    stripe *item = its->incoming;
    its->spoke_ns = tcp_server_now(server);
    its->incoming = NULL;
    const tarry_reject *reject = host_receive(server->base.host, its->worker, message, item);
    if (its->state == PEER_OVER)
        return false;
    return peer_count_message(its, reject) && its->refusal == 0;
}

static bool take_fetch(peer *its, const wire_fetch *fetch)
{
    tarry_tcp_server *server = its->server;
    const void *bytes;
    size_t size;
    if (fetch->kind != WIRE_BLOB_DATA || server->settings.ship == NULL ||
        fetch->index >= server->base.host->plan->origins) {
        peer_refuse(its, WIRE_REFUSED_FORMAT, "asks for data that are not here");
        return false;
    }
    if (its->large.count >= FETCHES_MOST) {
        peer_refuse(its, WIRE_REFUSED_FLOOD, "asks for too much at a time");
        return false;
    }
    if (server->settings.ship(server->settings.ship_user, fetch->index, &bytes, &size) != 0) {
        peer_refuse(its, WIRE_REFUSED_DATA, "the server can't read the data of a chunk");
        return false;
    }
    if (size > TARRY_TCP_SHIP_MOST) {
        peer_refuse(its, WIRE_REFUSED_DATA, "a chunk has more data than can be shipped");
        return false;
    }
    outgoing_add(&its->large, &(outgoing_stream){
                                  .tag = OUTGOING_DATA,
                                  .index = fetch->index,
                                  .bytes = bytes,
                                  .size = size,
                              });
    peer_later(its, PEER_PUMP);
    return true;
}

static bool take_bye(peer *its)
{
    tarry_tcp_server *server = its->server;
    if (its->worker != WIRE_ANY_WORKER) {
        server->members[its->worker].state = WIRE_WORKER_LEFT;
        tcp_server_notify(server, &(tarry_tcp_notice){
                                      .type = TARRY_TCP_LEFT,
                                      .worker = its->worker,
                                      .peer = channel_peer(its->channel),
                                  });
    }
    peer_end(its, 0);
    return false;
}

static bool is_worker(const peer *its)
{
    return its->state == PEER_WELCOMED || its->state == PEER_READY || its->state == PEER_TURNING;
}

/* A whole frame; 0: what it says is not allowed here. */
typedef enum taken { NOT_HERE, GO_ON, STOP } taken;

static taken take_message_frame(peer *its, const uint8_t *body, size_t size)
{
    tarry_message message;
    if ((its->state != PEER_READY && its->state != PEER_TURNING) ||
        !host_decode(body, size, &message))
        return NOT_HERE;
    if (message.type == TARRY_MESSAGE_PART &&
        !tcp_server_begin_near_part(its->server, its, &message))
        return STOP;
    return take_message(its, &message) ? GO_ON : STOP;
}

static taken take_other_frame(peer *its, const wire_head *head, const uint8_t *body)
{
    bool on;
    switch (head->kind) {
    case WIRE_HELLO: {
        wire_hello hello;
        if (its->state != PEER_NEW || wire_hello_decode(head, body, &hello) != TARRY_OK)
            return NOT_HERE;
        its->introduced = true;
        on = peer_hello(its, &hello);
        break;
    }
    case WIRE_HEARTBEAT:
        if (its->state == PEER_NEW)
            return NOT_HERE;
        on = peer_count_frame(its, WIRE_HEARTBEAT);
        break;
    case WIRE_BYE: {
        wire_bye bye;
        if (its->state == PEER_NEW || wire_bye_decode(head, body, &bye) != TARRY_OK)
            return NOT_HERE;
        on = take_bye(its);
        break;
    }
    case WIRE_FETCH: {
        wire_fetch fetch;
        if (!is_worker(its) || wire_fetch_decode(head, body, &fetch) != TARRY_OK)
            return NOT_HERE;
        on = peer_count_frame(its, WIRE_FETCH) && take_fetch(its, &fetch);
        break;
    }
    case WIRE_SHARED: {
        wire_shared shared;
        if (!is_worker(its) || wire_shared_decode(head, body, &shared) != TARRY_OK)
            return NOT_HERE;
        on = peer_count_frame(its, WIRE_SHARED);
        if (on)
            tcp_server_take_shared(its->server, its, &shared);
        break;
    }
    case WIRE_READY: {
        wire_ready ready;
        if (!is_worker(its) || wire_ready_decode(head, body, &ready) != TARRY_OK)
            return NOT_HERE;
        on = peer_count_frame(its, WIRE_READY) && peer_ready(its, &ready);
        break;
    }
    default:
        return NOT_HERE;
    }
    return on ? GO_ON : STOP;
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    peer *its = user;
    taken how = head->kind == WIRE_MESSAGE ? take_message_frame(its, body, head->length)
                                           : take_other_frame(its, head, body);
    if (how == NOT_HERE)
        peer_refuse(its, WIRE_REFUSED_FORMAT, "a frame that makes no sense here");
    return how == GO_ON;
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    peer *its = user;
    tarry_message message;
    if (head->kind == WIRE_MESSAGE && (its->state == PEER_READY || its->state == PEER_TURNING) &&
        host_decode(fixed, CODEC_HEADER_BYTES, &message) && message.type == TARRY_MESSAGE_PART)
        return tcp_server_begin_part(its->server, its, &message, bytes, place);
    peer_refuse(its, WIRE_REFUSED_FORMAT, "a large frame that makes no sense here");
    return CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    (void)head;
    peer *its = user;
    tarry_message message;
    bool good = host_decode(fixed, CODEC_HEADER_BYTES, &message);
    assert(good); /* as when it began */
    (void)good;
    bool on = take_message(its, &message);
    tcp_server_sum_received(its->server);
    return on && its->state != PEER_OVER; /* what a sum led to may have ended it */
}

static void on_opened(void *user)
{
    peer *its = user;
    its->heard_ns = tcp_server_now(its->server);
    if (its->trusted)
        return;
    if (credential_peer(channel_ssl(its->channel), &its->identity) != TARRY_OK)
        peer_refuse(its, WIRE_REFUSED_IDENTITY, "");
}

static void on_heard(void *user)
{
    peer *its = user;
    its->heard_ns = tcp_server_now(its->server);
    if (its->worker == WIRE_ANY_WORKER)
        return;
    its->server->roster.seats[its->worker].heard_ns = its->heard_ns;
    if (its->server->base.host->round.running && its->state != PEER_WELCOMED)
        peer_later(its, PEER_HEARD);
}

static void on_drained(void *user)
{
    peer *its = user;
    its->drained = true;
}

static void on_ended(void *user, channel_end how)
{
    peer *its = user;
    if (its->state == PEER_NEW || how == CHANNEL_STUCK || how == CHANNEL_NOT_FRAMES)
        refused(its, how == CHANNEL_PEER_CLOSED ? "closed before it said who it is"
                     : how == CHANNEL_STUCK     ? "does not take what is sent to it"
                                                : channel_failure(its->channel));
    peer_end(its, 0);
}

/* ---- the beginning ---- */

int peer_open(tarry_tcp_server *server, int fd, bool member)
{
    SSL *ssl = NULL;
    bool trusted = member || server->credential == NULL;
    peer *its = memory_allocate(&server->allocator, 1, sizeof(*its));
    if (its != NULL && !trusted)
        ssl = credential_open(server->credential);
    if (its == NULL || (!trusted && ssl == NULL)) {
        memory_release(&server->allocator, its);
        close(fd);
        return TARRY_ERROR_NO_MEMORY;
    }
    its->server = server;
    its->state = PEER_NEW;
    its->worker = WIRE_ANY_WORKER;
    its->trusted = trusted;
    its->since_ns = its->heard_ns = its->sent_ns = tcp_server_now(server);
    const channel_settings settings = {
        .most_waiting = server->settings.most_peer_bytes,
        .most_length = WIRE_SMALL_BYTES,
        .shared = server->read_buffer,
    };
    const channel_handlers handlers = {
        .user = its,
        .opened = on_opened,
        .heard = on_heard,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .drained = on_drained,
        .ended = on_ended,
    };
    newcomers_add(server, its);
    int error = channel_open(&server->loop, fd, ssl, false, &settings, &handlers,
                             &server->allocator, &its->channel);
    if (error != TARRY_OK) {
        newcomers_remove(server, its);
        memory_release(&server->allocator, its);
        return error;
    }
    its->after = server->peers.first;
    if (its->after != NULL)
        its->after->before = its;
    server->peers.first = its;
    server->connections++;
    return TARRY_OK;
}

void peer_send_plan(peer *its)
{
    const tarry_tcp_server *server = its->server;
    outgoing_add(&its->large, &(outgoing_stream){
                                  .tag = OUTGOING_PLAN,
                                  .bytes = server->plan_bytes,
                                  .size = server->plan_size,
                              });
    peer_later(its, PEER_PUMP);
}

/* ---- time ---- */

/* A viewer that doesn't take what waits: for how long is what counts. */
static bool takes_nothing(const peer *its)
{
    return its->state == PEER_VIEWER && !its->drained;
}

void peer_beat(peer *its, uint64_t now)
{
    if (its->state == PEER_NEW || its->state == PEER_OVER || takes_nothing(its))
        return;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    its->sent_ns = now;
    channel_send(its->channel, frame, wire_heartbeat_encode(frame));
}

static void beat_if_due(peer *its, uint64_t now)
{
    uint64_t sent = peer_sent(its);
    if (sent != its->sent_bytes) {
        its->sent_bytes = sent;
        its->sent_ns = now;
    } else if (now - its->sent_ns >= its->server->settings.server.silence_ns / HEARTBEAT_FRACTION) {
        peer_beat(its, now);
    }
}

bool peer_is_revoked(const peer *its)
{
    if (its->trusted || its->state == PEER_OVER)
        return false;
    /* While it is not there yet, it is the handshake that will look at the list. */
    X509 *certificate = SSL_get0_peer_certificate(channel_ssl(its->channel));
    return certificate != NULL && credential_is_revoked(its->server->credential, certificate);
}

void peer_tick(peer *its, uint64_t now)
{
    tarry_tcp_server *server = its->server;
    uint64_t silence = server->settings.server.silence_ns;
    if (its->waiting)
        excuse(its);
    uint64_t quiet = now - its->heard_ns;
    switch (its->state) {
    case PEER_NEW:
        if (now - its->since_ns > HELLO_NS) {
            refused(its, "did not say who it is in time");
            peer_end(its, 0);
        }
        return;
    case PEER_WELCOMED:
        if (quiet > HELLO_NS && quiet / 2 > silence) {
            refused(its, "fell silent before it was ready");
            peer_end(its, 0);
            return;
        }
        break;
    case PEER_READY:
    case PEER_TURNING: /* during a round it is the machine that looks */
        if (!server->base.host->round.running && quiet / 2 > silence) {
            server->members[its->worker].state = WIRE_WORKER_SILENT;
            peer_end(its, 0);
            return;
        }
        break;
    case PEER_VIEWER:
        if (takes_nothing(its) && now - its->sent_ns > HELLO_NS) {
            refused(its, "does not take what is sent to it");
            peer_end(its, 0);
            return;
        }
        break;
    case PEER_OVER:
        return;
    }
    beat_if_due(its, now);
}
