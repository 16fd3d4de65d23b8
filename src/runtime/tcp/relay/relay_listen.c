/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "runtime/tcp/relay/relay_state.h"

enum { ACCEPTED_PER_TURN = 64 };

/* Over a Unix socket: whoever runs as the same user, or as root, is a member. */
static bool is_member(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}

static void turn_away(tcp_relay *self, const char *from, const char *why)
{
    relay_notify(self, &(tarry_tcp_notice){
                           .type = TARRY_TCP_REFUSED,
                           .worker = TARRY_TCP_NO_WORKER,
                           .peer = from,
                           .text = why,
                       });
}

static void take(relay_listener *listener, int fd)
{
    if (listener->local && !is_member(fd)) {
        close(fd);
        turn_away(listener->relay, listener->text, "another user");
    } else if (relay_child_open(listener->relay, fd, listener->file) != TARRY_OK) {
        turn_away(listener->relay, listener->text, "no memory for a connection");
    }
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    relay_listener *listener = handle->data;
    for (int i = 0; i < ACCEPTED_PER_TURN; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take(listener, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            relay_child *oldest = listener->relay->newcomers.first;
            if (oldest == NULL) {
                relay_accept(listener->relay, false); /* until the next tick */
                return;
            }
            relay_child_end(oldest, WIRE_LANE_CLOSED, "made room for others", false);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

static int listen_at(tcp_relay *self, const char *text, const address *at,
                     tarry_diagnostic *diagnostic)
{
    const tarry_tcp_security *security = &self->settings.security;
    if (security->insecure && !security->force && !address_is_loopback(at))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: plain text is for loopback addresses and Unix sockets, unless it is "
                        "forced",
                        text);
    if (self->credential == NULL && !security->insecure && !address_is_file(at))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: needs credentials", text);
    if (self->listener_count == ADDRESS_MOST)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: more than %d addresses to listen on",
                        text, ADDRESS_MOST);
    relay_listener *listener = &self->listeners[self->listener_count];
    *listener =
        (relay_listener){.relay = self, .local = address_is_unix(at), .file = address_is_file(at)};
    int error = address_listen(at, &listener->fd, diagnostic);
    if (error != TARRY_OK)
        return error;
    self->listener_count++;
    address bound;
    error = address_of(listener->fd, &bound, diagnostic);
    if (error == TARRY_OK)
        address_text(listener->local ? at : &bound, listener->text);
    return error;
}

/* No host, or the name of one, stands for addresses of a kind that this machine may not have. */
static int listen_at_all(tcp_relay *self, const char *text, tarry_diagnostic *diagnostic)
{
    address found[ADDRESS_MOST];
    uint32_t count, before = self->listener_count;
    int error = address_resolve(text, true, found, &count, diagnostic);
    if (error != TARRY_OK)
        return error;
    for (uint32_t at = 0; at < count; at++) {
        error = listen_at(self, text, &found[at], diagnostic);
        if (error != TARRY_OK &&
            (error != TARRY_ERROR_SYSTEM || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)))
            return error;
    }
    return self->listener_count > before ? TARRY_OK : error;
}

int relay_listen(tcp_relay *self, const char *const *texts, uint32_t count,
                 tarry_diagnostic *diagnostic)
{
    for (uint32_t i = 0; i < count; i++) {
        int error = listen_at_all(self, texts[i], diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

int relay_open_listeners(tcp_relay *self)
{
    for (uint32_t i = 0; i < self->listener_count; i++) {
        relay_listener *listener = &self->listeners[i];
        if (uv_poll_init(&self->loop, &listener->poll, listener->fd) != 0)
            return TARRY_ERROR_SYSTEM;
        listener->polled = true;
        listener->poll.data = listener;
    }
    return TARRY_OK;
}

void relay_accept(tcp_relay *self, bool accepting)
{
    if (self->accepting == accepting || self->stopping)
        return;
    self->accepting = accepting;
    for (uint32_t i = 0; i < self->listener_count; i++)
        if (accepting)
            uv_poll_start(&self->listeners[i].poll, UV_READABLE, on_readable);
        else
            uv_poll_stop(&self->listeners[i].poll);
}

static void on_closed(uv_handle_t *handle)
{
    relay_listener *listener = handle->data;
    close(listener->fd);
}

/* A Unix socket's file goes with it: nobody shall wait at it. */
void relay_close_listeners(tcp_relay *self)
{
    for (uint32_t i = 0; i < self->listener_count; i++) {
        relay_listener *listener = &self->listeners[i];
        if (listener->file)
            unlink(listener->text + strlen("unix:"));
        if (listener->polled)
            uv_close((uv_handle_t *)&listener->poll, on_closed);
        else
            close(listener->fd);
    }
    self->listener_count = 0;
}
