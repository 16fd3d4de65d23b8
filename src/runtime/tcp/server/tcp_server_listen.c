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
#include "base/hex.h"

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
    tarry_tcp_server *server = at->all->owner;
    char text[ADDRESS_TEXT];
    address_text(from, text);
    if (!make_room(server, &fd))
        turn_away(server, fd, text, "too many connections");
    else if (at->local && !listener_is_member(fd))
        turn_away(server, fd, at->text, "another user");
    else if (peer_open(&server->peers, fd, at->file) != TARRY_OK)
        newcomers_refused(&server->peers, false, text, "no memory for it");
}

static void on_readable(listener *at)
{
    tarry_tcp_server *server = at->all->owner;
    uint32_t displaced = server->peers.newcomers.displaced;
    for (uint32_t i = 0; i < ACCEPTED_PER_TURN &&
                         newcomers_may_come(&server->peers.newcomers, displaced, at->all->count);
         i++) {
        address from;
        int fd = listener_take(at, &from);
        if (fd >= 0) {
            take(at, fd, &from);
            continue;
        }
        if (listener_is_short()) {
            if (newcomers_displace(&server->peers))
                continue;
            tcp_server_accept(server, false); /* until the next tick */
            return;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* Workers on this machine find a shorter way by themselves, wherever else they are listened for. If
 * it can't be had, they take the other one. With credentials they prove who they are there, too. */
static void listen_near(tarry_tcp_server *server)
{
    uint8_t random[16];
    char text[ADDRESS_TEXT];
    bool has_one = server->credential == NULL && tcp_server_near_socket(server)[0] != '\0';
    if (!server->settings.share || has_one || RAND_bytes(random, sizeof(random)) != 1)
        return;
    hex_put(stpcpy(text, "unix:@tarry-"), random, sizeof(random));
    listeners_add(&server->listeners, text, NULL);
}

int tcp_server_listen(tarry_tcp_server *server, tarry_diagnostic *diagnostic)
{
    listeners *all = &server->listeners;
    all->owner = server;
    all->security = &server->settings.security;
    all->secured = server->credential != NULL;
    for (uint32_t i = 0; i < server->settings.listen_count; i++) {
        int error = listeners_add(all, server->settings.listen[i], diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    server->address_count = all->count;
    listen_near(server);
    return TARRY_OK;
}

int tcp_server_open_listeners(tarry_tcp_server *server)
{
    return listeners_open(&server->listeners, &server->loop, on_readable);
}

void tcp_server_accept(tarry_tcp_server *server, bool accepting)
{
    if (server->open)
        listeners_accept(&server->listeners, accepting);
}
