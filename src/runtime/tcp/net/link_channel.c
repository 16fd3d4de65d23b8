/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/link_channel.h"

#include <stdio.h>

#include "base/memory.h"

enum { HANDLES = 2, NS_PER_MS = 1000000 };

static void on_turn(uv_idle_t *idle);
static void link_channel_close(channel *base);

void link_channel_wake(link_channel *self)
{
    if (!self->closed)
        uv_idle_start(&self->turn, on_turn);
}

void link_channel_fail(link_channel *self, channel_end how, const char *why)
{
    if (self->failed || self->closed)
        return;
    self->failed = true;
    self->how = how == CHANNEL_BROKEN && link_is_revoked(self->link) ? CHANNEL_REVOKED : how;
    snprintf(self->failure, sizeof(self->failure), "%s",
             why != NULL ? why : link_failure(self->link));
    link_hold(self->link, true);
    link_channel_wake(self);
}

/* What was sent goes out, then our end of the stream; then the peer's end is waited for. */
static void leave(link_channel *self)
{
    if (!self->left && !self->out.broken) {
        link_channel_write_turn(self);
        if (link_channel_has_sent_all(self)) {
            self->left = true;
            link_end_writing(self->link);
        }
    }
    if (self->out.broken)
        link_channel_close(&self->base);
    else if (!self->out.blocked && !self->left)
        link_channel_wake(self);
}

static void write_turn(link_channel *self)
{
    if (self->open && !self->out.broken)
        link_channel_write_turn(self);
    link_channel_release(self);
    if (self->closed || self->failed)
        return;
    if (self->out.broken) {
        /* The peer's last words may say why it is gone. */
        link_channel_read_turn(self);
        link_channel_fail(self, CHANNEL_BROKEN, NULL);
    } else if (self->open && !link_channel_has_sent_all(self)) {
        if (!self->out.blocked)
            link_channel_wake(self);
    } else if (self->open && self->out.busy) {
        self->out.busy = false;
        if (self->handlers.drained != NULL)
            self->handlers.drained(self->handlers.user);
    }
}

static void on_turn(uv_idle_t *idle)
{
    link_channel *self = idle->data;
    uv_idle_stop(idle);
    if (self->leaving) {
        leave(self);
        return;
    }
    if (!self->failed && self->in.resumed)
        link_channel_read_turn(self);
    if (self->leaving)
        return; /* a handler wanted it so, and hears no more of it; it goes on in the next turn */
    if (!self->failed && !self->closed)
        write_turn(self);
    if (self->failed && !self->told && !self->closed) {
        self->told = true;
        uv_idle_stop(idle);
        self->handlers.ended(self->handlers.user, self->how);
    }
}

static void on_ready(void *user)
{
    link_channel *self = user;
    self->open = true;
    if (self->failed)
        return;
    link_channel_wake(self);
    if (!self->leaving)
        self->handlers.opened(self->handlers.user);
}

static void on_readable(void *user)
{
    link_channel *self = user;
    if (!self->leaving)
        link_channel_read_turn(self);
    else if (!link_channel_discard(self))
        link_channel_close(&self->base);
}

static void on_writable(void *user)
{
    link_channel *self = user;
    self->out.blocked = false;
    link_channel_wake(self);
}

static void on_failed(void *user)
{
    link_channel *self = user;
    if (self->leaving)
        link_channel_close(&self->base);
    else
        link_channel_fail(self, CHANNEL_BROKEN, NULL);
}

static void on_closed(uv_handle_t *handle)
{
    link_channel *self = handle->data;
    if (--self->handles > 0)
        return;
    link_channel_free_in(self);
    pthread_mutex_destroy(&self->out.gate);
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self);
}

static void link_channel_close(channel *base)
{
    link_channel *self = link_channel_of(base);
    if (self->closed)
        return;
    self->closed = true;
    link_close(self->link);
    link_channel_free_out(self);
    uv_close((uv_handle_t *)&self->turn, on_closed);
    uv_close((uv_handle_t *)&self->patience, on_closed);
}

/* A process that was held up may have come to nothing else since it took its leave: there is always
 * one try to write what waits. */
static void on_patience(uv_timer_t *timer)
{
    link_channel *self = timer->data;
    if (self->open && !self->failed)
        link_channel_write_turn(self);
    link_channel_close(&self->base);
}

static void link_channel_close_gently(channel *base, uint64_t most_ns)
{
    link_channel *self = link_channel_of(base);
    if (self->closed)
        return;
    if (self->failed || self->out.broken || !link_channel_settle(self)) {
        link_channel_close(&self->base);
        return;
    }
    self->leaving = true;
    uv_update_time(self->patience.loop);
    uv_timer_start(&self->patience, on_patience, (most_ns + NS_PER_MS - 1) / NS_PER_MS, 0);
    link_hold(self->link, false);
    if (self->open)
        link_channel_wake(self);
}

static void link_channel_allow(channel *base, uint32_t most_length)
{
    link_channel *self = link_channel_of(base);
    self->settings.most_length = most_length;
}

static void link_channel_divert(channel *base, wire_kind kind)
{
    link_channel *self = link_channel_of(base);
    if (self->in.left > 0 && self->in.head.kind == kind)
        self->in.place = NULL;
}

static void link_channel_resume(channel *base)
{
    link_channel *self = link_channel_of(base);
    if (!self->in.waiting || self->closed || self->failed)
        return;
    self->in.waiting = false;
    self->in.resumed = true;
    link_channel_wake(self);
}

static uint64_t link_channel_received(const channel *base)
{
    const link_channel *self = link_channel_of_const(base);
    return self->in.received;
}

static uint64_t link_channel_sent(const channel *base)
{
    const link_channel *self = link_channel_of_const(base);
    return self->out.sent;
}

static const char *link_channel_failure(const channel *base)
{
    const link_channel *self = link_channel_of_const(base);
    return self->failure;
}

static const char *link_channel_peer(const channel *base)
{
    const link_channel *self = link_channel_of_const(base);
    return link_peer(self->link);
}

static SSL *link_channel_ssl(const channel *base)
{
    const link_channel *self = link_channel_of_const(base);
    return link_ssl(self->link);
}

static bool link_channel_is_unix(const channel *base)
{
    const link_channel *self = link_channel_of_const(base);
    return link_is_unix(self->link);
}

static uint64_t link_channel_latency_ns(const channel *base)
{
    const link_channel *self = link_channel_of_const(base);
    return link_latency_ns(self->link);
}

static uint64_t link_channel_round_trip_ns(const channel *base)
{
    const link_channel *self = link_channel_of_const(base);
    return link_round_trip_ns(self->link);
}

void link_channel_allow_waiting(channel *base, size_t most_waiting)
{
    link_channel_of(base)->settings.most_waiting = most_waiting;
}

static X509 *link_channel_certificate(const channel *base)
{
    const SSL *ssl = link_ssl(link_channel_of_const(base)->link);
    return ssl != NULL ? SSL_get0_peer_certificate(ssl) : NULL;
}

static const channel_methods methods = {
    .close = link_channel_close,
    .close_gently = link_channel_close_gently,
    .send = link_channel_send,
    .send_aside = link_channel_send_aside,
    .send_load = link_channel_send_load,
    .drop = link_channel_drop,
    .detach = link_channel_detach,
    .divert = link_channel_divert,
    .loads = link_channel_loads,
    .allow = link_channel_allow,
    .resume = link_channel_resume,
    .received = link_channel_received,
    .sent = link_channel_sent,
    .failure = link_channel_failure,
    .peer = link_channel_peer,
    .ssl = link_channel_ssl,
    .certificate = link_channel_certificate,
    .is_unix = link_channel_is_unix,
    .latency_ns = link_channel_latency_ns,
    .round_trip_ns = link_channel_round_trip_ns,
};

int link_channel_open(uv_loop_t *loop, int fd, SSL *ssl, bool connecting,
                      const channel_settings *settings, const channel_handlers *handlers,
                      const tarry_allocator *allocator, channel **out)
{
    link_channel *self = memory_allocate(allocator, 1, sizeof(*self));
    const link_handlers below = {
        .user = self,
        .ready = on_ready,
        .readable = on_readable,
        .writable = on_writable,
        .failed = on_failed,
    };
    tcp_link *link;
    /* The link takes over fd and ssl, so that it closes them where there is no channel, too. */
    int error = link_open(loop, fd, ssl, connecting, &below, allocator, &link);
    if (error == TARRY_OK && self == NULL) {
        link_close(link);
        error = TARRY_ERROR_NO_MEMORY;
    }
    if (error != TARRY_OK) {
        memory_release(allocator, self);
        return error;
    }
    self->base.methods = &methods;
    self->link = link;
    self->allocator = memory_allocator(allocator);
    self->settings = *settings;
    self->handlers = *handlers;
    self->out.last = &self->out.first;
    pthread_mutex_init(&self->out.gate, NULL); /* a plain one can't fail */
    uv_idle_init(loop, &self->turn);
    uv_timer_init(loop, &self->patience);
    self->turn.data = self;
    self->patience.data = self;
    self->handles = HANDLES;
    *out = &self->base;
    return TARRY_OK;
}
