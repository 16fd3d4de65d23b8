/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/channel.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/event.h>

#include "base/memory.h"
#include "protocol/wire/wire.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/channel_state.h"
#include "runtime/tcp/trust/credential.h"

typedef struct link_handlers {
    void *user;
    void (*ready)(void *user);    /* the connection is made and, with TLS, the peer verified */
    void (*readable)(void *user); /* read; called again in the next turn while bytes are left */
    void (*writable)(void *user); /* after a write that gave LINK_AGAIN or less than all */
    void (*failed)(void *user);   /* connecting or the handshake did; link_failure says why */
} link_handlers;

enum {
    /* OpenSSL hands on one record at a time, of at most 16 KiB. Reading several at once saves the
     * call for each record's head and one for each record. */
    READ_AHEAD_BYTES = 64 << 10,
    /* Nobody is verified before the end of the handshake; a member's are less than 3 KiB. */
    HANDSHAKE_MOST = 32 << 10,
    SIZE_OF_ONE_CALL = 1 << 30, /* SSL_read and SSL_write count in int */
    /* AES-GCM is good for 2^24.5 records with one key (RFC 8446, 5.5). This many are 64 GiB. */
    RECORDS_PER_KEY = 1 << 22,
    /* A peer that does nothing else but renew its keys would be read for ever. It may so often, and
     * once more with each so many bytes. */
    RENEWALS_FREE = 16,
    BYTES_PER_RENEWAL = 1 << 20,
};

static void link_close(tcp_link *link);

static void channel_write_turn(channel *self);
static void channel_release(channel *self);
static bool channel_settle(channel *self);
static bool channel_has_sent_all(const channel *self);
static void channel_free_out(channel *self);

static int bio_write(BIO *bio, const char *bytes, int size)
{
    link_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t sent;
    do {
        sent = send(tls->fd, bytes, (size_t)size, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_write(bio);
    else if (sent < 0)
        tls->error = errno;
    return (int)sent;
}

static bool renews_too_often(const link_tls *tls)
{
    return tls->renewals > RENEWALS_FREE + tls->received / BYTES_PER_RENEWAL;
}

/* The messages that come once the handshake is over: KeyUpdate, and tickets, of which there are
 * none. */
static void on_message(int written, int version, int type, const void *bytes, size_t size, SSL *ssl,
                       void *user)
{
    (void)version;
    (void)bytes;
    (void)size;
    (void)ssl;
    link_tls *tls = user;
    if (!written && type == SSL3_RT_HANDSHAKE && tls->open)
        tls->renewals++;
}

static int bio_read(BIO *bio, char *bytes, int size)
{
    link_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (renews_too_often(tls)) /* it would go on with the next one */
        return -1;
    ssize_t got;
    do {
        got = recv(tls->fd, bytes, (size_t)size, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_read(bio);
    else if (got < 0)
        tls->error = errno;
    else if (got == 0)
        tls->ended = true;
    else if (!tls->open && (tls->handshake_bytes += (size_t)got) > HANDSHAKE_MOST) {
        tls->error = EMSGSIZE;
        return -1;
    }
    return (int)got;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    const link_tls *tls = BIO_get_data(bio);
    switch (command) {
    case BIO_CTRL_FLUSH: /* nothing is held back */
        return 1;
    case BIO_CTRL_EOF:
        return tls->ended;
    default:
        return 0;
    }
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tarry link");
    if (method == NULL)
        return NULL;
    if (BIO_meth_set_write(method, bio_write) == 1 && BIO_meth_set_read(method, bio_read) == 1 &&
        BIO_meth_set_ctrl(method, bio_control) == 1)
        return method;
    BIO_meth_free(method);
    return NULL;
}

int link_tls_init(link_tls *tls, SSL *ssl, int fd)
{
    *tls =
        (link_tls){.ssl = ssl, .fd = fd, .method = make_method(), .most_records = RECORDS_PER_KEY};
    BIO *bio = tls->method != NULL ? BIO_new(tls->method) : NULL;
    if (bio == NULL) {
        link_tls_free(tls);
        return TARRY_ERROR_NO_MEMORY;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_msg_callback(ssl, on_message);
    SSL_set_msg_callback_arg(ssl, tls);
    /* Buffers are released while nothing is in them: most connections are idle most of the time. */
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS);
    return TARRY_OK;
}

/* Whoever is verified is worth more memory. */
static void open_up(link_tls *tls)
{
    tls->open = true;
    SSL_set_read_ahead(tls->ssl, 1);
    SSL_set_default_read_buffer_len(tls->ssl, READ_AHEAD_BYTES);
}

void link_tls_free(link_tls *tls)
{
    SSL_free(tls->ssl);
    BIO_meth_free(tls->method);
    tls->ssl = NULL;
    tls->method = NULL;
}

/* The innermost words on why: the certificate's fault, the system's, or OpenSSL's first complaint.
 */
static void explain(const link_tls *tls, char failure[LINK_FAILURE_TEXT])
{
    long verified = SSL_get_verify_result(tls->ssl);
    unsigned long complaint = ERR_peek_error();
    char name[CREDENTIAL_NAME_SIZE];
    if (tls->error != 0)
        snprintf(failure, LINK_FAILURE_TEXT, "%s", strerror(tls->error));
    else if (verified == X509_V_ERR_CERT_REVOKED && credential_claimed_name(tls->ssl, name))
        snprintf(failure, LINK_FAILURE_TEXT, "the certificate of %s is revoked", name);
    else if (verified != X509_V_OK)
        snprintf(failure, LINK_FAILURE_TEXT, "peer's certificate: %s",
                 credential_verify_text(verified));
    else if (renews_too_often(tls))
        snprintf(failure, LINK_FAILURE_TEXT, "renews its keys too often");
    else if (tls->ended)
        snprintf(failure, LINK_FAILURE_TEXT, "connection cut off by the peer (no end of TLS)");
    else if (tls->revoked)
        snprintf(failure, LINK_FAILURE_TEXT, "our certificate is revoked");
    else if (complaint != 0 && ERR_reason_error_string(complaint) != NULL)
        snprintf(failure, LINK_FAILURE_TEXT, "TLS: %s", ERR_reason_error_string(complaint));
    else
        snprintf(failure, LINK_FAILURE_TEXT, "TLS failed");
}

/* What a call of OpenSSL that gave `result` <= 0 came to. */
static int outcome(link_tls *tls, int result, char failure[LINK_FAILURE_TEXT])
{
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        tls->to_read = true;
        return LINK_AGAIN;
    case SSL_ERROR_WANT_WRITE:
        tls->to_write = true;
        return LINK_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return LINK_CLOSED;
    default:
        /* Only over the finished handshake: before it, anybody on the way could write this. */
        tls->revoked = tls->open && ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_SSL &&
                       ERR_GET_REASON(ERR_peek_error()) == SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED;
        explain(tls, failure);
        ERR_clear_error();
        return LINK_BROKEN;
    }
}

static void begin_call(link_tls *tls)
{
    tls->to_read = false;
    tls->to_write = false;
    ERR_clear_error();
}

int link_tls_handshake(link_tls *tls, char failure[LINK_FAILURE_TEXT])
{
    begin_call(tls);
    int result = SSL_do_handshake(tls->ssl);
    if (result == 1) {
        open_up(tls);
        return TARRY_OK;
    }
    int came_to = outcome(tls, result, failure);
    bool told = tls->error != 0 || SSL_get_verify_result(tls->ssl) != X509_V_OK;
    if (came_to != LINK_CLOSED && (came_to != LINK_BROKEN || !tls->ended || told))
        return came_to;
    snprintf(failure, LINK_FAILURE_TEXT,
             "ended by the peer in the TLS handshake (does it speak plain text?)");
    return LINK_BROKEN;
}

/* Says that nothing more will be written. */
static int link_tls_end_writing(link_tls *tls, char failure[LINK_FAILURE_TEXT])
{
    begin_call(tls);
    int result = SSL_shutdown(tls->ssl);
    return result >= 0 ? TARRY_OK : outcome(tls, result, failure);
}

ptrdiff_t link_tls_read(link_tls *tls, const struct iovec *parts, int count,
                        char failure[LINK_FAILURE_TEXT])
{
    ptrdiff_t total = 0;
    for (int i = 0; i < count; i++) {
        for (size_t at = 0; at < parts[i].iov_len;) {
            size_t left = parts[i].iov_len - at;
            begin_call(tls);
            int got = SSL_read(tls->ssl, (char *)parts[i].iov_base + at,
                               left < SIZE_OF_ONE_CALL ? (int)left : SIZE_OF_ONE_CALL);
            if (got <= 0) {
                /* An end that came behind bytes is told again by the next call. */
                int came_to = outcome(tls, got, failure);
                return total > 0 ? total : came_to;
            }
            at += (size_t)got;
            total += got;
            tls->received += (uint64_t)got;
        }
    }
    return total;
}

/* OpenSSL leaves it to its callers to renew keys. While that is being written nothing can be read,
 * so that two sides that do it, and wait for room, would wait for each other: it is put off until
 * there is room. */
static void renew_worn_key(link_tls *tls)
{
    if (tls->records < tls->most_records || tls->unfinished)
        return;
    struct pollfd room = {.fd = tls->fd, .events = POLLOUT};
    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) &&
        SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
        tls->records = 0;
}

/* One SSL_write, of which at most 2^30 bytes count. */
static int write_some(link_tls *tls, const void *bytes, size_t size)
{
    renew_worn_key(tls);
    begin_call(tls);
    int sent = SSL_write(tls->ssl, bytes, size < SIZE_OF_ONE_CALL ? (int)size : SIZE_OF_ONE_CALL);
    tls->unfinished = sent <= 0;
    if (sent > 0)
        tls->records += ((uint32_t)sent - 1) / SSL3_RT_MAX_PLAIN_LENGTH + 1;
    return sent;
}

ptrdiff_t link_tls_write(link_tls *tls, const struct iovec *parts, int count,
                         char failure[LINK_FAILURE_TEXT])
{
    ptrdiff_t total = 0;
    for (int i = 0; i < count; i++) {
        for (size_t at = 0; at < parts[i].iov_len;) {
            int sent = write_some(tls, (const char *)parts[i].iov_base + at, parts[i].iov_len - at);
            if (sent <= 0) {
                int came_to = outcome(tls, sent, failure);
                return total > 0 && came_to == LINK_AGAIN ? total : came_to;
            }
            at += (size_t)sent;
            total += sent;
        }
    }
    return total;
}

/* ---- link ---- */

enum {
    /* Unsent bytes that the kernel holds of a TCP connection; what is sent later waits behind them.
     * The kernel asks for more when half of them are gone. */
    UNSENT_BYTES = 256 << 10,
    LINK_HANDLES = 2,
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

/*
 * Takes over the socket `fd` (non-blocking from then on), connected or, with `connecting`, about to
 * be. ssl: NULL for plain text; else taken over, set to accept or connect. Nagle's algorithm is
 * off, and what the kernel holds of unsent bytes is bounded (TCP_NOTSENT_LOWAT), so that small
 * frames overtake large ones even on a slow link. No handler is called from within. Errors:
 * NO_MEMORY, SYSTEM; fd and ssl are closed then.
 */
static int link_open(uv_loop_t *loop, int fd, SSL *ssl, bool connecting,
                     const link_handlers *handlers, const tarry_allocator *allocator,
                     tcp_link **out)
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
    link->handles = LINK_HANDLES;
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

static void on_link_closed(uv_handle_t *handle)
{
    tcp_link *link = handle->data;
    if (--link->handles > 0)
        return;
    tarry_allocator allocator = link->allocator;
    memory_release(&allocator, link);
}

/* Ends the connection at once; no handler is called any more. Memory is freed once libuv has let
 * go of it, in the loop. NULL is allowed. */
static void link_close(tcp_link *link)
{
    if (link == NULL || link->closed)
        return;
    link->closed = true;
    uv_close((uv_handle_t *)&link->poll, on_link_closed);
    uv_close((uv_handle_t *)&link->more, on_link_closed);
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

/* Bytes written from the parts, in their order, >= 1; or one of the above. With TLS a write that
 * gave less than all, or LINK_AGAIN, is continued with the same bytes, wherever they lie then, and
 * a first part that is no shorter. */
static ptrdiff_t link_write(tcp_link *link, const struct iovec *parts, int count)
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

/* As link_write, from another thread than the loop's, which writes nothing meanwhile: bytes that
 * went out, or 0. `writable` is not called for the rest, and nothing is said of failures. Only of
 * an open connection in plain text; else 0. */
static size_t link_write_aside(const tcp_link *link, const void *bytes, size_t size)
{
    if (link->tls.ssl != NULL)
        return 0;
    ssize_t sent = send(link->fd, bytes, size, MSG_NOSIGNAL);
    return sent > 0 ? (size_t)sent : 0;
}

/* The peer sees the end of our stream behind all that was written; nothing is written after it. */
static void link_end_writing(tcp_link *link)
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

/* Why it is broken, closed or failed, for a log line: "connection reset by peer", "certificate has
 * expired", ...; valid until link_close. */
static const char *link_failure(const tcp_link *link)
{
    return link->failure;
}

/* True if it is broken since the peer, which was verified, says that our certificate is revoked. */
static bool link_is_revoked(const tcp_link *link)
{
    return link->tls.revoked;
}

/* NULL for plain text. */
static SSL *link_ssl(const tcp_link *link)
{
    return link->tls.ssl;
}

/* "192.0.2.7:41234", "unix (user 1000, process 4711)". */
static const char *link_peer(const tcp_link *link)
{
    return link->peer;
}

static bool link_is_unix(const tcp_link *link)
{
    return link->is_unix;
}

/* ---- channel ---- */

enum { HANDLES = 2, NS_PER_MS = 1000000 };

static void on_turn(uv_idle_t *idle);

/* Has the loop call the channel's turn. */
static void channel_wake(channel *self)
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

/* Reads and forgets. False: the stream is over. */
static bool channel_discard(channel *self)
{
    struct iovec part = {self->settings.shared, CHANNEL_SHARED_BYTES};
    ptrdiff_t got = link_read(self->link, &part, 1);
    return got > 0 || got == LINK_AGAIN;
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
    memory_release(&self->allocator, self->in.kept);
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

bool channel_is_waiting(const channel *self)
{
    return self->in.waiting;
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

/* ---- out ---- */

enum {
    PARTS_MOST = 32, /* of one write */
    SMALL_LEAST = 512,
    SMALL_IDLE = 4 << 10, /* more room than this is given back when nothing waits */
};

static size_t item_size(const channel_item *item)
{
    return item->prefix_size + item->load.size;
}

static void release(channel *self, channel_item *item)
{
    const channel_load load = item->load;
    memory_release(&self->allocator, item->copy);
    memory_release(&self->allocator, item);
    if (load.released != NULL)
        load.released(self->handlers.user, load.owner);
}

/* Its bytes are its own from here on, and the load's are released. */
static bool detach(channel *self, channel_item *item)
{
    if (item->copy != NULL)
        return true;
    size_t from = item->sent > item->prefix_size ? item->sent - item->prefix_size : 0;
    uint8_t *copy = memory_allocate(&self->allocator, item->load.size - from, 1);
    if (copy == NULL)
        return false;
    memcpy(copy, (const uint8_t *)item->load.bytes + from, item->load.size - from);
    item->copy = copy;
    item->copied = from;
    const channel_load load = item->load;
    item->load.bytes = NULL;
    item->load.released = NULL;
    if (load.released != NULL)
        load.released(self->handlers.user, load.owner);
    return true;
}

/* ---- what goes out next ---- */

static int add_item(const channel_item *item, struct iovec *parts)
{
    int count = 0;
    size_t at = item->sent;
    if (at < item->prefix_size) {
        parts[count++] = (struct iovec){(uint8_t *)item->prefix + at, item->prefix_size - at};
        at = item->prefix_size;
    }
    at -= item->prefix_size;
    if (at < item->load.size) {
        const uint8_t *bytes = item->copy != NULL ? item->copy + (at - item->copied)
                                                  : (const uint8_t *)item->load.bytes + at;
        parts[count++] = (struct iovec){(uint8_t *)bytes, item->load.size - at};
    }
    return count;
}

static int add_small(const channel_out *out, struct iovec *parts)
{
    if (out->start == out->end)
        return 0;
    parts[0] = (struct iovec){out->small + out->start, out->end - out->start};
    return 1;
}

/* A large frame that has begun, then all small ones, then large ones. */
static int gather(const channel_out *out, struct iovec parts[PARTS_MOST], size_t *bytes)
{
    int count = 0;
    const channel_item *item = out->first;
    if (item != NULL && item->begun) {
        count += add_item(item, parts);
        item = item->next;
    }
    count += add_small(out, parts + count);
    *bytes = 0;
    for (int i = 0; i < count; i++)
        *bytes += parts[i].iov_len;
    for (; item != NULL && count + 2 <= PARTS_MOST && *bytes < CHANNEL_TURN_BYTES;
         item = item->next) {
        count += add_item(item, parts + count);
        *bytes += item_size(item);
    }
    return count;
}

static size_t advance_item(channel_out *out, size_t size)
{
    channel_item *item = out->first;
    size_t left = item_size(item) - item->sent;
    item->begun = true;
    if (size < left) {
        item->sent += size;
        return size;
    }
    item->sent += left;
    out->first = item->next;
    if (out->first == NULL)
        out->last = &out->first;
    item->next = out->finished;
    out->finished = item;
    out->loads--;
    return left;
}

static void advance_small(channel *self, size_t size)
{
    channel_out *out = &self->out;
    out->start += size;
    if (out->start < out->end)
        return;
    out->start = 0;
    out->end = 0;
    if (out->capacity > SMALL_IDLE) {
        memory_release(&self->allocator, out->small);
        out->small = NULL;
        out->capacity = 0;
    }
}

/* `size` bytes of what gather found have gone out, and more could not. */
static void advance(channel *self, size_t size)
{
    channel_out *out = &self->out;
    out->sent += size;
    if (out->first != NULL && out->first->begun)
        size -= advance_item(out, size);
    if (out->first == NULL || !out->first->begun) {
        size_t small = out->end - out->start;
        if (small > size)
            small = size;
        advance_small(self, small);
        size -= small;
    }
    while (size > 0)
        size -= advance_item(out, size);
}

/* Nothing is written aside from now on, until all that waits has gone out. */
static void set_waiting(channel_out *out)
{
    if (out->waits)
        return;
    pthread_mutex_lock(&out->gate);
    out->waits = true;
    pthread_mutex_unlock(&out->gate);
}

/* With the gate held. */
static void write_out(channel *self)
{
    channel_out *out = &self->out;
    size_t moved = 0;
    while (moved < CHANNEL_TURN_BYTES && !out->broken && !out->blocked) {
        struct iovec parts[PARTS_MOST];
        size_t bytes;
        int count = gather(out, parts, &bytes);
        if (count == 0)
            return;
        ptrdiff_t sent = link_write(self->link, parts, count);
        if (sent < 0 && sent != LINK_AGAIN) {
            out->broken = true;
            return;
        }
        size_t size = sent < 0 ? 0 : (size_t)sent;
        out->blocked = size < bytes;
        moved += size;
        advance(self, size);
        /* OpenSSL may have made a record of what it could not write, which has to go first now. */
        if (out->blocked && out->start == out->end && out->first != NULL &&
            link_ssl(self->link) != NULL)
            out->first->begun = true;
    }
}

/* Writes for one turn. Calls no handler. */
static void channel_write_turn(channel *self)
{
    channel_out *out = &self->out;
    pthread_mutex_lock(&out->gate);
    write_out(self);
    out->waits = out->broken || !channel_has_sent_all(self);
    pthread_mutex_unlock(&out->gate);
}

size_t channel_send_aside(channel *self, const uint8_t *frame, size_t size)
{
    channel_out *out = &self->out;
    if (pthread_mutex_trylock(&out->gate) != 0)
        return 0; /* the loop writes just now */
    size_t sent = out->waits ? 0 : link_write_aside(self->link, frame, size);
    out->sent += sent;
    pthread_mutex_unlock(&out->gate);
    return sent;
}

/* ---- what is to be sent ---- */

static bool reserve(channel *self, size_t size)
{
    channel_out *out = &self->out;
    size_t waiting = out->end - out->start;
    if (size <= out->capacity - out->end)
        return true;
    if (out->start > 0)
        memmove(out->small, out->small + out->start, waiting);
    out->start = 0;
    out->end = waiting;
    if (waiting + size <= out->capacity / 2)
        return true;
    size_t capacity = memory_room(2 * out->capacity, waiting + size, SMALL_LEAST);
    uint8_t *grown = memory_grow(&self->allocator, out->small, waiting, capacity, 1);
    if (grown == NULL) {
        channel_fail(self, CHANNEL_NO_MEMORY, "out of memory");
        return false;
    }
    out->small = grown;
    out->capacity = capacity;
    return true;
}

static bool sends(const channel *self)
{
    return !self->closed && !self->failed && !self->leaving;
}

bool channel_send(channel *self, const uint8_t *frame, size_t size)
{
    channel_out *out = &self->out;
    if (!sends(self))
        return false;
    /* Many frames of one turn are no reason to give up a peer that would take them. */
    if (out->end - out->start + size > self->settings.most_waiting && self->open)
        channel_write_turn(self);
    if (out->end - out->start + size > self->settings.most_waiting) {
        channel_fail(self, CHANNEL_STUCK, "does not take what is sent to it");
        return false;
    }
    if (!reserve(self, size))
        return false;
    memcpy(out->small + out->end, frame, size);
    out->end += size;
    out->busy = true;
    set_waiting(out);
    channel_wake(self);
    return true;
}

bool channel_send_load(channel *self, const uint8_t *prefix, size_t size, const channel_load *load)
{
    channel_out *out = &self->out;
    assert(size > 0 && size <= CHANNEL_PREFIX_BYTES);
    if (!sends(self))
        return false;
    channel_item *item = memory_allocate(&self->allocator, 1, sizeof(*item));
    if (item == NULL) {
        channel_fail(self, CHANNEL_NO_MEMORY, "out of memory");
        return false;
    }
    item->load = *load;
    item->prefix_size = size;
    memcpy(item->prefix, prefix, size);
    *out->last = item;
    out->last = &item->next;
    out->loads++;
    out->busy = true;
    set_waiting(out);
    channel_wake(self);
    return true;
}

/* Takes the items for which `which` and `tag` stand out of a list, and gives them back as one. */
static channel_item *take_waiting(channel_out *out, bool all, uint32_t tag)
{
    channel_item *taken = NULL;
    channel_item **at = &out->first;
    while (*at != NULL) {
        channel_item *item = *at;
        if (item->begun || !(all || item->load.tag == tag)) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        item->next = taken;
        taken = item;
        out->loads--;
    }
    out->last = at;
    return taken;
}

static void release_list(channel *self, channel_item *list)
{
    while (list != NULL) {
        channel_item *item = list;
        list = item->next;
        release(self, item);
    }
}

/* Releases what has been sent. */
static void channel_release(channel *self)
{
    channel_item *list = self->out.finished;
    self->out.finished = NULL;
    release_list(self, list);
}

bool channel_drop(channel *self, uint32_t tag)
{
    channel_release(self);
    release_list(self, take_waiting(&self->out, false, tag));
    const channel_item *first = self->out.first;
    return first != NULL && first->load.tag == tag && first->copy == NULL;
}

bool channel_detach(channel *self, uint32_t tag)
{
    channel_release(self);
    channel_item *first = self->out.first;
    if (first == NULL || !first->begun || first->load.tag != tag || detach(self, first))
        return true;
    channel_fail(self, CHANNEL_NO_MEMORY, "out of memory");
    return false;
}

static bool channel_settle(channel *self)
{
    channel_release(self);
    release_list(self, take_waiting(&self->out, true, 0));
    return self->out.first == NULL || detach(self, self->out.first);
}

void channel_hold_unsent(const channel *self, int bytes)
{
    setsockopt(self->link->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

size_t channel_loads(const channel *self)
{
    return self->out.loads;
}

static bool channel_has_sent_all(const channel *self)
{
    return self->out.first == NULL && self->out.start == self->out.end;
}

static void channel_free_out(channel *self)
{
    channel_out *out = &self->out;
    channel_item *list = out->first;
    out->first = NULL;
    out->last = &out->first;
    out->loads = 0;
    channel_release(self);
    release_list(self, list);
    memory_release(&self->allocator, out->small);
    out->small = NULL;
    out->start = 0;
    out->end = 0;
    out->capacity = 0;
}
