/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/channel_state.h"

#include <stdio.h>

#include "base/memory.h"

enum { HANDLES = 2, NS_PER_MS = 1000000 };

static void on_turn(uv_idle_t *idle);

void channel_wake(channel *self)
{
    if (!self->closed)
        uv_idle_start(&self->turn, on_turn);
}

void channel_fail(channel *self, channel_end how, const char *why)
{
    if (self->failed || self->closed)
        return;
    self->failed = true;
    self->how = how == CHANNEL_BROKEN && link_is_revoked(self->link) ? CHANNEL_REVOKED : how;
    snprintf(self->failure, sizeof(self->failure), "%s",
             why != NULL ? why : link_failure(self->link));
    link_hold(self->link, true);
    channel_wake(self);
}

/* What was sent goes out, then our end of the stream; then the peer's end is waited for. */
static void leave(channel *self)
{
    if (!self->left && !self->out.broken) {
        channel_write_turn(self);
        if (channel_has_sent_all(self)) {
            self->left = true;
            link_end_writing(self->link);
        }
    }
    if (self->out.broken)
        channel_close(self);
    else if (!self->out.blocked && !self->left)
        channel_wake(self);
}

static void write_turn(channel *self)
{
    if (self->open && !self->out.broken)
        channel_write_turn(self);
    channel_release(self);
    if (self->closed || self->failed)
        return;
    if (self->out.broken) {
        /* The peer's last words may say why it is gone. */
        channel_read_turn(self);
        channel_fail(self, CHANNEL_BROKEN, NULL);
    } else if (self->open && !channel_has_sent_all(self)) {
        if (!self->out.blocked)
            channel_wake(self);
    } else if (self->open && self->out.busy) {
        self->out.busy = false;
        if (self->handlers.drained != NULL)
            self->handlers.drained(self->handlers.user);
    }
}

static void on_turn(uv_idle_t *idle)
{
    channel *self = idle->data;
    uv_idle_stop(idle);
    if (self->leaving) {
        leave(self);
        return;
    }
    if (!self->failed && self->in.resumed)
        channel_read_turn(self);
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
    channel *self = user;
    self->open = true;
    if (self->failed)
        return;
    channel_wake(self);
    if (!self->leaving)
        self->handlers.opened(self->handlers.user);
}

static void on_readable(void *user)
{
    channel *self = user;
    if (!self->leaving)
        channel_read_turn(self);
    else if (!channel_discard(self))
        channel_close(self);
}

static void on_writable(void *user)
{
    channel *self = user;
    self->out.blocked = false;
    channel_wake(self);
}

static void on_failed(void *user)
{
    channel *self = user;
    if (self->leaving)
        channel_close(self);
    else
        channel_fail(self, CHANNEL_BROKEN, NULL);
}

static void on_closed(uv_handle_t *handle)
{
    channel *self = handle->data;
    if (--self->handles > 0)
        return;
    channel_free_in(self);
    pthread_mutex_destroy(&self->out.gate);
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self);
}

void channel_close(channel *self)
{
    if (self == NULL || self->closed)
        return;
    self->closed = true;
    link_close(self->link);
    channel_free_out(self);
    uv_close((uv_handle_t *)&self->turn, on_closed);
    uv_close((uv_handle_t *)&self->patience, on_closed);
}

/* A process that was held up may have come to nothing else since it took its leave: there is always
 * one try to write what waits. */
static void on_patience(uv_timer_t *timer)
{
    channel *self = timer->data;
    if (self->open && !self->failed)
        channel_write_turn(self);
    channel_close(self);
}

void channel_close_gently(channel *self, uint64_t most_ns)
{
    if (self == NULL || self->closed)
        return;
    if (self->failed || self->out.broken || !channel_settle(self)) {
        channel_close(self);
        return;
    }
    self->leaving = true;
    uv_update_time(self->patience.loop);
    uv_timer_start(&self->patience, on_patience, (most_ns + NS_PER_MS - 1) / NS_PER_MS, 0);
    link_hold(self->link, false);
    if (self->open)
        channel_wake(self);
}

void channel_allow(channel *self, uint32_t most_length)
{
    self->settings.most_length = most_length;
}

void channel_divert(channel *self, wire_kind kind)
{
    if (self->in.left > 0 && self->in.head.kind == kind)
        self->in.place = NULL;
}

void channel_resume(channel *self)
{
    if (!self->in.waiting || self->closed || self->failed)
        return;
    self->in.waiting = false;
    self->in.resumed = true;
    channel_wake(self);
}

uint64_t channel_received(const channel *self)
{
    return self->in.received;
}

uint64_t channel_sent(const channel *self)
{
    return self->out.sent;
}

const char *channel_failure(const channel *self)
{
    return self->failure;
}

const char *channel_peer(const channel *self)
{
    return link_peer(self->link);
}

SSL *channel_ssl(const channel *self)
{
    return link_ssl(self->link);
}

bool channel_is_unix(const channel *self)
{
    return link_is_unix(self->link);
}

uint64_t channel_latency_ns(const channel *self)
{
    return link_latency_ns(self->link);
}

X509 *channel_certificate(const channel *self)
{
    const SSL *ssl = link_ssl(self->link);
    return ssl != NULL ? SSL_get0_peer_certificate(ssl) : NULL;
}

int channel_open(uv_loop_t *loop, int fd, SSL *ssl, bool connecting,
                 const channel_settings *settings, const channel_handlers *handlers,
                 const tarry_allocator *allocator, channel **out)
{
    channel *self = memory_allocate(allocator, 1, sizeof(*self));
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
    *out = self;
    return TARRY_OK;
}
