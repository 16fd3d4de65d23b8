/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/session.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/clock.h"

#define NS_PER_MS UINT64_C(1000000)
#define FAREWELL_NS UINT64_C(1000000000) /* for last words */

enum {
    TICK_FRACTION = 16, /* of the silence limit */
    LEAST_TICK_MS = 5,
    MOST_TICK_MS = 250,
    LATE_TICKS = 4,
    PROBE_SECONDS = 5,
    PROBES = 3,
};

typedef enum session_stage {
    SESSION_APART,    /* an attempt begins when the timer says so, or the name is resolved */
    SESSION_GREETING, /* from dialling until session_up */
    SESSION_UP,
    SESSION_OVER,
} session_stage;

struct session {
    uv_loop_t *loop;
    uv_timer_t timer; /* APART: of the next attempt; GREETING, UP: ticks */
    uv_work_t work;   /* the resolver */
    tarry_allocator allocator;
    session_settings settings;
    session_handlers handlers;
    session_stage stage;
    bool accepted;
    bool resolving; /* another thread is at it */
    bool closed, timer_closed;

    address found[ADDRESS_MOST];
    uint32_t count, next;
    int resolved;         /* the resolver's error, */
    tarry_diagnostic why; /* and words; later why the last attempt failed */

    channel *channel;
    address local;
    uint64_t silence_ns;
    uint64_t since_ns; /* when it was dialled, or came up */
    uint64_t heard_ns;
    uint64_t sent_ns, sent_bytes; /* when bytes went out last, and how many had by then */
    uint64_t ticked_ns, tick_ms;
    bool spared; /* the tick before was late, and judged nobody */
};

static void session_dial_next(session *self);
static void session_attempt(session *self);
static void on_timer(uv_timer_t *timer);

channel *session_channel(const session *self)
{
    return self->channel;
}

const address *session_local(const session *self)
{
    return &self->local;
}

/* ---- the end of a connection, and of all ---- */

static void session_finish(session *self, int error)
{
    self->stage = SESSION_OVER;
    uv_timer_stop(&self->timer);
    self->handlers.ended(self->handlers.user, error, self->why.text);
}

/* Tells the owner, and lets go of the connection. False: the owner has closed the session. */
static bool session_drop(session *self)
{
    const session_handlers *handlers = &self->handlers;
    uv_timer_stop(&self->timer);
    if (handlers->lost != NULL && self->channel != NULL)
        handlers->lost(handlers->user, self->stage == SESSION_UP, self->why.text);
    if (self->closed)
        return false;
    channel_close(self->channel);
    self->channel = NULL;
    return true;
}

static void session_back_off(session *self)
{
    self->stage = SESSION_APART;
    if (self->settings.wait == NULL) {
        session_finish(self, TARRY_ERROR_SYSTEM);
        return;
    }
    uint64_t wait = backoff_next_ns(self->settings.wait);
    bool again = self->handlers.waits(self->handlers.user, self->why.text, &wait);
    if (self->closed)
        return;
    if (!again) {
        self->stage = SESSION_OVER;
        return;
    }
    uv_update_time(self->loop);
    uv_timer_start(&self->timer, on_timer, (wait + NS_PER_MS - 1) / NS_PER_MS, 0);
}

/* `why` says it. Owners put the name in front of it, so it is taken off. */
static void session_lost(session *self)
{
    bool greeting = self->stage == SESSION_GREETING;
    if (self->stage == SESSION_UP && self->settings.wait != NULL)
        backoff_lost(self->settings.wait, clock_now_ns() - self->since_ns);
    if (!session_drop(self))
        return;
    if (greeting && self->next < self->count)
        session_dial_next(self);
    else
        session_back_off(self);
}

static void session_explain(session *self, const char *text)
{
    const char *name = self->settings.connect;
    size_t length = name != NULL ? strlen(name) : 0;
    if (length > 0 && strncmp(text, name, length) == 0 && strncmp(text + length, ": ", 2) == 0)
        text += length + 2;
    tarry_diagnostic why;
    snprintf(why.text, sizeof(why.text), "%s", text);
    self->why = why; /* `text` may have been in it */
}

bool session_lose(session *self, const char *format, ...)
{
    if (self->channel == NULL)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(self->why.text, sizeof(self->why.text), format, arguments);
    va_end(arguments);
    session_lost(self);
    return false;
}

bool session_misfit(session *self)
{
    return session_lose(self, "%s",
                        self->stage == SESSION_UP || self->accepted
                            ? "what came is not of this protocol"
                            : "what answers does not speak this protocol");
}

void session_end(session *self, int error, const char *text)
{
    session_explain(self, text);
    if (session_drop(self))
        session_finish(self, error);
}

static void session_end_revoked(session *self)
{
    char name[CREDENTIAL_NAME_SIZE] = "this member", text[TARRY_DIAGNOSTIC_SIZE];
    if (self->settings.credential != NULL)
        identity_name(credential_own(self->settings.credential), name);
    snprintf(text, sizeof(text),
             "refused: the certificate of %s is revoked; tarry keys add makes another one, where "
             "the authority is",
             name);
    session_end(self, TARRY_ERROR_STATE, text);
}

/* ---- frames ---- */

/* Other addresses of the name are of the same server, which would say the same. */
static void session_take_refused(session *self, const wire_refused *refused)
{
    const session_handlers *handlers = &self->handlers;
    if (refused->reason == WIRE_REFUSED_REVOKED) {
        session_end_revoked(self);
        return;
    }
    bool again = handlers->refused != NULL ? handlers->refused(handlers->user, refused)
                                           : wire_reason_passes(refused->reason);
    char text[TARRY_DIAGNOSTIC_SIZE];
    snprintf(text, sizeof(text), "refused: %s", refused->text);
    self->next = self->count;
    if (again)
        session_lose(self, "%s", text);
    else
        session_end(self, TARRY_ERROR_STATE, text);
}

static void session_take_bye(session *self, wire_bye bye)
{
    if (bye == WIRE_BYE_DONE)
        session_end(self, TARRY_OK, "the run is over");
    else
        session_lose(self, "the server has stopped, to be resumed");
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    session *self = user;
    const channel *its = self->channel;
    bool up = self->stage == SESSION_UP, good = true;
    wire_refused refused;
    wire_bye bye;
    if (head->kind == WIRE_REFUSED && wire_decode(head, body, &refused) == TARRY_OK)
        session_take_refused(self, &refused);
    else if (head->kind == WIRE_BYE && up && !self->settings.between &&
             wire_decode(head, body, &bye) == TARRY_OK)
        session_take_bye(self, bye);
    else if (head->kind != WIRE_HEARTBEAT || !up)
        good = self->handlers.frame(self->handlers.user, head, body);
    return good && self->channel == its;
}

static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    session *self = user;
    return self->handlers.begin(self->handlers.user, head, fixed, bytes, place);
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    session *self = user;
    const channel *its = self->channel;
    return self->handlers.complete(self->handlers.user, head, fixed) && self->channel == its;
}

static void on_opened(void *user)
{
    session *self = user;
    self->handlers.greet(self->handlers.user);
}

static void on_heard(void *user)
{
    session *self = user;
    self->heard_ns = clock_now_ns();
}

static void on_ended(void *user, channel_end how)
{
    session *self = user;
    const channel *ended = self->channel;
    bool greeting = self->stage == SESSION_GREETING;
    /* A server with credentials has nothing to say to plain text, and need not have read all. */
    bool mute = (how == CHANNEL_PEER_CLOSED || how == CHANNEL_BROKEN) && greeting &&
                !self->accepted && self->settings.credential == NULL && !channel_is_unix(ended) &&
                channel_sent(ended) > 0;
    if (how == CHANNEL_REVOKED)
        session_end_revoked(self);
    else if (how == CHANNEL_NOT_FRAMES && greeting)
        session_misfit(self);
    else
        session_lose(self, "%s%s", channel_failure(ended),
                     mute ? " (does it want credentials?)" : "");
}

/* ---- the beginning of a connection ---- */

static void session_set_tick(session *self, uint64_t tick_ms)
{
    self->tick_ms = tick_ms;
    self->ticked_ns = clock_now_ns();
    self->spared = false;
    uv_update_time(self->loop);
    uv_timer_start(&self->timer, on_timer, tick_ms, tick_ms);
}

/* A machine or network that is gone is noticed after PROBES + 1 times PROBE_SECONDS. */
static void session_probe(int fd)
{
    const int on = 1, seconds = PROBE_SECONDS, probes = PROBES;
    const unsigned gone_ms = (PROBES + 1) * PROBE_SECONDS * 1000U;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone_ms, sizeof(gone_ms));
}

/* Takes over the socket. Errors: NO_MEMORY, SYSTEM. */
static int session_open_channel(session *self, int fd, bool plain)
{
    const session_settings *settings = &self->settings;
    const channel_handlers handlers = {
        .user = self,
        .opened = on_opened,
        .heard = on_heard,
        .frame = on_frame,
        .begin = on_begin,
        .complete = on_complete,
        .ended = on_ended,
    };
    SSL *ssl = NULL;
    if (!plain) {
        ssl = settings->between ? credential_open_between(settings->credential, self->accepted)
                                : credential_open(settings->credential);
        if (ssl == NULL) {
            close(fd);
            return TARRY_ERROR_NO_MEMORY;
        }
    }
    if (address_of(fd, &self->local, NULL) != TARRY_OK)
        self->local = (address){0};
    int error = channel_open(self->loop, fd, ssl, !self->accepted, &settings->channel, &handlers,
                             &self->allocator, &self->channel);
    if (error != TARRY_OK)
        return error;
    if (settings->probed)
        session_probe(fd);
    /* What the system refuses of this is done without. */
    if (settings->unsent_bytes > 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &settings->unsent_bytes,
                   sizeof(settings->unsent_bytes));
    self->stage = SESSION_GREETING;
    self->since_ns = self->heard_ns = clock_now_ns();
    session_set_tick(self, MOST_TICK_MS);
    return TARRY_OK;
}

/* False: `why` says why not. */
static bool session_dial(session *self, const address *to)
{
    tarry_diagnostic why = {""};
    int fd;
    int error = address_connect(to, &fd, &why);
    if (error == TARRY_OK && address_is_unix(to) && (geteuid() != 0 || !address_is_file(to)) &&
        !address_is_own_user(fd)) {
        close(fd);
        error = diagnose(&why, TARRY_ERROR_SYSTEM, "another user's socket");
    } else if (error == TARRY_OK) {
        error = session_open_channel(self, fd,
                                     address_is_file(to) || self->settings.credential == NULL);
        if (error != TARRY_OK)
            diagnose(&why, error, "%s", tarry_error_text(error));
    }
    if (error != TARRY_OK)
        session_explain(self, why.text);
    return error == TARRY_OK;
}

static void session_dial_next(session *self)
{
    while (self->next < self->count)
        if (session_dial(self, &self->found[self->next++]))
            return;
    session_back_off(self);
}

/* ---- the resolver, in a thread of its own ---- */

/* With a credential, or in plain text as the settings allow. */
static void session_keep_allowed(session *self)
{
    const session_settings *settings = &self->settings;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        const address *to = &self->found[i];
        if (address_is_file(to) || settings->credential != NULL ||
            (settings->insecure && (settings->force || address_is_loopback(to))))
            self->found[kept++] = *to;
    }
    self->count = kept;
}

static void on_resolve(uv_work_t *work)
{
    session *self = work->data;
    self->resolved =
        address_resolve(self->settings.connect, false, self->found, &self->count, &self->why);
}

static void session_free_closed(session *self)
{
    if (!self->timer_closed || self->resolving)
        return;
    const session_handlers handlers = self->handlers;
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self);
    if (handlers.freed != NULL)
        handlers.freed(handlers.user);
}

static void on_resolved(uv_work_t *work, int status)
{
    session *self = work->data;
    self->resolving = false;
    if (self->closed) {
        session_free_closed(self);
        return;
    }
    self->next = 0;
    if (status != 0 || self->resolved != TARRY_OK) {
        session_explain(self, status != 0 ? uv_strerror(status) : self->why.text);
        self->count = 0;
        session_back_off(self);
        return;
    }
    session_keep_allowed(self);
    if (self->count > 0)
        session_dial_next(self);
    else
        session_end(self, TARRY_ERROR_ARGUMENT,
                    self->settings.insecure ? "plain text is for loopback addresses and Unix "
                                              "sockets, unless it is forced"
                                            : "needs credentials");
}

static void session_attempt(session *self)
{
    self->next = 0;
    if (self->settings.connect == NULL) {
        session_dial_next(self);
        return;
    }
    int status = uv_queue_work(self->loop, &self->work, on_resolve, on_resolved);
    self->resolving = status == 0;
    if (self->resolving)
        return;
    session_explain(self, uv_strerror(status));
    session_back_off(self);
}

/* ---- time ---- */

static void session_beat(session *self, uint64_t now)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    self->sent_ns = now;
    channel_send(self->channel, frame, wire_encode(WIRE_HEARTBEAT, NULL, frame));
}

static void session_beat_if_due(session *self, uint64_t now)
{
    uint64_t sent = channel_sent(self->channel);
    if (sent != self->sent_bytes) {
        self->sent_bytes = sent;
        self->sent_ns = now;
    } else if (now - self->sent_ns >= self->silence_ns / SESSION_HEARTBEAT_FRACTION) {
        session_beat(self, now);
    }
}

/* A process that was itself held up hears what has come in meanwhile before it judges the other
 * side, but not twice in a row: one that is always late still finds it silent. The other side hears
 * of it at once. */
static void session_tick(session *self, uint64_t now)
{
    bool late = !self->spared && now - self->ticked_ns > LATE_TICKS * self->tick_ms * NS_PER_MS;
    bool up = self->stage == SESSION_UP;
    self->spared = late;
    self->ticked_ns = now;
    if (channel_is_waiting(self->channel))
        self->heard_ns = now; /* nothing is read of it */
    if (late && up)
        session_beat(self, now);
    else if (up && now > self->heard_ns && now - self->heard_ns > self->silence_ns)
        session_lose(self, "nothing came for %.3g s", (double)(now - self->heard_ns) / 1e9);
    else if (up)
        session_beat_if_due(self, now);
    else if (!late && now - self->since_ns > self->settings.greeting_ns)
        session_lose(self, "no answer in time");
}

static void on_timer(uv_timer_t *timer)
{
    session *self = timer->data;
    if (self->stage == SESSION_APART)
        session_attempt(self);
    else
        session_tick(self, clock_now_ns());
}

void session_up(session *self, uint64_t silence_ns)
{
    uint64_t tick = silence_ns / TICK_FRACTION / NS_PER_MS;
    self->stage = SESSION_UP;
    self->silence_ns = silence_ns;
    self->since_ns = self->heard_ns = self->sent_ns = clock_now_ns();
    self->sent_bytes = channel_sent(self->channel);
    session_set_tick(self, tick < LEAST_TICK_MS  ? LEAST_TICK_MS
                           : tick > MOST_TICK_MS ? MOST_TICK_MS
                                                 : tick);
}

/* ---- its beginning and its end ---- */

static session *session_make(uv_loop_t *loop, const session_settings *settings,
                             const session_handlers *handlers)
{
    session *self = memory_allocate(settings->allocator, 1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->loop = loop;
    self->allocator = memory_allocator(settings->allocator);
    self->settings = *settings;
    self->handlers = *handlers;
    uv_timer_init(loop, &self->timer);
    self->timer.data = self->work.data = self;
    return self;
}

int session_connect(uv_loop_t *loop, const session_settings *settings,
                    const session_handlers *handlers, session **out)
{
    session *self = session_make(loop, settings, handlers);
    if (self == NULL)
        return TARRY_ERROR_NO_MEMORY;
    if (settings->connect == NULL) {
        self->count = settings->place_count;
        memcpy(self->found, settings->places, self->count * sizeof(address));
    }
    uv_timer_start(&self->timer, on_timer, 0, 0);
    *out = self;
    return TARRY_OK;
}

int session_accept(uv_loop_t *loop, int fd, const session_settings *settings,
                   const session_handlers *handlers, session **out)
{
    session *self = session_make(loop, settings, handlers);
    if (self == NULL) {
        close(fd);
        return TARRY_ERROR_NO_MEMORY;
    }
    self->accepted = true;
    int error = session_open_channel(self, fd, settings->credential == NULL);
    if (error == TARRY_OK) {
        *out = self;
    } else {
        self->handlers.freed = NULL; /* the owner never had it */
        session_close(self, 0);
    }
    return error;
}

static void on_timer_closed(uv_handle_t *handle)
{
    session *self = handle->data;
    self->timer_closed = true;
    session_free_closed(self);
}

/* size 0: without a last word. */
static void session_close_with(session *self, const uint8_t *frame, size_t size)
{
    if (self->closed)
        return;
    self->closed = true;
    self->stage = SESSION_OVER;
    if (self->channel != NULL && size > 0 && channel_send(self->channel, frame, size))
        channel_close_gently(self->channel, FAREWELL_NS);
    else
        channel_close(self->channel);
    self->channel = NULL;
    if (self->resolving)
        uv_cancel((uv_req_t *)&self->work);
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

void session_close(session *self, wire_bye bye)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    if (self != NULL)
        session_close_with(
            self, frame,
            self->stage == SESSION_UP && bye != 0 ? wire_encode(WIRE_BYE, &bye, frame) : 0);
}

void session_refuse(session *self, wire_reason reason, const char *text)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    wire_refused words = {.reason = reason};
    snprintf(words.text, sizeof(words.text), "%s", text);
    session_close_with(self, frame, wire_encode(WIRE_REFUSED, &words, frame));
}

/* ---- backoff ---- */

void backoff_init(backoff *state, uint64_t seed, uint32_t a, uint32_t b)
{
    *state = (backoff){
        .random = random_stream_make(seed, RANDOM_BACKOFF, a, b),
        .bound_ns = BACKOFF_LEAST_NS,
    };
}

uint64_t backoff_next_ns(backoff *state)
{
    uint64_t wait = (uint64_t)(random_uniform(&state->random) * (double)state->bound_ns);
    state->bound_ns = state->bound_ns < BACKOFF_MOST_NS / 2 ? 2 * state->bound_ns : BACKOFF_MOST_NS;
    return wait;
}

void backoff_reset(backoff *state)
{
    state->bound_ns = BACKOFF_LEAST_NS;
}

void backoff_lost(backoff *state, uint64_t up_ns)
{
    if (up_ns >= BACKOFF_STEADY_NS)
        backoff_reset(state);
}
