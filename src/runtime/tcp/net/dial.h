/* SPDX-License-Identifier: Apache-2.0 */
/* The way to another process: whether plain text may be spoken to it, and a connection that has
 * begun, with TLS unless it goes to a socket's file. */
#ifndef TCP_DIAL_H
#define TCP_DIAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarry/error.h>
#include <tarry/tcp.h>

#include "runtime/tcp/net/address.h"
#include "runtime/tcp/trust/credential.h"

/* Keeps those of the addresses that are allowed, with a credential, or in plain text as the
 * settings say, and says how many they are. */
uint32_t dial_keep_allowed(const tarry_tcp_security *security, const credential *own,
                           address *found, uint32_t count);
/* Why none was. */
const char *dial_refusal(const tarry_tcp_security *security);

typedef struct dialed {
    int fd;
    SSL *ssl;   /* the caller's, with the descriptor; NULL: plain text */
    uid_t user; /* who listens; of a Unix socket alone */
} dialed;

/* Begins a connection. `own` may be NULL. Errors: SYSTEM (a Unix socket of another user's, too),
 * NO_MEMORY. */
int dial(const address *to, const credential *own, dialed *made, tarry_diagnostic *diagnostic);

#endif
