/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/listeners.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/diagnostic.h"

static int check(const listeners *self, const char *text, const address *at,
                 tarry_diagnostic *diagnostic)
{
    const tarry_tcp_security *security = self->security;
    if (security->insecure && !security->force && !address_is_loopback(at))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: plain text is for loopback addresses and Unix sockets, unless it is "
                        "forced",
                        text);
    if (!self->secured && !security->insecure && !address_is_file(at))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: needs credentials", text);
    if (self->count == ADDRESS_MOST)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: more than %d addresses to listen on",
                        text, ADDRESS_MOST);
    return TARRY_OK;
}

static int listen_at(listeners *self, const char *text, const address *at,
                     tarry_diagnostic *diagnostic)
{
    int error = check(self, text, at, diagnostic);
    if (error != TARRY_OK)
        return error;
    listener *one = &self->items[self->count];
    *one = (listener){.all = self, .local = address_is_unix(at), .file = address_is_file(at)};
    error = address_listen(at, &one->fd, diagnostic);
    if (error != TARRY_OK)
        return error;
    self->count++;
    address bound;
    error = address_of(one->fd, &bound, diagnostic);
    if (error == TARRY_OK)
        address_text(one->local ? at : &bound, one->text);
    return error;
}

int listeners_add(listeners *self, const char *text, tarry_diagnostic *diagnostic)
{
    address found[ADDRESS_MOST];
    uint32_t count, before = self->count;
    int error = address_resolve(text, true, found, &count, diagnostic);
    if (error != TARRY_OK)
        return error;
    for (uint32_t at = 0; at < count; at++) {
        error = listen_at(self, text, &found[at], diagnostic);
        if (error != TARRY_OK &&
            (error != TARRY_ERROR_SYSTEM || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)))
            return error;
    }
    return self->count > before ? TARRY_OK : error;
}

int listeners_open(listeners *self, uv_loop_t *loop, void (*readable)(listener *at))
{
    self->readable = readable;
    for (uint32_t i = 0; i < self->count; i++) {
        listener *one = &self->items[i];
        if (uv_poll_init(loop, &one->poll, one->fd) != 0)
            return TARRY_ERROR_SYSTEM;
        one->polled = true;
        one->poll.data = one;
    }
    return TARRY_OK;
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    listener *at = handle->data;
    at->all->readable(at);
}

void listeners_accept(listeners *self, bool accepting)
{
    if (self->accepting == accepting)
        return;
    self->accepting = accepting;
    for (uint32_t i = 0; i < self->count; i++)
        if (accepting)
            uv_poll_start(&self->items[i].poll, UV_READABLE, on_readable);
        else
            uv_poll_stop(&self->items[i].poll);
}

static void on_closed(uv_handle_t *handle)
{
    close(((listener *)handle->data)->fd);
}

void listeners_close(listeners *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        listener *one = &self->items[i];
        if (one->file)
            unlink(one->text + strlen("unix:"));
        if (one->polled)
            uv_close((uv_handle_t *)&one->poll, on_closed);
        else
            close(one->fd);
    }
    self->count = 0;
}

int listener_take(const listener *at, address *from)
{
    from->size = sizeof(from->socket);
    return accept4(at->fd, (struct sockaddr *)&from->socket, &from->size,
                   SOCK_NONBLOCK | SOCK_CLOEXEC);
}

bool listener_is_short(void)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
}

bool listener_is_member(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}
