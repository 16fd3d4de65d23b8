/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS on a socket that does not block: a link's other half when it is not plain text. It knows no
 * loop. OpenSSL's own socket BIO is not used, as writing to a connection that is gone would raise
 * SIGPIPE in the process that the library is part of.
 */
#ifndef TCP_LINK_TLS_H
#define TCP_LINK_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

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
/* Says that nothing more will be written. */
int link_tls_end_writing(link_tls *tls, char failure[LINK_FAILURE_TEXT]);

/* As link_read and link_write. */
ptrdiff_t link_tls_read(link_tls *tls, const struct iovec *parts, int count,
                        char failure[LINK_FAILURE_TEXT]);
ptrdiff_t link_tls_write(link_tls *tls, const struct iovec *parts, int count,
                         char failure[LINK_FAILURE_TEXT]);

#endif
