/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/link.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/latency.h"
#include "runtime/tcp/net/link_tls.h"

enum {
    /* Unsent bytes that the kernel holds of a TCP connection; what is sent later waits behind them.
     * The kernel asks for more when half of them are gone. */
    UNSENT_BYTES = 256 << 10,
    HANDLES = 2,
};

typedef enum stage { STAGE_CONNECTING, STAGE_HANDSHAKE, STAGE_OPEN, STAGE_OVER } stage;

struct tcp_link {
    uv_poll_t poll;
    uv_idle_t more; /* runs while bytes are to be read that make no socket readable */
    unsigned handles;
    tarry_allocator allocator;
    link_handlers handlers;
    link_tls tls;
    int fd;
    int watched; /* events that libuv was asked for */
    stage stage;
    bool is_unix;
    bool closed;
    bool held;
    bool wants_write;  /* a write was cut short */
    bool wants_end;    /* the stream's end is still to be written */
    bool wants_room;   /* to read: OpenSSL has something to write first */
    bool inside;       /* OpenSSL may hold bytes: reading has not come to LINK_AGAIN since */
    bool read_over;    /* the last word of the peer's stream was read */
    bool socket_fault; /* libuv has told of an error and watches the socket no more */
    char peer[ADDRESS_TEXT];
    char failure[LINK_FAILURE_TEXT];
};

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_more(uv_idle_t *idle);

/* Each change costs some calls of epoll_ctl, so events that are not wanted any more are still
 * watched until one comes. */
static void watch(tcp_link *link, int events)
{
    if (events == link->watched || link->socket_fault)
        return;
    link->watched = events;
    int status =
        events != 0 ? uv_poll_start(&link->poll, events, on_poll) : uv_poll_stop(&link->poll);
    assert(status == 0);
    (void)status;
}

static int wanted_events(const tcp_link *link)
{
    bool read = !link->held && !link->read_over;
    bool write = link->wants_write || link->wants_end || (read && link->wants_room);
    return (read && !link->wants_room ? UV_READABLE : 0) | (write ? UV_WRITABLE : 0);
}

static void watch_more(tcp_link *link)
{
    watch(link, link->watched | wanted_events(link));
}

static void update_more(tcp_link *link)
{
    bool run = !link->closed && !link->held && !link->read_over && link->stage == STAGE_OPEN &&
               ((link->inside && !link->wants_room) || link->socket_fault);
    if (run)
        uv_idle_start(&link->more, on_more);
    else
        uv_idle_stop(&link->more);
}

static void find_peer(tcp_link *link)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    address peer = {.size = sizeof(peer.socket)};
    if (link->is_unix) {
        if (getsockopt(link->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0)
            snprintf(link->peer, sizeof(link->peer), "unix (user %u, process %d)",
                     (unsigned)credentials.uid, (int)credentials.pid);
    } else if (getpeername(link->fd, (struct sockaddr *)&peer.socket, &peer.size) == 0) {
        address_text(&peer, link->peer);
    }
}

static void fail(tcp_link *link)
{
    link->stage = STAGE_OVER;
    watch(link, 0);
    if (link->failure[0] == '\0')
        snprintf(link->failure, sizeof(link->failure), "connection broken");
    link->handlers.failed(link->handlers.user);
}

static void become_ready(tcp_link *link)
{
    link->stage = STAGE_OPEN;
    find_peer(link);
    /* The first bytes may have come with the end of the handshake. */
    link->inside = link->tls.ssl != NULL;
    watch(link, wanted_events(link));
    update_more(link);
    link->handlers.ready(link->handlers.user);
}

/* One step of connecting or of the handshake. */
static void proceed(tcp_link *link)
{
    if (link->stage == STAGE_CONNECTING) {
        int error = 0;
        socklen_t size = sizeof(error);
        if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
        if (error != 0) {
            snprintf(link->failure, sizeof(link->failure), "%s", strerror(error));
            fail(link);
            return;
        }
        link->stage = STAGE_HANDSHAKE;
    }
    int came_to = link->tls.ssl != NULL ? link_tls_handshake(&link->tls, link->failure) : TARRY_OK;
    if (came_to == TARRY_OK)
        become_ready(link);
    else if (came_to == LINK_AGAIN && !link->socket_fault)
        watch(link, link->tls.to_write ? UV_WRITABLE : UV_READABLE);
    else
        fail(link); /* with a fault and AGAIN, OpenSSL has no words for it */
}

static void end_writing(tcp_link *link)
{
    int came_to =
        link->tls.ssl != NULL ? link_tls_end_writing(&link->tls, link->failure) : TARRY_OK;
    link->wants_end = came_to == LINK_AGAIN;
    if (!link->wants_end)
        shutdown(link->fd, SHUT_WR);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    tcp_link *link = poll->data;
    if (status < 0) {
        /* What came before the error can still be read; reading then runs into the error itself. */
        link->socket_fault = true;
        link->watched = 0;
        events = UV_READABLE | UV_WRITABLE;
    }
    if (link->stage == STAGE_OVER)
        return;
    if (link->stage != STAGE_OPEN) {
        proceed(link);
        return;
    }
    int wanted = wanted_events(link);
    if (events & UV_WRITABLE)
        link->wants_room = false;
    if ((events & UV_WRITABLE) && link->wants_end) {
        end_writing(link);
    } else if ((events & UV_WRITABLE) && link->wants_write) {
        link->wants_write = false;
        link->handlers.writable(link->handlers.user);
    }
    if (!link->closed && (events & UV_READABLE) && !link->held && !link->read_over &&
        !link->wants_room && !uv_is_active((const uv_handle_t *)&link->more))
        link->handlers.readable(link->handlers.user);
    if (link->closed)
        return;
    update_more(link);
    if (events & ~wanted)
        watch(link, wanted_events(link));
}

static void on_more(uv_idle_t *idle)
{
    tcp_link *link = idle->data;
    link->handlers.readable(link->handlers.user);
    if (!link->closed)
        update_more(link);
}

static int prepare_socket(int fd, bool *is_unix)
{
    int domain = 0;
    socklen_t size = sizeof(domain);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0)
        return TARRY_ERROR_SYSTEM;
    *is_unix = domain == AF_UNIX;
    if (*is_unix)
        return TARRY_OK;
    int on = 1;
    int unsent = UNSENT_BYTES;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent)) != 0)
        return TARRY_ERROR_SYSTEM;
    return TARRY_OK;
}

int link_open(uv_loop_t *loop, int fd, SSL *ssl, bool connecting, const link_handlers *handlers,
              const tarry_allocator *allocator, tcp_link **out)
{
    int error = TARRY_ERROR_NO_MEMORY;
    tcp_link *link = memory_allocate(allocator, 1, sizeof(*link));
    if (link == NULL)
        goto close_both;
    link->allocator = memory_allocator(allocator);
    link->handlers = *handlers;
    link->fd = fd;
    snprintf(link->peer, sizeof(link->peer), "unknown");
    error = prepare_socket(fd, &link->is_unix);
    if (error != TARRY_OK)
        goto free_link;
    if (uv_poll_init_socket(loop, &link->poll, fd) != 0) {
        error = TARRY_ERROR_SYSTEM;
        goto free_link;
    }
    uv_idle_init(loop, &link->more);
    link->poll.data = link;
    link->more.data = link;
    link->handles = HANDLES;
    if (!connecting)
        find_peer(link);
    if (ssl != NULL && link_tls_init(&link->tls, ssl, fd) != TARRY_OK) {
        link_close(link);
        return TARRY_ERROR_NO_MEMORY;
    }
    /* A socket that is connected already is writable at once, so that both begin alike. But OpenSSL
     * takes its buffers when the handshake begins: a client that never begins it shall get none. */
    watch(link, ssl != NULL && !connecting ? UV_READABLE : UV_WRITABLE);
    *out = link;
    return TARRY_OK;

free_link:
    memory_release(allocator, link);
close_both:
    SSL_free(ssl);
    close(fd);
    return error;
}

static void on_closed(uv_handle_t *handle)
{
    tcp_link *link = handle->data;
    if (--link->handles > 0)
        return;
    tarry_allocator allocator = link->allocator;
    memory_release(&allocator, link);
}

void link_close(tcp_link *link)
{
    if (link == NULL || link->closed)
        return;
    link->closed = true;
    uv_close((uv_handle_t *)&link->poll, on_closed);
    uv_close((uv_handle_t *)&link->more, on_closed);
    link_tls_free(&link->tls);
    close(link->fd);
}

/* What a call of the system that gave -1 came to. */
static int system_outcome(tcp_link *link)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return LINK_AGAIN;
    snprintf(link->failure, sizeof(link->failure), "%s", strerror(errno));
    return LINK_BROKEN;
}

static ptrdiff_t read_plain(tcp_link *link, const struct iovec *parts, int count)
{
    ssize_t got;
    do {
        got = readv(link->fd, parts, count);
    } while (got < 0 && errno == EINTR);
    if (got > 0)
        return got;
    return got == 0 ? LINK_CLOSED : system_outcome(link);
}

static ptrdiff_t write_plain(tcp_link *link, const struct iovec *parts, int count)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t sent;
    do {
        sent = sendmsg(link->fd, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent >= 0 ? sent : system_outcome(link);
}

ptrdiff_t link_read(tcp_link *link, const struct iovec *parts, int count)
{
    if (link->stage != STAGE_OPEN)
        return link->stage == STAGE_OVER ? LINK_BROKEN : LINK_AGAIN;
    ptrdiff_t got;
    if (link->tls.ssl == NULL) {
        got = read_plain(link, parts, count);
    } else {
        got = link_tls_read(&link->tls, parts, count, link->failure);
        link->inside = !link->tls.to_read;
        link->wants_room = link->tls.to_write;
        if (link->wants_room)
            watch_more(link);
    }
    if (got == LINK_AGAIN && link->socket_fault) {
        snprintf(link->failure, sizeof(link->failure), "connection broken");
        got = LINK_BROKEN;
    }
    if (got == LINK_CLOSED || got == LINK_BROKEN)
        link->read_over = true;
    if (got == LINK_CLOSED)
        snprintf(link->failure, sizeof(link->failure), "closed by the peer");
    update_more(link);
    return got;
}

ptrdiff_t link_write(tcp_link *link, const struct iovec *parts, int count)
{
    if (link->stage != STAGE_OPEN)
        return link->stage == STAGE_OVER ? LINK_BROKEN : LINK_AGAIN;
    size_t all = 0;
    for (int i = 0; i < count; i++)
        all += parts[i].iov_len;
    ptrdiff_t sent = link->tls.ssl == NULL
                         ? write_plain(link, parts, count)
                         : link_tls_write(&link->tls, parts, count, link->failure);
    if (sent != LINK_BROKEN && (sent == LINK_AGAIN || (size_t)sent < all)) {
        link->wants_write = true;
        watch_more(link);
    }
    return sent;
}

size_t link_write_aside(const tcp_link *link, const void *bytes, size_t size)
{
    if (link->tls.ssl != NULL)
        return 0;
    ssize_t sent = send(link->fd, bytes, size, MSG_NOSIGNAL);
    return sent > 0 ? (size_t)sent : 0;
}

void link_end_writing(tcp_link *link)
{
    if (link->stage != STAGE_OPEN)
        return;
    link->wants_write = false;
    end_writing(link);
    watch_more(link);
}

void link_hold(tcp_link *link, bool held)
{
    if (link->held == held)
        return;
    link->held = held;
    if (link->stage != STAGE_OPEN)
        return;
    if (!held)
        watch_more(link);
    update_more(link);
}

const char *link_failure(const tcp_link *link)
{
    return link->failure;
}

bool link_is_revoked(const tcp_link *link)
{
    return link->tls.revoked;
}

SSL *link_ssl(const tcp_link *link)
{
    return link->tls.ssl;
}

const char *link_peer(const tcp_link *link)
{
    return link->peer;
}

bool link_is_unix(const tcp_link *link)
{
    return link->is_unix;
}

uint64_t link_latency_ns(const tcp_link *link)
{
    return link->is_unix ? 0 : latency_of(link->fd);
}
