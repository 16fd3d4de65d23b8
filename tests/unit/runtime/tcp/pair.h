/* SPDX-License-Identifier: Apache-2.0 */
/* Two connected sockets of each sort, and TLS contexts for them with certificates made on the spot.
 */
#ifndef TEST_TCP_PAIR_H
#define TEST_TCP_PAIR_H

#include <openssl/ssl.h>

typedef enum pair_sort { PAIR_SOCKETPAIR, PAIR_TCP, PAIR_UNIX, PAIR_SORTS } pair_sort;

/* fds[0] is the side that was accepted, fds[1] the one that connected. */
void pair_connect(pair_sort sort, int fds[2]);

typedef struct pair_contexts {
    SSL_CTX *server;   /* asks for a certificate and takes the client's alone */
    SSL_CTX *client;   /* takes the server's alone */
    SSL_CTX *stranger; /* a client whose certificate nobody knows */
} pair_contexts;

void pair_contexts_make(pair_contexts *contexts);
void pair_contexts_free(pair_contexts *contexts);
SSL *pair_accepting(const pair_contexts *contexts);
SSL *pair_connecting(SSL_CTX *client);

#endif
