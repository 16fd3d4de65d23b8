/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/viewer/viewer.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/clock.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/trust/credential.h"

enum {
    ANSWER_MS = 10000, /* for connecting, the handshake and the first answer, to each address */
    LEAST_TICK_MS = 50,
    MOST_TICK_MS = 1000,
    FIRST_PAUSE_MS = 500,
    LONGEST_PAUSE_MS = 5000,
    HEARTBEAT_FRACTION = 8, /* of the silence that counts as absence */
    MOST_WAITING = 4096,    /* heartbeats that the server does not take */
};

#define NS_PER_MS UINT64_C(1000000)
#define LEAST_SILENCE_NS UINT64_C(3000000000) /* some of the server's half seconds */

typedef enum viewer_state {
    VIEWER_PAUSING,
    VIEWER_RESOLVING,
    VIEWER_ASKING, /* connecting, or no answer to HELLO yet */
    VIEWER_WATCHING,
    VIEWER_ENDED,
} viewer_state;

struct viewer {
    uv_loop_t *loop;
    uv_timer_t timer; /* of what the state waits for */
    uv_work_t work;   /* the resolver */
    tarry_allocator allocator;
    viewer_handlers handlers;
    const char *text; /* the address as it was given */
    credential *credential;
    bool plain_anywhere;
    viewer_state state;
    bool resolving; /* another thread is at it */
    bool closed, timer_closed;
    uint8_t instance[WIRE_ID_BYTES];

    address found[ADDRESS_MOST];
    uint32_t count, next; /* addresses; the next one to try */
    int resolved;         /* the resolver's error, */
    tarry_diagnostic why; /* and words; or why the last address failed */

    channel *channel;
    uint32_t pause_ms;
    uint64_t silence_ns, heard_ns, sent_ns;
    uint64_t tick_ms, ticked_ns;
    bool spared; /* the server, at the last tick: it was late */
    wire_worker_status *worker;
    size_t room; /* entries of `worker` */
    uint8_t shared[CHANNEL_SHARED_BYTES];
};

static void resolve(viewer *self);
static void try_next(viewer *self);

/* ---- how it ends, and begins again ---- */

static void drop_channel(viewer *self)
{
    channel_close(self->channel);
    self->channel = NULL;
}

static void end(viewer *self, bool over, const char *why)
{
    drop_channel(self);
    uv_timer_stop(&self->timer);
    self->state = VIEWER_ENDED;
    self->handlers.ended(self->handlers.user, over, why);
}

static void on_pause_over(uv_timer_t *timer)
{
    resolve(timer->data);
}

static void lose(viewer *self, const char *why)
{
    drop_channel(self);
    self->state = VIEWER_PAUSING;
    uint32_t pause = self->pause_ms;
    self->pause_ms = 2 * pause > LONGEST_PAUSE_MS ? LONGEST_PAUSE_MS : 2 * pause;
    uv_timer_start(&self->timer, on_pause_over, pause, 0);
    self->handlers.lost(self->handlers.user, why, pause * NS_PER_MS);
}

/* While asking, the other addresses may do better. */
static void fail(viewer *self, const char *why)
{
    if (self->state != VIEWER_ASKING) {
        lose(self, why);
        return;
    }
    drop_channel(self);
    snprintf(self->why.text, sizeof(self->why.text), "%s", why);
    try_next(self);
}

/* ---- frames ---- */

static bool send_small(viewer *self, const uint8_t *frame, size_t size)
{
    self->sent_ns = clock_now_ns();
    return channel_send(self->channel, frame, size);
}

/* A viewer that was itself held up hears what has come in meanwhile before it judges the server,
 * but not twice in a row. */
static void on_tick(uv_timer_t *timer)
{
    viewer *self = timer->data;
    uint64_t now = clock_now_ns();
    uint64_t limit = self->silence_ns > LEAST_SILENCE_NS ? self->silence_ns : LEAST_SILENCE_NS;
    self->spared = !self->spared && now - self->ticked_ns > 4 * self->tick_ms * NS_PER_MS;
    self->ticked_ns = now;
    if (!self->spared && now - self->heard_ns > limit) {
        char why[64];
        snprintf(why, sizeof(why), "nothing came for %.1f s", (double)limit * 1e-9);
        lose(self, why);
    } else if (now - self->sent_ns >= self->silence_ns / HEARTBEAT_FRACTION) {
        uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
        send_small(self, frame, wire_heartbeat_encode(frame));
    }
}

static void take_welcome(viewer *self, const wire_welcome *welcome)
{
    self->state = VIEWER_WATCHING;
    self->silence_ns = welcome->silence_ns;
    uint64_t tick = welcome->silence_ns / HEARTBEAT_FRACTION / NS_PER_MS;
    if (tick < LEAST_TICK_MS)
        tick = LEAST_TICK_MS;
    if (tick > MOST_TICK_MS)
        tick = MOST_TICK_MS;
    self->tick_ms = tick;
    self->ticked_ns = clock_now_ns();
    self->spared = false;
    uv_timer_start(&self->timer, on_tick, tick, tick);
}

static void take_refused(viewer *self, const wire_refused *refused)
{
    if (wire_reason_passes(refused->reason))
        lose(self, refused->text);
    else
        end(self, false, refused->text);
}

static void take_bye(viewer *self, wire_bye bye)
{
    if (bye == WIRE_BYE_DONE)
        end(self, true, "the run is over");
    else
        lose(self, "the server has stopped, to be resumed");
}

/* The entries of all workers. Errors: FORMAT, NO_MEMORY. */
static int read_workers(viewer *self, const wire_head *head, const uint8_t *body, uint32_t workers)
{
    if (workers > self->room) {
        wire_worker_status *larger =
            memory_allocate(&self->allocator, workers, sizeof(*self->worker));
        if (larger == NULL)
            return TARRY_ERROR_NO_MEMORY;
        memory_release(&self->allocator, self->worker);
        self->worker = larger;
        self->room = workers;
    }
    int error = TARRY_OK;
    for (uint32_t j = 0; j < workers && error == TARRY_OK; j++)
        error = wire_status_worker(head, body, j, &self->worker[j]);
    return error;
}

static int take_status(viewer *self, const wire_head *head, const uint8_t *body)
{
    wire_status status;
    int error = wire_status_decode(head, body, &status);
    if (error == TARRY_OK)
        error = read_workers(self, head, body, status.workers);
    if (error == TARRY_ERROR_NO_MEMORY)
        end(self, false, "out of memory");
    if (error != TARRY_OK)
        return error;
    self->pause_ms = FIRST_PAUSE_MS;
    self->handlers.told(self->handlers.user, &status, self->worker);
    return TARRY_OK;
}

/* Errors: FORMAT (the frame has no place here, or is malformed). */
static int take_frame(viewer *self, const wire_head *head, const uint8_t *body)
{
    wire_welcome welcome;
    wire_refused refused;
    wire_bye bye;
    int error = TARRY_ERROR_FORMAT;
    if (head->kind == WIRE_HEARTBEAT)
        return TARRY_OK;
    if (head->kind == WIRE_WELCOME && self->state == VIEWER_ASKING) {
        error = wire_welcome_decode(head, body, &welcome);
        if (error == TARRY_OK)
            take_welcome(self, &welcome);
    } else if (head->kind == WIRE_REFUSED) {
        error = wire_refused_decode(head, body, &refused);
        if (error == TARRY_OK)
            take_refused(self, &refused);
    } else if (head->kind == WIRE_BYE) {
        error = wire_bye_decode(head, body, &bye);
        if (error == TARRY_OK)
            take_bye(self, bye);
    } else if (head->kind == WIRE_STATUS && self->state == VIEWER_WATCHING) {
        error = take_status(self, head, body);
    }
    return error;
}

static bool on_frame(void *user, const wire_head *head, const uint8_t *body)
{
    viewer *self = user;
    if (take_frame(self, head, body) == TARRY_ERROR_FORMAT)
        fail(self, "what came is not of this protocol");
    return self->channel != NULL;
}

/* Large frames are for workers: a viewer gets none. */
static channel_verdict on_begin(void *user, const wire_head *head, const uint8_t *fixed,
                                size_t bytes, void **place)
{
    (void)head;
    (void)fixed;
    (void)bytes;
    (void)place;
    fail(user, "what came is not of this protocol");
    return CHANNEL_END;
}

static bool on_complete(void *user, const wire_head *head, const uint8_t *fixed)
{
    (void)user;
    (void)head;
    (void)fixed;
    return false;
}

/* ---- connecting ---- */

static void on_opened(void *user)
{
    viewer *self = user;
    wire_hello hello = {
        .oldest = WIRE_VERSION,
        .newest = WIRE_VERSION,
        .role = WIRE_ROLE_VIEWER,
        .worker = WIRE_ANY_WORKER,
    };
    memcpy(hello.instance, self->instance, WIRE_ID_BYTES);
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    send_small(self, frame, wire_hello_encode(&hello, frame));
}

static void on_heard(void *user)
{
    viewer *self = user;
    self->heard_ns = clock_now_ns();
}

static void on_ended(void *user, channel_end how)
{
    viewer *self = user;
    char why[TARRY_DIAGNOSTIC_SIZE];
    bool mute = (how == CHANNEL_PEER_CLOSED || how == CHANNEL_BROKEN) && self->silence_ns == 0 &&
                self->credential == NULL && !channel_is_unix(self->channel) &&
                channel_sent(self->channel) > 0;
    snprintf(why, sizeof(why), "%s",
             mute                         ? "the server closed the connection (does it want "
                                            "credentials?)"
             : how == CHANNEL_PEER_CLOSED ? "the server closed the connection"
                                          : channel_failure(self->channel));
    fail(self, why);
}

static void on_no_answer(uv_timer_t *timer)
{
    fail(timer->data, "no answer");
}

/* Errors: NO_MEMORY, SYSTEM; `why` says so. */
static int connect_to(viewer *self, const address *where)
{
    const channel_settings settings = {
        .most_waiting = MOST_WAITING,
        .most_length = wire_most_length(WIRE_STATUS),
        .shared = self->shared,
    };
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
    if (self->credential != NULL) {
        ssl = credential_open(self->credential);
        if (ssl == NULL)
            return diagnose_no_memory(&self->why, self->text);
    }
    int fd;
    int error = address_connect(where, &fd, &self->why);
    if (error != TARRY_OK) {
        SSL_free(ssl);
        return error;
    }
    error = channel_open(self->loop, fd, ssl, true, &settings, &handlers, &self->allocator,
                         &self->channel);
    if (error != TARRY_OK)
        diagnose(&self->why, error, "%s: %s", self->text, tarry_error_text(error));
    return error;
}

static void try_next(viewer *self)
{
    self->state = VIEWER_ASKING;
    while (self->next < self->count) {
        const address *where = &self->found[self->next++];
        if (connect_to(self, where) == TARRY_OK) {
            self->heard_ns = clock_now_ns();
            uv_timer_start(&self->timer, on_no_answer, ANSWER_MS, 0);
            return;
        }
    }
    lose(self, self->why.text);
}

/* ---- the resolver, in a thread of its own ---- */

static void do_resolve(uv_work_t *work)
{
    viewer *self = work->data;
    self->resolved = address_resolve(self->text, false, self->found, &self->count, &self->why);
}

/* Plain text stays on this machine, unless it is forced. */
static void keep_allowed(viewer *self)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < self->count; i++)
        if (self->credential != NULL || self->plain_anywhere ||
            address_is_loopback(&self->found[i]))
            self->found[kept++] = self->found[i];
    self->count = kept;
}

static void free_closed(viewer *self)
{
    if (!self->timer_closed || self->resolving)
        return;
    tarry_allocator allocator = self->allocator;
    credential_free(self->credential);
    memory_release(&allocator, self->worker);
    memory_release(&allocator, self);
}

static void on_resolved(uv_work_t *work, int status)
{
    viewer *self = work->data;
    self->resolving = false;
    if (self->closed) {
        free_closed(self);
        return;
    }
    if (status != 0 || self->resolved != TARRY_OK) {
        lose(self, self->why.text);
        return;
    }
    keep_allowed(self);
    self->next = 0;
    if (self->count == 0)
        end(self, false, "plain text goes to addresses of this machine alone, unless it is forced");
    else
        try_next(self);
}

static void resolve(viewer *self)
{
    self->state = VIEWER_RESOLVING;
    self->resolving = true;
    uv_queue_work(self->loop, &self->work, do_resolve, on_resolved);
}

/* ---- its life ---- */

static int load_credential(viewer *self, const tarry_tcp_security *security,
                           tarry_diagnostic *diagnostic)
{
    int error = address_check(self->text, false, diagnostic);
    if (error != TARRY_OK)
        return error;
    self->plain_anywhere = security->insecure && security->force;
    if (security->insecure || address_text_is_file(self->text))
        return TARRY_OK;
    if (security->credentials == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: credentials are needed", self->text);
    error = credential_load(security->credentials, &self->allocator, &self->credential, diagnostic);
    if (error != TARRY_OK || credential_own(self->credential).role == CREDENTIAL_VIEWER)
        return error;
    char name[CREDENTIAL_NAME_SIZE];
    identity_name(credential_own(self->credential), name);
    credential_free(self->credential);
    self->credential = NULL;
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                    "%s: these are credentials of %s, no viewer's", security->credentials, name);
}

int viewer_open(uv_loop_t *loop, const char *connect, const tarry_tcp_security *security,
                const viewer_handlers *handlers, const tarry_allocator *allocator, viewer **out,
                tarry_diagnostic *diagnostic)
{
    viewer *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, "viewer");
    self->loop = loop;
    self->allocator = memory_allocator(allocator);
    self->handlers = *handlers;
    self->text = connect;
    self->pause_ms = FIRST_PAUSE_MS;
    int error = load_credential(self, security, diagnostic);
    if (error != TARRY_OK)
        goto release;
    if (RAND_bytes(self->instance, sizeof(self->instance)) != 1) {
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "no random numbers");
        goto free_credential;
    }
    uv_timer_init(loop, &self->timer);
    self->timer.data = self;
    self->work.data = self;
    resolve(self);
    *out = self;
    return TARRY_OK;

free_credential:
    credential_free(self->credential);
release:
    memory_release(allocator, self);
    return error;
}

static void on_timer_closed(uv_handle_t *handle)
{
    viewer *self = handle->data;
    self->timer_closed = true;
    free_closed(self);
}

void viewer_close(viewer *self)
{
    if (self == NULL || self->closed)
        return;
    self->closed = true;
    drop_channel(self);
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}
