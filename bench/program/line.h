/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection without a loop, plain or TLS: bare calls of the system and of OpenSSL, that the
 * network runtime is measured with and against. All calls wait.
 */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#include <tarry/error.h>

#include "runtime/tcp/trust/credential.h"

typedef struct bench_line {
    int fd; /* -1: none */
    SSL *ssl;
} bench_line;

/* A socket that listens on a loopback address, and where: "127.0.0.1:PORT". Errors: SYSTEM. */
int bench_line_listen(int *fd, char where[64], tarry_diagnostic *diagnostic);
/* self: NULL for plain text. Errors: SYSTEM, FORMAT (the address), NO_MEMORY; *line is closed then.
 */
int bench_line_connect(const char *where, const credential *self, bench_line *line,
                       tarry_diagnostic *diagnostic);
int bench_line_accept(int listening, const credential *self, bench_line *line,
                      tarry_diagnostic *diagnostic);
void bench_line_close(bench_line *line);

/* All of the bytes. False: the connection is broken. */
bool bench_line_write(bench_line *line, const void *bytes, size_t size);
/* Some bytes, >= 1; 0: the peer closed the connection, or it is broken. */
size_t bench_line_read(bench_line *line, void *bytes, size_t size);
/* Bytes are there that poll does not tell of. */
bool bench_line_pending(const bench_line *line);

#endif
