/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/peer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/rand.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tarry/tcp.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "protocol/wire/wire.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/host/host.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/bucket.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/server/tcp_server.h"
#include "runtime/tcp/trust/credential.h"

/* ---- what is large ---- */

/* Of BLOB frames; of no PARAMETERS. */
static wire_blob_kind outgoing_kind_of(outgoing_tag tag)
{
    return tag == OUTGOING_PLAN  ? WIRE_BLOB_PLAN
           : tag == OUTGOING_JOB ? WIRE_BLOB_JOB
                                 : WIRE_BLOB_DATA;
}

_Static_assert((int)VIEW_PIECE == (int)WIRE_VIEW_NUMBERS, "a piece is a frame");

/* False: too many wait. */
static bool outgoing_add(outgoing *self, const outgoing_stream *stream)
{
    if (stream->from != NULL)
        view_reader_begin(&self->reader, stream->round);
    if (stream->from != NULL && view_reader_is_done(&self->reader))
        return true; /* it has it */
    if (self->count == OUTGOING_STREAMS)
        return false;
    self->streams[(self->first + self->count++) % OUTGOING_STREAMS] = *stream;
    return true;
}

static size_t outgoing_encode_prefix(const outgoing_stream *stream, size_t size, uint8_t *prefix)
{
    if (stream->tag == OUTGOING_PARAMETERS)
        return wire_encode(WIRE_PARAMETERS,
                           &(wire_parameters){
                               .round = stream->round,
                               .first = stream->sent / sizeof(float),
                               .count = size / sizeof(float),
                           },
                           prefix);
    return wire_encode(WIRE_BLOB,
                       &(wire_blob){
                           .kind = outgoing_kind_of(stream->tag),
                           .index = stream->index,
                           .total = stream->size,
                           .first = stream->sent,
                           .count = size,
                       },
                       prefix);
}

static void outgoing_drop_first(outgoing *self)
{
    self->first = (self->first + 1) % OUTGOING_STREAMS;
    self->count--;
}

/* The next piece of the stream: its frame up to its bytes, and these. */
static size_t outgoing_next_piece(outgoing *self, outgoing_stream *stream, uint8_t *prefix,
                                  channel_load *load)
{
    view_piece piece;
    const uint8_t *bytes;
    if (stream->from != NULL) {
        bool there = view_reader_next(&self->reader, stream->from, &piece, &bytes);
        assert(there); /* it would be sent already */
        (void)there;
        load->bytes = bytes;
        load->size = view_piece_bytes(&piece);
        return wire_encode(WIRE_VIEW, &piece, prefix);
    }
    uint64_t left = stream->size - stream->sent;
    load->size = left < OUTGOING_PIECE ? (size_t)left : OUTGOING_PIECE;
    load->bytes = stream->bytes + stream->sent;
    size_t fixed = outgoing_encode_prefix(stream, load->size, prefix);
    stream->sent += load->size;
    return fixed;
}

static bool outgoing_is_sent(const outgoing *self, const outgoing_stream *stream)
{
    return stream->from != NULL ? view_reader_is_done(&self->reader) : stream->sent == stream->size;
}

/* Fills the channel's window; `released` and `owner` as in channel_load. False: the channel ends.
 */
static bool outgoing_pump(outgoing *self, channel *to, void (*released)(void *user, void *owner),
                          void *owner)
{
    while (self->count > 0 && channel_loads(to) < OUTGOING_WINDOW) {
        outgoing_stream *stream = &self->streams[self->first];
        uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        channel_load load = {.tag = stream->tag, .released = released, .owner = owner};
        size_t fixed = outgoing_next_piece(self, stream, prefix, &load);
        if (load.size == 0) { /* a chunk without samples */
            if (!channel_send(to, prefix, fixed))
                return false;
            outgoing_drop_first(self);
            continue;
        }
        if (!channel_send_load(to, prefix, fixed, &load))
            return false;
        if (outgoing_is_sent(self, stream))
            outgoing_drop_first(self);
    }
    return true;
}

/* Nothing of the tag is sent any more, nor read once this returns. False as above. */
static bool outgoing_drop(outgoing *self, channel *to, outgoing_tag tag)
{
    uint32_t count = self->count;
    self->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        outgoing_stream stream = self->streams[(self->first + i) % OUTGOING_STREAMS];
        if (stream.tag != tag)
            self->streams[(self->first + self->count++) % OUTGOING_STREAMS] = stream;
    }
    size_t loads = channel_loads(to);
    bool begun = channel_drop(to, tag);
    if (tag == OUTGOING_PARAMETERS && self->reader.active)
        view_reader_end(&self->reader, channel_loads(to) < loads);
    return !begun || channel_detach(to, tag);
}

bool outgoing_has(const outgoing *self, outgoing_tag tag)
{
    for (uint32_t i = 0; i < self->count; i++)
        if (self->streams[(self->first + i) % OUTGOING_STREAMS].tag == tag)
            return true;
    return false;
}

/* How much a peer may say. */

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

/* another frame */
static bool peer_count_frame(peer *self, wire_kind kind)
{
    peer_limits *limits = &self->limits;
    bool within = true;
    if (kind == WIRE_READY)
        within = take_one(&limits->answers);
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

/* ---- newcomers ---- */

#define TELL_NS UINT64_C(1000000000)

enum {
    NEWCOMERS_MORE = 512,
    FILES_FRACTION = 4, /* the others are for workers, checkpoints, shared memory */
    LEAST = 4,
    WORDS_MORE = 64, /* refusals at a time, besides one per worker; */
    WORDS_BACK = 16, /* a second */
    /* In a turn of the loop, by all listening, so that each is heard before it goes. */
    DISPLACED_FRACTION = 2,
};

typedef enum standing {
    STRANGER, /* has said nothing, or nothing that had an answer */
    ANSWERED, /* in the middle of a handshake */
    VERIFIED,
} standing;

void newcomers_init(newcomers *self, uint32_t workers, uint32_t wanted, uint32_t connections)
{
    struct rlimit files;
    uint64_t most = wanted > 0 ? wanted : (uint64_t)workers + NEWCOMERS_MORE;
    if (most > connections)
        most = connections;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
        most > files.rlim_cur / FILES_FRACTION)
        most = files.rlim_cur / FILES_FRACTION;
    self->most = most > LEAST ? (uint32_t)most : LEAST;
    self->workers = workers;
}

void newcomers_remove(peers *all, peer *who)
{
    newcomers *self = &all->newcomers;
    assert(self->count > 0);
    if (who->elder != NULL)
        who->elder->younger = who->younger;
    else
        self->oldest = who->younger;
    if (who->younger != NULL)
        who->younger->elder = who->elder;
    else
        self->youngest = who->elder;
    who->elder = who->younger = NULL;
    self->count--;
}

/* How much is known of it: a handshake that has got on speaks for it. */
static standing standing_of(const peer *who)
{
    if (who->trusted)
        return VERIFIED;
    const SSL *ssl = channel_ssl(who->channel);
    OSSL_HANDSHAKE_STATE state = SSL_get_state(ssl);
    if (state == TLS_ST_BEFORE || state == TLS_ST_SR_CLNT_HELLO)
        return STRANGER;
    return SSL_is_init_finished(ssl) ? VERIFIED : ANSWERED;
}

/* Ends one, as said above. False: there is none. */
static bool newcomers_displace(peers *all)
{
    newcomers *self = &all->newcomers;
    peer *first = NULL;
    standing least = VERIFIED;
    for (peer *who = self->oldest; who != NULL; who = who->younger) {
        standing now = standing_of(who);
        if (first == NULL || now < least) {
            first = who;
            least = now;
        }
        if (least == STRANGER)
            break;
    }
    if (first == NULL)
        return false;
    self->displaced++;
    peer_end(first, 0);
    return true;
}

/* Makes room for one more, and counts it. */
static void newcomers_add(peers *all, peer *who)
{
    newcomers *self = &all->newcomers;
    while (self->count >= self->most)
        newcomers_displace(all);
    who->elder = self->youngest;
    if (who->elder != NULL)
        who->elder->younger = who;
    else
        self->oldest = who;
    self->youngest = who;
    self->count++;
}

bool newcomers_may_come(const newcomers *self, uint32_t displaced, uint32_t listening)
{
    uint32_t each = self->count / DISPLACED_FRACTION / listening;
    return self->displaced - displaced < (each > 0 ? each : 1);
}

static void tell(const peers *all, const char *from, const char *why)
{
    all->events.turned_away(all->events.user, WIRE_ANY_WORKER, from, why);
}

/* One of them, from that address, is turned away; introduced: it has said HELLO. False: there were
 * too many lately, this one is only counted, and shall be ended without a word. */
static bool newcomers_refused(peers *all, bool introduced, const char *from, const char *why)
{
    newcomers *self = &all->newcomers;
    const bucket_size words = {WORDS_MORE + (double)self->workers, WORDS_BACK};
    /* A crowd of strangers does not leave a member without an answer to what it has said. */
    if (!bucket_take(&self->words[introduced], words, 1, all->events.now(all->events.user))) {
        self->unsaid++;
        return false;
    }
    tell(all, from, why);
    return true;
}

void newcomers_tick(peers *all, uint64_t now)
{
    newcomers *self = &all->newcomers;
    char text[128];
    if (now - self->told_ns < TELL_NS || self->displaced + self->unsaid == 0)
        return;
    self->told_ns = now;
    if (self->displaced > 0) {
        snprintf(text, sizeof(text),
                 "%" PRIu32 " that had not said who they are made room for others",
                 self->displaced);
        tell(all, "", text);
    }
    if (self->unsaid > 0) {
        snprintf(text, sizeof(text), "%" PRIu32 " more were turned away", self->unsaid);
        tell(all, "", text);
    }
    self->displaced = self->unsaid = 0;
}

/* ---- peer ---- */

#define FAREWELL_NS UINT64_C(1000000000) /* for last words */

/* Says why it is turned away. False: it is to go without a word. */
static bool peer_say_refused(peer *self, const char *why)
{
    const peer_events *events = &self->all->events;
    if (self->state == PEER_NEW)
        return newcomers_refused(self->all, self->introduced, channel_peer(self->channel), why);
    events->turned_away(events->user, self->worker, channel_peer(self->channel), why);
    return true;
}

uint64_t peer_received(const peer *self)
{
    return channel_received(self->channel);
}

uint64_t peer_sent(const peer *self)
{
    return channel_sent(self->channel);
}

/* Bytes came, or (`excused`) may have: nothing was read from it. */
static void peer_hear(peer *self, bool excused)
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
        channel_send(self->channel, frame, wire_encode(WIRE_REFUSED, &words, frame));
    end(self, told);
}

void peer_end(peer *self, wire_bye bye)
{
    assert(self->state != PEER_OVER);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (bye != 0)
        channel_send(self->channel, frame, wire_encode(WIRE_BYE, &bye, frame));
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
    return self->state == PEER_WELCOMED || peer_is_there(self);
}

/* A whole frame; 0: what it says is not allowed here. */
typedef enum taken { NOT_HERE, GO_ON, STOP } taken;

static taken take_message_frame(peer *self, const uint8_t *body, size_t size)
{
    const peer_events *events = &self->all->events;
    tarry_message message;
    if (!peer_is_there(self) || !host_decode(body, size, &message))
        return NOT_HERE;
    if (message.type == TARRY_MESSAGE_PART) {
        peer_refuse(self, WIRE_REFUSED_FORMAT, "a coded part without its numbers");
        return STOP;
    }
    return events->message(events->user, self, &message) ? GO_ON : STOP;
}

static taken take_batch(peer *self, const wire_head *head, const uint8_t *body)
{
    const peer_events *events = &self->all->events;
    wire_batch batch;
    if (!peer_is_there(self) || wire_batch_decode(head, body, &batch) != TARRY_OK)
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
    wire_any read;
    bool on;
    if (head->kind == WIRE_BATCH)
        return take_batch(self, head, body);
    if (wire_decode(head, body, &read) != TARRY_OK)
        return NOT_HERE;
    switch (head->kind) {
    case WIRE_HELLO:
        if (self->state != PEER_NEW)
            return NOT_HERE;
        self->introduced = true;
        on = events->hello(events->user, self, &read.hello);
        break;
    case WIRE_KEY:
        if (self->state != PEER_WELCOMED)
            return NOT_HERE;
        on = events->key(events->user, self, &read.key);
        break;
    case WIRE_HEARTBEAT:
        if (self->state == PEER_NEW)
            return NOT_HERE;
        on = peer_count_frame(self, WIRE_HEARTBEAT);
        break;
    case WIRE_BYE:
        if (self->state == PEER_NEW)
            return NOT_HERE;
        events->bye(events->user, self);
        peer_end(self, 0);
        on = false;
        break;
    case WIRE_FETCH:
        if (!is_worker(self))
            return NOT_HERE;
        on = peer_count_frame(self, WIRE_FETCH) && events->fetch(events->user, self, &read.fetch);
        break;
    case WIRE_READY:
        if (!is_worker(self))
            return NOT_HERE;
        on = peer_count_frame(self, WIRE_READY) && events->ready(events->user, self, &read.ready);
        break;
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
    if (how == NOT_HERE) {
        char text[WIRE_TEXT_BYTES + 1];
        bool malformed = wire_explain(head, body, text, sizeof(text));
        peer_refuse(self, WIRE_REFUSED_FORMAT,
                    malformed ? text : "a frame that makes no sense here");
    }
    return how == GO_ON;
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    peer *self = user;
    tarry_message message;
    if (head->kind == WIRE_MESSAGE && peer_is_there(self) &&
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

/* What a peer goes through as time passes. */

#define HELLO_NS UINT64_C(10000000000) /* until HELLO has come */

enum {
    HEARTBEAT_FRACTION = 8, /* of the silence that counts as absence */
};

/* A viewer that doesn't take what waits: for how long is what counts. */
static bool takes_nothing(const peer *self)
{
    return self->state == PEER_VIEWER && !self->drained;
}

void peer_beat(peer *self, uint64_t now)
{
    if (self->state == PEER_NEW || self->state == PEER_OVER || takes_nothing(self))
        return;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    self->sent_ns = now;
    channel_send(self->channel, frame, wire_encode(WIRE_HEARTBEAT, NULL, frame));
}

static void beat_if_due(peer *self, uint64_t now)
{
    uint64_t sent = peer_sent(self);
    if (sent != self->sent_bytes) {
        self->sent_bytes = sent;
        self->sent_ns = now;
    } else if (now - self->sent_ns >= self->all->silence_ns / HEARTBEAT_FRACTION) {
        peer_beat(self, now);
    }
}

void peer_tick(peer *self, uint64_t now)
{
    const peer_events *events = &self->all->events;
    uint64_t silence = self->all->silence_ns;
    if (self->waiting)
        peer_hear(self, true);
    uint64_t quiet = now - self->heard_ns;
    switch (self->state) {
    case PEER_NEW:
        if (now - self->since_ns > HELLO_NS) {
            peer_say_refused(self, "did not say who it is in time");
            peer_end(self, 0);
        }
        return;
    case PEER_WELCOMED:
        if (quiet > HELLO_NS && quiet / 2 > silence) {
            peer_say_refused(self, "fell silent before it was ready");
            peer_end(self, 0);
            return;
        }
        break;
    case PEER_READY:
    case PEER_TURNING: /* during a round it is the machine that looks */
        if (quiet / 2 > silence && events->silent(events->user, self)) {
            peer_end(self, 0);
            return;
        }
        break;
    case PEER_VIEWER:
        if (takes_nothing(self) && now - self->sent_ns > HELLO_NS) {
            peer_say_refused(self, "does not take what is sent to it");
            peer_end(self, 0);
            return;
        }
        break;
    case PEER_OVER:
        return;
    }
    beat_if_due(self, now);
}

/* ---- tcp server listen ---- */

enum {
    ACCEPTED_PER_TURN = 64,
    /* Left to what else the process has to open, whoever connects: the revocation list, a
     * checkpoint. Of a low limit a quarter is. */
    SPARE_DESCRIPTORS = 32,
};

/* Descriptors are given out from the lowest: this one, or a later one, is not to be a peer's. */
static rlim_t spare_from(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return RLIM_INFINITY;
    rlim_t quarter = limit.rlim_cur / 4;
    return limit.rlim_cur - (quarter < SPARE_DESCRIPTORS ? quarter : SPARE_DESCRIPTORS);
}

static void turn_away(tarry_tcp_server *server, int fd, const char *from, const char *why)
{
    newcomers_refused(&server->peers, false, from, why);
    close(fd);
}

/* Whether there is room for one more; *fd may be another descriptor then. */
static bool make_room(tarry_tcp_server *server, int *fd)
{
    bool spare = (rlim_t)*fd >= spare_from();
    if (!spare && server->peers.count < server->settings.most_connections)
        return true;
    if (!newcomers_displace(&server->peers))
        return false;
    int freed = spare ? fcntl(*fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (freed >= 0) {
        close(*fd);
        *fd = freed;
    }
    return true;
}

static void take(const listener *at, int fd, const address *from)
{
    tarry_tcp_server *server = at->server;
    char text[ADDRESS_TEXT];
    address_text(from, text);
    if (!make_room(server, &fd))
        turn_away(server, fd, text, "too many connections");
    else if (at->local && !address_is_own_user(fd))
        turn_away(server, fd, at->text, "another user");
    else if (peer_open(&server->peers, fd, at->file) != TARRY_OK)
        newcomers_refused(&server->peers, false, text, "no memory for it");
}

/* True if accept4 failed because descriptors or memory are short. */
static bool is_short(void)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    const listener *at = handle->data;
    tarry_tcp_server *server = at->server;
    uint32_t displaced = server->peers.newcomers.displaced;
    for (uint32_t i = 0;
         i < ACCEPTED_PER_TURN &&
         newcomers_may_come(&server->peers.newcomers, displaced, server->listener_count);
         i++) {
        address from = {.size = sizeof(from.socket)};
        int fd = accept4(at->fd, (struct sockaddr *)&from.socket, &from.size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take(at, fd, &from);
            continue;
        }
        if (is_short()) {
            if (newcomers_displace(&server->peers))
                continue;
            tcp_server_accept(server, false); /* until the next tick */
            return;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* ---- the listeners ---- */

static int check_listen(const tarry_tcp_server *server, const char *text, const address *at,
                        tarry_diagnostic *diagnostic)
{
    const tarry_tcp_security *security = &server->settings.security;
    int error = address_check_listen(at, text, security->insecure, security->force,
                                     server->credential != NULL, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (server->listener_count == ADDRESS_MOST)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: more than %d addresses to listen on",
                        text, ADDRESS_MOST);
    return TARRY_OK;
}

static int listen_at(tarry_tcp_server *server, const char *text, const address *at,
                     tarry_diagnostic *diagnostic)
{
    int error = check_listen(server, text, at, diagnostic);
    if (error != TARRY_OK)
        return error;
    listener *one = &server->listeners[server->listener_count];
    *one = (listener){.server = server, .local = address_is_unix(at), .file = address_is_file(at)};
    error = address_listen(at, &one->fd, diagnostic);
    if (error != TARRY_OK)
        return error;
    server->listener_count++;
    address bound;
    error = address_of(one->fd, &bound, diagnostic);
    if (error == TARRY_OK)
        address_text(one->local ? at : &bound, one->text);
    return error;
}

/* Listens at all addresses that a text stands for: a kind of them that this machine has not is left
 * out if there is another. */
static int listen_at_all(tarry_tcp_server *server, const char *text, tarry_diagnostic *diagnostic)
{
    address found[ADDRESS_MOST];
    uint32_t count, before = server->listener_count;
    int error = address_resolve(text, true, found, &count, diagnostic);
    if (error != TARRY_OK)
        return error;
    for (uint32_t at = 0; at < count; at++) {
        error = listen_at(server, text, &found[at], diagnostic);
        if (error != TARRY_OK &&
            (error != TARRY_ERROR_SYSTEM || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)))
            return error;
    }
    return server->listener_count > before ? TARRY_OK : error;
}

int tcp_server_listen(tarry_tcp_server *server, tarry_diagnostic *diagnostic)
{
    for (uint32_t i = 0; i < server->settings.listen_count; i++) {
        int error = listen_at_all(server, server->settings.listen[i], diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    server->address_count = server->listener_count;
    return TARRY_OK;
}

int tcp_server_open_listeners(tarry_tcp_server *server)
{
    for (uint32_t i = 0; i < server->listener_count; i++) {
        listener *one = &server->listeners[i];
        if (uv_poll_init(&server->loop, &one->poll, one->fd) != 0)
            return TARRY_ERROR_SYSTEM;
        one->polled = true;
        one->poll.data = one;
    }
    return TARRY_OK;
}

void tcp_server_accept(tarry_tcp_server *server, bool accepting)
{
    if (!server->open || server->accepting == accepting)
        return;
    server->accepting = accepting;
    for (uint32_t i = 0; i < server->listener_count; i++)
        if (accepting)
            uv_poll_start(&server->listeners[i].poll, UV_READABLE, on_readable);
        else
            uv_poll_stop(&server->listeners[i].poll);
}

static void on_listener_closed(uv_handle_t *handle)
{
    close(((listener *)handle->data)->fd);
}

void tcp_server_close_listeners(tarry_tcp_server *server)
{
    for (uint32_t i = 0; i < server->listener_count; i++) {
        listener *one = &server->listeners[i];
        if (one->file)
            unlink(one->text + strlen("unix:"));
        if (one->polled)
            uv_close((uv_handle_t *)&one->poll, on_listener_closed);
        else
            close(one->fd);
    }
    server->listener_count = 0;
}
