/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server listens: "HOST:PORT", "[::1]:PORT", ":PORT" (all interfaces, listening only), or
 * "unix:PATH"; a path that begins with @ is a name of the kernel's, within the network namespace,
 * and no file. None has control characters: paths are logged, and told to workers. */
#ifndef TCP_ADDRESS_H
#define TCP_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <tarry/error.h>

enum { ADDRESS_MOST = 8, ADDRESS_TEXT = 128 };

typedef struct address {
    struct sockaddr_storage socket;
    socklen_t size;
} address;

/* Checks the form of a text alone; the host may be missing where one listens. Errors: FORMAT. */
int address_check(const char *text, bool listening, tarry_diagnostic *diagnostic);
/* Whether it is a Unix socket with a path, of one that address_check accepts: plain text is spoken
 * there, between processes of one user, as the file's mode says. */
bool address_text_is_file(const char *text);
/*
 * Finds the addresses that `text` stands for, at most ADDRESS_MOST, in the resolver's order and
 * each once; waits for the resolver. Errors: FORMAT (the text), SYSTEM (no such host, ...).
 */
int address_resolve(const char *text, bool listening, address found[ADDRESS_MOST], uint32_t *count,
                    tarry_diagnostic *diagnostic);
bool address_is_loopback(const address *where); /* a Unix socket is */
bool address_is_unix(const address *where);
bool address_is_file(const address *where); /* as address_text_is_file */
/* All interfaces of a machine: one listens there, and nobody connects. */
bool address_is_wildcard(const address *where);
/* A TCP address with port 0 gets that of another one. */
void address_take_port(address *where, const address *from);
void address_text(const address *where, char text[ADDRESS_TEXT]);
/* The same with port 0; of what is no TCP address, that of 127.0.0.1. */
void address_text_without_port(const address *where, char text[ADDRESS_TEXT]);

/* The address that a listening socket has got, with the port that the system chose for 0. Errors:
 * SYSTEM. */
int address_of(int fd, address *found, tarry_diagnostic *diagnostic);

/* Whether it may be listened on: in plain text as tarry_tcp_security says, else with a credential.
 * text: the address, for the diagnostic. Errors: ARGUMENT. */
int address_check_listen(const address *where, const char *text, bool insecure, bool force,
                         bool has_credential, tarry_diagnostic *diagnostic);
/*
 * A listening socket, close-on-exec and non-blocking. TCP: SO_REUSEADDR. Unix: mode 0600; a socket
 * file that nobody listens on any more is replaced, one that somebody does is an error. Errors:
 * SYSTEM ("... : address already in use"), with errno.
 */
int address_listen(const address *where, int *fd, tarry_diagnostic *diagnostic);
/* A socket that is connecting or connected, close-on-exec and non-blocking. Errors: SYSTEM. */
int address_connect(const address *where, int *fd, tarry_diagnostic *diagnostic);
/* Over a Unix socket: whether the peer runs as the same user, or as root. */
bool address_is_own_user(int fd);

#endif
