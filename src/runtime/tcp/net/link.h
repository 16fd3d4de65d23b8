/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection as two streams of bytes, on a libuv loop: TCP or a Unix socket, plain or TLS. It
 * never blocks and keeps no bytes but those that OpenSSL does. All calls and handlers are on the
 * loop's thread. How long connecting and the handshake may take is the caller's business.
 */
#ifndef TCP_LINK_H
#define TCP_LINK_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>
#include <uv.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

typedef struct tcp_link tcp_link; /* not 'link': <unistd.h> has a function of that name */

/* What link_read and link_write give back instead of a number of bytes. */
enum {
    LINK_AGAIN = -1,  /* nothing now: `readable` or `writable` will be called */
    LINK_CLOSED = -2, /* read: the peer ended its stream in good order */
    LINK_BROKEN = -3, /* link_failure says why */
};

typedef struct link_handlers {
    void *user;
    void (*ready)(void *user);    /* the connection is made and, with TLS, the peer verified */
    void (*readable)(void *user); /* read; called again in the next turn while bytes are left */
    void (*writable)(void *user); /* after a write that gave LINK_AGAIN or less than all */
    void (*failed)(void *user);   /* connecting or the handshake did; link_failure says why */
} link_handlers;

/*
 * Takes over the socket `fd` (non-blocking from then on), connected or, with `connecting`, about to
 * be. ssl: NULL for plain text; else taken over, set to accept or connect. Nagle's algorithm is
 * off, and what the kernel holds of unsent bytes is bounded (TCP_NOTSENT_LOWAT), so that small
 * frames overtake large ones even on a slow link. No handler is called from within. Errors:
 * NO_MEMORY, SYSTEM; fd and ssl are closed then.
 */
int link_open(uv_loop_t *loop, int fd, SSL *ssl, bool connecting, const link_handlers *handlers,
              const tarry_allocator *allocator, tcp_link **out);
/* Ends the connection at once; no handler is called any more. Memory is freed once libuv has let
 * go of it, in the loop. NULL is allowed. */
void link_close(tcp_link *link);

/* Bytes read into the parts, in their order (TLS: the first ones), >= 1; or one of the above. */
ptrdiff_t link_read(tcp_link *link, const struct iovec *parts, int count);
/* Bytes written from the parts, in their order, >= 1; or one of the above. With TLS a write that
 * gave less than all, or LINK_AGAIN, is continued with the same bytes, wherever they lie then, and
 * a first part that is no shorter. */
ptrdiff_t link_write(tcp_link *link, const struct iovec *parts, int count);
/* As link_write, from another thread than the loop's, which writes nothing meanwhile: bytes that
 * went out, or 0. `writable` is not called for the rest, and nothing is said of failures. Only of
 * an open connection in plain text; else 0. */
size_t link_write_aside(const tcp_link *link, const void *bytes, size_t size);
/* True if it is broken since the peer, which was verified, says that our certificate is revoked. */
bool link_is_revoked(const tcp_link *link);
/* The peer sees the end of our stream behind all that was written; nothing is written after it. */
void link_end_writing(tcp_link *link);
/* While held, nothing is read and `readable` is not called: TCP slows the peer down. */
void link_hold(tcp_link *link, bool held);

/* Why it is broken, closed or failed, for a log line: "connection reset by peer", "certificate has
 * expired", ...; valid until link_close. */
const char *link_failure(const tcp_link *link);
/* NULL for plain text. */
SSL *link_ssl(const tcp_link *link);
/* "192.0.2.7:41234", "unix (user 1000, process 4711)". */
const char *link_peer(const tcp_link *link);
bool link_is_unix(const tcp_link *link);
/* One way, by the kernel's least round trip; 0: not known. */
uint64_t link_latency_ns(const tcp_link *link);

#endif
