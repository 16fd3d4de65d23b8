/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/peer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "protocol/wire/wire_batch.h"
#include "runtime/host/host.h"

#define FAREWELL_NS UINT64_C(1000000000) /* for last words */

bool peer_say_refused(peer *self, const char *why)
{
    const peer_events *events = &self->all->events;
    if (self->state == PEER_NEW)
        return newcomers_refused(self->all, self->introduced, channel_peer(self->channel), why);
    events->turned_away(events->user, self->worker, channel_peer(self->channel), why);
    return true;
}

static uint64_t now_of(const peer *self)
{
    return self->all->events.now(self->all->events.user);
}

uint64_t peer_received(const peer *self)
{
    return channel_received(self->channel);
}

uint64_t peer_sent(const peer *self)
{
    return channel_sent(self->channel);
}

void peer_hear(peer *self, bool excused)
{
    const peer_events *events = &self->all->events;
    self->heard_ns = now_of(self);
    if (self->worker != WIRE_ANY_WORKER)
        events->heard(events->user, self, excused);
}

/* ---- tasks ---- */

void peer_defer(peer *self, peer_task task)
{
    self->tasks |= task;
    if (self->listed)
        return;
    self->listed = true;
    self->next_task = self->all->tasks;
    self->all->tasks = self;
}

static void released(void *user, void *owner)
{
    (void)user;
    peer *self = owner;
    if (self->large.count > 0)
        peer_defer(self, PEER_PUMP);
}

static void do_tasks(peer *self)
{
    const peer_events *events = &self->all->events;
    unsigned tasks = self->tasks;
    self->tasks = 0;
    if ((tasks & PEER_REFUSE) != 0 && self->state != PEER_OVER)
        peer_refuse(self, self->refusal, "");
    if ((tasks & PEER_DROP) != 0 && self->state != PEER_OVER)
        peer_end(self, 0);
    if ((tasks & PEER_HEARD) != 0 && self->state != PEER_OVER && self->spoke_ns != now_of(self) &&
        self->worker != WIRE_ANY_WORKER)
        events->alive(events->user, self);
    if ((tasks & PEER_PUMP) != 0 && self->state != PEER_OVER)
        outgoing_pump(&self->large, self->channel, released, self);
    if ((tasks & PEER_RESUME) != 0 && self->state != PEER_OVER && self->waiting) {
        self->waiting = false;
        peer_hear(self, true);
        channel_resume(self->channel);
    }
}

void peers_do_tasks(peers *all)
{
    while (all->tasks != NULL) {
        peer *self = all->tasks;
        all->tasks = self->next_task;
        self->listed = false;
        do_tasks(self);
    }
}

/* ---- the end ---- */

void peer_drop(peer *self, outgoing_tag tag)
{
    outgoing_drop(&self->large, self->channel, tag);
}

static void remove_from_list(peer *self)
{
    if (self->before != NULL)
        self->before->after = self->after;
    else
        self->all->first = self->after;
    if (self->after != NULL)
        self->after->before = self->before;
    self->all->count--;
}

/* Nobody finds it any more, and nothing is read by what still goes out. What the machine says when
 * it hears of it goes to others. */
static void end(peer *self, bool gently)
{
    peers *all = self->all;
    peer_state was = self->state;
    remove_from_list(self);
    if (was == PEER_NEW)
        newcomers_remove(all, self);
    for (outgoing_tag tag = OUTGOING_PARAMETERS; tag <= OUTGOING_DATA; tag++)
        peer_drop(self, tag);
    self->state = PEER_OVER;
    self->after = all->over;
    all->over = self;
    all->events.gone(all->events.user, self, was);
    if (gently)
        channel_close_gently(self->channel, FAREWELL_NS);
    else
        channel_close(self->channel);
    self->channel = NULL;
}

void peer_refuse(peer *self, wire_reason reason, const char *text)
{
    assert(self->state != PEER_OVER);
    wire_refused words = {.reason = reason};
    snprintf(words.text, sizeof(words.text), "%s",
             text[0] != '\0' ? text : wire_reason_text(reason));
    bool told = peer_say_refused(self, words.text);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (told)
        channel_send(self->channel, frame, wire_refused_encode(&words, frame));
    end(self, told);
}

void peer_end(peer *self, wire_bye bye)
{
    assert(self->state != PEER_OVER);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (bye != 0)
        channel_send(self->channel, frame, wire_bye_encode(bye, frame));
    end(self, bye != 0);
}

void peers_free_closed(peers *all)
{
    while (all->over != NULL) {
        peer *self = all->over;
        all->over = self->after;
        memory_release(&all->allocator, self->key);
        memory_release(&all->allocator, self->held);
        memory_release(&all->allocator, self);
    }
}

/* ---- what comes ---- */

static bool is_worker(const peer *self)
{
    return self->state == PEER_WELCOMED || self->state == PEER_READY || self->state == PEER_TURNING;
}

/* A whole frame; 0: what it says is not allowed here. */
typedef enum taken { NOT_HERE, GO_ON, STOP } taken;

static taken take_message_frame(peer *self, const uint8_t *body, size_t size)
{
    const peer_events *events = &self->all->events;
    tarry_message message;
    if ((self->state != PEER_READY && self->state != PEER_TURNING) ||
        !host_decode(body, size, &message))
        return NOT_HERE;
    if (message.type == TARRY_MESSAGE_PART && !events->shm_part(events->user, self, &message))
        return STOP;
    return events->message(events->user, self, &message) ? GO_ON : STOP;
}

static taken take_batch(peer *self, const wire_head *head, const uint8_t *body)
{
    const peer_events *events = &self->all->events;
    wire_batch batch;
    if ((self->state != PEER_READY && self->state != PEER_TURNING) ||
        wire_batch_decode(head, body, &batch) != TARRY_OK)
        return NOT_HERE;
    for (uint32_t i = 0; i < batch.count; i++) {
        tarry_message report;
        wire_batch_get(&batch, i, &report);
        if (!events->message(events->user, self, &report))
            return STOP;
    }
    return GO_ON;
}

static taken take_other_frame(peer *self, const wire_head *head, const uint8_t *body)
{
    const peer_events *events = &self->all->events;
    bool on;
    switch (head->kind) {
    case WIRE_HELLO: {
        wire_hello hello;
        if (self->state != PEER_NEW || wire_hello_decode(head, body, &hello) != TARRY_OK)
            return NOT_HERE;
        self->introduced = true;
        on = events->hello(events->user, self, &hello);
        break;
    }
    case WIRE_BATCH:
        return take_batch(self, head, body);
    case WIRE_KEY: {
        wire_key words;
        if (self->state != PEER_WELCOMED || wire_key_decode(head, body, &words) != TARRY_OK)
            return NOT_HERE;
        on = events->key(events->user, self, &words);
        break;
    }
    case WIRE_HEARTBEAT:
        if (self->state == PEER_NEW)
            return NOT_HERE;
        on = peer_count_frame(self, WIRE_HEARTBEAT);
        break;
    case WIRE_BYE: {
        wire_bye bye;
        if (self->state == PEER_NEW || wire_bye_decode(head, body, &bye) != TARRY_OK)
            return NOT_HERE;
        events->bye(events->user, self);
        peer_end(self, 0);
        on = false;
        break;
    }
    case WIRE_FETCH: {
        wire_fetch fetch;
        if (!is_worker(self) || wire_fetch_decode(head, body, &fetch) != TARRY_OK)
            return NOT_HERE;
        on = peer_count_frame(self, WIRE_FETCH) && events->fetch(events->user, self, &fetch);
        break;
    }
    case WIRE_SHARED: {
        wire_shared shared;
        if (!is_worker(self) || wire_shared_decode(head, body, &shared) != TARRY_OK)
            return NOT_HERE;
        on = peer_count_frame(self, WIRE_SHARED);
        if (on)
            events->shared(events->user, self, &shared);
        break;
    }
    case WIRE_READY: {
        wire_ready ready;
        if (!is_worker(self) || wire_ready_decode(head, body, &ready) != TARRY_OK)
            return NOT_HERE;
        on = peer_count_frame(self, WIRE_READY) && events->ready(events->user, self, &ready);
        break;
    }
    default:
        return NOT_HERE;
    }
    return on ? GO_ON : STOP;
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    peer *self = user;
    taken how = head->kind == WIRE_MESSAGE ? take_message_frame(self, body, head->length)
                                           : take_other_frame(self, head, body);
    if (how == NOT_HERE)
        peer_refuse(self, WIRE_REFUSED_FORMAT, "a frame that makes no sense here");
    return how == GO_ON;
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    peer *self = user;
    tarry_message message;
    if (head->kind == WIRE_MESSAGE && (self->state == PEER_READY || self->state == PEER_TURNING) &&
        host_decode(fixed, CODEC_HEADER_BYTES, &message) && message.type == TARRY_MESSAGE_PART)
        return self->all->events.begin_part(self->all->events.user, self, &message, bytes, place);
    peer_refuse(self, WIRE_REFUSED_FORMAT, "a large frame that makes no sense here");
    return CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    peer *self = user;
    tarry_message message;
    (void)head;
    bool good = host_decode(fixed, CODEC_HEADER_BYTES, &message);
    assert(good); /* as when it began */
    (void)good;
    return self->all->events.message(self->all->events.user, self, &message);
}

static void on_opened(void *user)
{
    peer *self = user;
    self->heard_ns = now_of(self);
    if (self->trusted)
        return;
    if (credential_peer(channel_ssl(self->channel), &self->identity) != TARRY_OK)
        peer_refuse(self, WIRE_REFUSED_IDENTITY, "");
}

static void on_heard(void *user)
{
    peer_hear(user, false);
}

static void on_drained(void *user)
{
    peer *self = user;
    self->drained = true;
}

static void on_ended(void *user, channel_end how)
{
    peer *self = user;
    if (self->state == PEER_NEW || how == CHANNEL_STUCK || how == CHANNEL_NOT_FRAMES)
        peer_say_refused(self, how == CHANNEL_PEER_CLOSED ? "closed before it said who it is"
                               : how == CHANNEL_STUCK     ? "does not take what is sent to it"
                                                          : channel_failure(self->channel));
    peer_end(self, 0);
}

/* ---- the beginning ---- */

static peer *make(peers *all)
{
    peer *self = memory_allocate(&all->allocator, 1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->all = all;
    self->state = PEER_NEW;
    self->worker = WIRE_ANY_WORKER;
    self->since_ns = self->heard_ns = self->sent_ns = now_of(self);
    return self;
}

static channel_handlers handlers_of(peer *self)
{
    return (channel_handlers){
        .user = self,
        .opened = on_opened,
        .heard = on_heard,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .drained = on_drained,
        .ended = on_ended,
    };
}

static void add_to_list(peer *self)
{
    peers *all = self->all;
    self->after = all->first;
    if (self->after != NULL)
        self->after->before = self;
    all->first = self;
    all->count++;
}

int peer_open(peers *all, int fd, bool member)
{
    SSL *ssl = NULL;
    bool trusted = member || all->credential == NULL;
    peer *self = make(all);
    if (self != NULL && !trusted)
        ssl = credential_open(all->credential);
    if (self == NULL || (!trusted && ssl == NULL)) {
        memory_release(&all->allocator, self);
        close(fd);
        return TARRY_ERROR_NO_MEMORY;
    }
    self->trusted = trusted;
    const channel_settings settings = {
        .most_waiting = all->most_waiting,
        .most_length = WIRE_SMALL_BYTES,
        .shared = all->read_buffer,
    };
    const channel_handlers handlers = handlers_of(self);
    newcomers_add(all, self);
    int error = channel_open(all->loop, fd, ssl, false, &settings, &handlers, &all->allocator,
                             &self->channel);
    if (error != TARRY_OK) {
        newcomers_remove(all, self);
        memory_release(&all->allocator, self);
        return error;
    }
    add_to_list(self);
    return TARRY_OK;
}

void peer_send_large(peer *self, const outgoing_stream *stream)
{
    outgoing_add(&self->large, stream);
    peer_defer(self, PEER_PUMP);
}

bool peer_is_revoked(const peer *self)
{
    if (self->trusted || self->state == PEER_OVER)
        return false;
    /* While it is not there yet, it is the handshake that will look at the list. */
    X509 *certificate = channel_certificate(self->channel);
    return certificate != NULL && credential_is_revoked(self->all->credential, certificate);
}
