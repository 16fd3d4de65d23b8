/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/link_tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <tarry/error.h>

#include "runtime/tcp/net/link.h"
#include "runtime/tcp/trust/credential_verify.h"

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

int link_tls_end_writing(link_tls *tls, char failure[LINK_FAILURE_TEXT])
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
