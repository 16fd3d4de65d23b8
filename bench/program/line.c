/* SPDX-License-Identifier: Apache-2.0 */
#include "program/line.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "runtime/tcp/net/address.h"

enum { READ_AHEAD_BYTES = 64 << 10 }; /* as the runtime's links have it */

static int system_error(tarry_diagnostic *diagnostic, const char *what)
{
    return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "%s: %s", what, strerror(errno));
}

int bench_line_listen(int *fd, char where[64], tarry_diagnostic *diagnostic)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(name);
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0 || bind(made, (struct sockaddr *)&name, size) != 0 ||
        listen(made, SOMAXCONN) != 0 || getsockname(made, (struct sockaddr *)&name, &size) != 0) {
        int error = system_error(diagnostic, "a listening socket");
        if (made >= 0)
            close(made);
        return error;
    }
    *fd = made;
    snprintf(where, 64, "127.0.0.1:%u", (unsigned)ntohs(name.sin_port));
    return TARRY_OK;
}

/* Makes what is connected a line; takes over the socket. */
static int begin(int fd, const credential *self, bool accepting, bench_line *line,
                 tarry_diagnostic *diagnostic)
{
    *line = (bench_line){.fd = fd};
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (self == NULL)
        return TARRY_OK;
    line->ssl = credential_open(self);
    if (line->ssl == NULL || SSL_set_fd(line->ssl, fd) != 1) {
        bench_line_close(line);
        return diagnose_no_memory(diagnostic, "a TLS connection");
    }
    SSL_clear_mode(line->ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_set_read_ahead(line->ssl, 1);
    SSL_set_default_read_buffer_len(line->ssl, READ_AHEAD_BYTES);
    if (SSL_do_handshake(line->ssl) == 1)
        return TARRY_OK;
    char why[CREDENTIAL_REFUSAL_SIZE];
    credential_refusal(line->ssl, why);
    bench_line_close(line);
    return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "TLS while %s: %s",
                    accepting ? "accepting" : "connecting", why);
}

/* Waits until a socket that was made without waiting is connected, and makes it one that waits. */
static bool settle(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);
    if (poll(&wait, 1, -1) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return false;
    errno = error;
    return error == 0 && fcntl(fd, F_SETFL, 0) == 0;
}

int bench_line_connect(const char *where, const credential *self, bench_line *line,
                       tarry_diagnostic *diagnostic)
{
    address found[ADDRESS_MOST];
    uint32_t count;
    int fd;
    *line = (bench_line){.fd = -1};
    int error = address_resolve(where, false, found, &count, diagnostic);
    if (error == TARRY_OK)
        error = address_connect(&found[0], &fd, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (!settle(fd)) {
        error = system_error(diagnostic, where);
        close(fd);
        return error;
    }
    return begin(fd, self, false, line, diagnostic);
}

int bench_line_accept(int listening, const credential *self, bench_line *line,
                      tarry_diagnostic *diagnostic)
{
    *line = (bench_line){.fd = -1};
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return system_error(diagnostic, "accepting a connection");
    return begin(fd, self, true, line, diagnostic);
}

void bench_line_close(bench_line *line)
{
    SSL_free(line->ssl);
    if (line->fd >= 0)
        close(line->fd);
    *line = (bench_line){.fd = -1};
}

static int call_size(size_t size)
{
    return size < INT_MAX ? (int)size : INT_MAX;
}

bool bench_line_write(bench_line *line, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        const uint8_t *from = (const uint8_t *)bytes + at;
        ssize_t sent = line->ssl != NULL ? SSL_write(line->ssl, from, call_size(size - at))
                                         : send(line->fd, from, size - at, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += (size_t)sent;
    }
    return true;
}

size_t bench_line_read(bench_line *line, void *bytes, size_t size)
{
    ssize_t got = line->ssl != NULL ? SSL_read(line->ssl, bytes, call_size(size))
                                    : recv(line->fd, bytes, size, 0);
    return got > 0 ? (size_t)got : 0;
}

bool bench_line_pending(const bench_line *line)
{
    return line->ssl != NULL && SSL_has_pending(line->ssl) == 1;
}
