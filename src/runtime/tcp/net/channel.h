/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames (protocol/wire.h) between this side and one peer, over a link. Small frames go
 * out in the order in which they are sent, and ahead of large ones that wait; a large frame's bytes
 * are never copied: on the way out they are read where the sender keeps them, on the way in they
 * come straight to where the receiver wants them. What a peer can make this side hold is bounded.
 * All calls and handlers are on the loop's thread, but for channel_send_aside.
 */
#ifndef RUNTIME_CHANNEL_H
#define RUNTIME_CHANNEL_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>
#include <uv.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/event.h>

#include "protocol/wire/wire.h"

typedef struct channel channel;

enum {
    CHANNEL_PREFIX_BYTES = 64, /* head and fixed part of a large frame */
    CHANNEL_SHARED_BYTES = 64 << 10,
};

typedef struct channel_settings {
    size_t most_waiting;  /* bytes of small frames that wait to go out */
    uint32_t most_length; /* longest body that is taken, of any kind, at first; the kinds' own
                             limits hold as well */
    uint8_t *shared; /* CHANNEL_SHARED_BYTES to read into; borrowed. One is enough for all channels
                        of a loop: nothing is left in it when a handler of the loop returns */
} channel_settings;

typedef enum channel_verdict {
    CHANNEL_TAKE, /* the bytes go to *place; to nowhere if that is NULL */
    CHANNEL_WAIT, /* nothing more is read until channel_resume, which asks anew */
    CHANNEL_END,  /* the channel was closed, or will be: read nothing more */
} channel_verdict;

typedef enum channel_end {
    CHANNEL_PEER_CLOSED, /* in good order, between two frames */
    CHANNEL_BROKEN,      /* channel_failure says why */
    CHANNEL_NO_MEMORY,   /* here, for what is to be sent or kept: the peer may be well */
    CHANNEL_NOT_FRAMES,  /* what came is not of this protocol; channel_failure says what */
    CHANNEL_REVOKED,     /* the peer, which was verified, says that our certificate is revoked */
    CHANNEL_STUCK,       /* more small frames wait for it than `most_waiting` allows */
} channel_end;

typedef struct channel_handlers {
    void *user;
    void (*opened)(void *user); /* connected and, with TLS, verified */
    void (*heard)(void *user);  /* bytes came, once per turn of the loop */
    /* A whole frame; `body` is borrowed. False: read nothing more (the channel was closed, or will
     * be). */
    bool (*frame)(void *user, const wire_head *head, const uint8_t *body);
    /* A large frame has begun: its fixed part (wire_fixed_length) is there, `bytes` more come. Only
     * kinds with such a length behind them: PART, PARAMETERS, BLOB. */
    channel_verdict (*begin)(void *user, const wire_head *head, const uint8_t *fixed, size_t bytes,
                             void **place);
    /* They are all at the place that was given, which is not written to any more. False: as above.
     */
    bool (*complete)(void *user, const wire_head *head, const uint8_t *fixed);
    void (*drained)(void *user); /* everything that was sent has been given to the kernel */
    /* Nothing is read or sent any more, no other handler is called; still to be closed by
     * channel_close. Only ever called from the loop, not from within a call of this module. */
    void (*ended)(void *user, channel_end how);
} channel_handlers;

typedef struct channel_load {
    const void *bytes; /* borrowed until `released` */
    size_t size;
    uint32_t tag;                              /* the caller's, for channel_drop */
    void (*released)(void *user, void *owner); /* not read any more: sent, dropped, or the channel
                                                  is closed; `user` is that of the handlers */
    void *owner;
} channel_load;

/* Takes over what link_open takes over. Errors: NO_MEMORY, SYSTEM; fd and ssl are closed then. */
int channel_open(uv_loop_t *loop, int fd, SSL *ssl, bool connecting,
                 const channel_settings *settings, const channel_handlers *handlers,
                 const tarry_allocator *allocator, channel **out);
/* Ends it at once; every large frame that waits is released from within, and no handler is called
 * any more. May be called from within a handler. Its memory is freed in the loop, which has to go
 * on running for that. NULL is allowed. */
void channel_close(channel *self);
/* The same, but the small frames and the large one that is on its way go out first, and the peer
 * gets the time to read them: at most `most_ns` for both. Large ones that have not begun are
 * dropped. The caller forgets the channel. */
void channel_close_gently(channel *self, uint64_t most_ns);

/* A frame of head and body, copied; it goes out in the loop, together with others. Allowed before
 * `opened`. False: it ended (CHANNEL_STUCK; `ended` is called from the
 * loop, not from here), or there is no memory, which ends it as well. */
bool channel_send(channel *self, const uint8_t *frame, size_t size);

/*
 * The same by another thread than the loop's, and at once, if nothing waits that has to go out
 * before. Gives back how many bytes went out: all; 0, and the loop's thread is to send it; or
 * fewer, and nothing that is sent from then on makes sense to the peer. Only between `opened` and
 * the call that closes it, which waits meanwhile; with TLS always 0.
 */
size_t channel_send_aside(channel *self, const uint8_t *frame, size_t size);

/* A frame whose head and fixed part (`size` bytes, at most 64, copied) stand before the load's
 * bytes. Loads go out in their order. False as above; the load is not taken then. */
bool channel_send_load(channel *self, const uint8_t *prefix, size_t size, const channel_load *load);
/* Drops the loads of this tag of which nothing has been sent. Gives back whether one of the tag is
 * on its way whose bytes are still borrowed. */
bool channel_drop(channel *self, uint32_t tag);
/* The load of this tag that is on its way, if any, is copied, so that its bytes are released before
 * this returns. False: no memory; the channel ends. */
bool channel_detach(channel *self, uint32_t tag);
/* The rest of a large frame of this kind that is coming in, if one is, goes to nowhere: its place
 * is not written to any more. `complete` is called all the same. */
void channel_divert(channel *self, wire_kind kind);
/* Of TCP, the system takes so many bytes that are not sent yet, and no more: what is sent next
 * waits behind them. */
void channel_hold_unsent(const channel *self, int bytes);
/* Loads that wait or are on their way. */
size_t channel_loads(const channel *self);

/* The longest body that is taken from now on. */
void channel_allow(channel *self, uint32_t most_length);
/* After CHANNEL_WAIT: asks `begin` again, from the loop. */
void channel_resume(channel *self);
/* Nothing is read since CHANNEL_WAIT: silence says nothing about the peer. */
bool channel_is_waiting(const channel *self);
uint64_t channel_received(const channel *self); /* bytes, as counted by frames */
uint64_t channel_sent(const channel *self);
const char *channel_failure(const channel *self);
const char *channel_peer(const channel *self);
/* NULL: it is in plain text. */
SSL *channel_ssl(const channel *self);
/* The peer's, borrowed, once it is verified; NULL: it has none. */
X509 *channel_certificate(const channel *self);
bool channel_is_unix(const channel *self);

/*
 * One connection as two streams of bytes, on a libuv loop: TCP or a Unix socket, plain or TLS. It
 * never blocks and keeps no bytes but those that OpenSSL does. All calls and handlers are on the
 * loop's thread. How long connecting and the handshake may take is the caller's business.
 */

typedef struct tcp_link tcp_link; /* not 'link': <unistd.h> has a function of that name */

/* What link_read and link_write give back instead of a number of bytes. */
enum {
    LINK_AGAIN = -1,  /* nothing now: `readable` or `writable` will be called */
    LINK_CLOSED = -2, /* read: the peer ended its stream in good order */
    LINK_BROKEN = -3, /* link_failure says why */
};

/* Bytes read into the parts, in their order (TLS: the first ones), >= 1; or one of the above. */
ptrdiff_t link_read(tcp_link *link, const struct iovec *parts, int count);
/* While held, nothing is read and `readable` is not called: TCP slows the peer down. */
void link_hold(tcp_link *link, bool held);

/*
 * TLS on a socket that does not block: a link's other half when it is not plain text. It knows no
 * loop. OpenSSL's own socket BIO is not used, as writing to a connection that is gone would raise
 * SIGPIPE in the process that the library is part of.
 */

enum { LINK_FAILURE_TEXT = 160 };

typedef struct link_tls {
    SSL *ssl; /* NULL: plain text */
    BIO_METHOD *method;
    int fd;
    size_t handshake_bytes; /* that came of it */
    bool open;              /* it is over */
    uint64_t received;      /* bytes that the peer has written since */
    uint32_t renewals;      /* of keys, by the peer */
    bool unfinished;        /* the last write was cut short within a record */
    uint32_t records;       /* written with the key in use, which is renewed */
    uint32_t most_records;  /* after so many */
    int error;              /* errno of the last call of the system that failed; 0: none did */
    bool ended;             /* the peer's stream of bytes ended */
    bool revoked;           /* the peer was verified, and says that our certificate is revoked */
    bool to_read;           /* what gave LINK_AGAIN waits for bytes to come, */
    bool to_write;          /* or for room to write */
} link_tls;

/* Takes over ssl, also on failure. `tls` stays where it is. Errors: NO_MEMORY. */
int link_tls_init(link_tls *tls, SSL *ssl, int fd);
/* Allowed after a failed init, and twice. */
void link_tls_free(link_tls *tls);

/* What each of these gives back: TARRY_OK or LINK_AGAIN, or LINK_BROKEN with a failure. */
int link_tls_handshake(link_tls *tls, char failure[LINK_FAILURE_TEXT]);

/* As link_read and link_write. */
ptrdiff_t link_tls_read(link_tls *tls, const struct iovec *parts, int count,
                        char failure[LINK_FAILURE_TEXT]);
ptrdiff_t link_tls_write(link_tls *tls, const struct iovec *parts, int count,
                         char failure[LINK_FAILURE_TEXT]);

#endif
