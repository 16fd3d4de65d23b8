/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/server/tcp_server.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/diagnostic.h"

enum {
    ACCEPTED_PER_TURN = 64,
    /* Left to what else the process has to open, whoever connects: the revocation list, a
     * checkpoint, memory to share. Of a low limit a quarter is. */
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

/* Over a Unix socket: whoever runs as the same user, or as root, is a member. */
static bool is_member(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
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

static void take(tcp_listener *listener, int fd, const address *from)
{
    tarry_tcp_server *server = listener->server;
    char text[ADDRESS_TEXT];
    address_text(from, text);
    if (!make_room(server, &fd))
        turn_away(server, fd, text, "too many connections");
    else if (listener->local && !is_member(fd))
        turn_away(server, fd, listener->text, "another user");
    else if (peer_open(&server->peers, fd, listener->file) != TARRY_OK)
        newcomers_refused(&server->peers, false, text, "no memory for it");
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    tcp_listener *listener = handle->data;
    uint32_t displaced = listener->server->peers.newcomers.displaced;
    for (uint32_t i = 0;
         i < ACCEPTED_PER_TURN && newcomers_may_come(&listener->server->peers.newcomers, displaced,
                                                     listener->server->listener_count);
         i++) {
        address from = {.size = sizeof(from.socket)};
        int fd = accept4(listener->fd, (struct sockaddr *)&from.socket, &from.size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take(listener, fd, &from);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            if (newcomers_displace(&listener->server->peers))
                continue;
            tcp_server_accept(listener->server, false); /* until the next tick */
            return;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static int name_socket(tcp_listener *listener, const address *at, tarry_diagnostic *diagnostic)
{
    address bound;
    int error = address_of(listener->fd, &bound, diagnostic);
    if (error == TARRY_OK)
        address_text(listener->local ? at : &bound, listener->text);
    return error;
}

static int listen_at(tarry_tcp_server *server, const char *text, const address *at,
                     tarry_diagnostic *diagnostic)
{
    const tarry_tcp_security *security = &server->settings.security;
    if (security->insecure && !security->force && !address_is_loopback(at))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: plain text is for loopback addresses and Unix sockets, unless it is "
                        "forced",
                        text);
    if (server->credential == NULL && !security->insecure && !address_is_file(at))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: needs credentials", text);
    if (server->listener_count == ADDRESS_MOST)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: more than %d addresses to listen on",
                        text, ADDRESS_MOST);
    tcp_listener *listener = &server->listeners[server->listener_count];
    *listener =
        (tcp_listener){.server = server, .local = address_is_unix(at), .file = address_is_file(at)};
    int error = address_listen(at, &listener->fd, diagnostic);
    if (error != TARRY_OK)
        return error;
    server->listener_count++;
    return name_socket(listener, at, diagnostic);
}

/* Workers on this machine find a shorter way by themselves, wherever else they are listened for. If
 * it can't be had, they take the other one. With credentials they prove who they are there, too. */
static void listen_near(tarry_tcp_server *server)
{
    uint8_t random[16];
    char text[ADDRESS_TEXT];
    address found[ADDRESS_MOST];
    uint32_t count;
    bool has_one = server->credential == NULL && tcp_server_near_socket(server)[0] != '\0';
    if (!server->settings.share || has_one || RAND_bytes(random, sizeof(random)) != 1)
        return;
    int at = snprintf(text, sizeof(text), "unix:@tarry-");
    for (size_t i = 0; i < sizeof(random); i++)
        at += snprintf(text + at, sizeof(text) - (size_t)at, "%02x", random[i]);
    if (address_resolve(text, true, found, &count, NULL) == TARRY_OK)
        listen_at(server, text, &found[0], NULL);
}

/* No host, or the name of one, stands for addresses of a kind that this machine may not have: one
 * without IPv6 is listened on by the others. */
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
    listen_near(server);
    return TARRY_OK;
}

int tcp_server_open_listeners(tarry_tcp_server *server)
{
    for (uint32_t i = 0; i < server->listener_count; i++) {
        tcp_listener *listener = &server->listeners[i];
        if (uv_poll_init(&server->loop, &listener->poll, listener->fd) != 0)
            return TARRY_ERROR_SYSTEM;
        listener->polled = true;
        listener->poll.data = listener;
    }
    return TARRY_OK;
}

void tcp_server_accept(tarry_tcp_server *server, bool accepting)
{
    if (server->accepting == accepting || !server->open)
        return;
    server->accepting = accepting;
    for (uint32_t i = 0; i < server->listener_count; i++)
        if (accepting)
            uv_poll_start(&server->listeners[i].poll, UV_READABLE, on_readable);
        else
            uv_poll_stop(&server->listeners[i].poll);
}

static void on_closed(uv_handle_t *handle)
{
    tcp_listener *listener = handle->data;
    close(listener->fd);
}

/* A Unix socket's file goes with it: nobody shall wait at it. */
void tcp_server_close_listeners(tarry_tcp_server *server)
{
    for (uint32_t i = 0; i < server->listener_count; i++) {
        tcp_listener *listener = &server->listeners[i];
        if (listener->file)
            unlink(listener->text + strlen("unix:"));
        if (listener->polled)
            uv_close((uv_handle_t *)&listener->poll, on_closed);
        else
            close(listener->fd);
    }
    server->listener_count = 0;
}
