/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/diagnostic.h"

enum {
    HOST_BYTES = 256,
    PORT_BYTES = 6,
    PORT_MOST = 65535,
    BACKLOG = 1024,
    DELETE = 0x7f,
};

static const char unix_prefix[] = "unix:";

typedef struct pieces {
    char host[HOST_BYTES]; /* "": any */
    char port[PORT_BYTES];
    const char *path; /* of a Unix socket, within the text; NULL: host and port */
} pieces;

static int check_path(const char *path, tarry_diagnostic *diagnostic)
{
    size_t length = strlen(path);
    size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    if (length == 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "unix:PATH: the path is missing");
    if (length > most)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "%s: a Unix socket's path has at most %zu bytes", path, most);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)path[i] < ' ' || path[i] == DELETE)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "a Unix socket's path has no control characters");
    return TARRY_OK;
}

static int check_port(const char *text, const char *port, tarry_diagnostic *diagnostic)
{
    size_t length = strlen(port);
    unsigned number = 0;
    if (length == 0 || length >= PORT_BYTES || strspn(port, "0123456789") != length)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: no port number", text);
    for (size_t i = 0; i < length; i++)
        number = 10 * number + (unsigned)(port[i] - '0');
    if (number > PORT_MOST)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: a port is at most %d", text,
                        PORT_MOST);
    return TARRY_OK;
}

static bool is_unix(const char *text)
{
    return strncmp(text, unix_prefix, strlen(unix_prefix)) == 0;
}

bool address_text_is_file(const char *text)
{
    return is_unix(text) && text[strlen(unix_prefix)] != '@';
}

static int split(const char *text, bool listening, pieces *out, tarry_diagnostic *diagnostic)
{
    *out = (pieces){.path = NULL};
    if (is_unix(text)) {
        out->path = text + strlen(unix_prefix);
        return check_path(out->path, diagnostic);
    }
    const char *colon = strrchr(text, ':');
    if (colon == NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: an address is HOST:PORT or unix:PATH",
                        text);
    int error = check_port(text, colon + 1, diagnostic);
    if (error != TARRY_OK)
        return error;
    const char *host = text;
    size_t length = (size_t)(colon - text);
    if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
        if (length == 0)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: no host in the brackets", text);
    } else if (memchr(host, ':', length) != NULL) {
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "%s: an IPv6 address stands in brackets, [::1]:PORT", text);
    }
    if (length >= HOST_BYTES)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "the host's name is too long");
    if (length == 0 && !listening)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: the host is missing", text);
    memcpy(out->host, host, length);
    snprintf(out->port, sizeof(out->port), "%s", colon + 1);
    return TARRY_OK;
}

int address_check(const char *text, bool listening, tarry_diagnostic *diagnostic)
{
    pieces parts;
    return split(text, listening, &parts, diagnostic);
}

static void from_path(const char *path, address *found)
{
    *found = (address){.size = sizeof(struct sockaddr_un)};
    struct sockaddr_un *name = (struct sockaddr_un *)&found->socket;
    name->sun_family = AF_UNIX;
    memcpy(name->sun_path, path, strlen(path) + 1);
    if (path[0] != '@')
        return;
    name->sun_path[0] = '\0'; /* it is in no folder, and its length tells where it ends */
    found->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
}

static bool is_among(const address *one, const address *all, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (one->size == all[i].size && memcmp(&one->socket, &all[i].socket, one->size) == 0)
            return true;
    return false;
}

int address_resolve(const char *text, bool listening, address found[ADDRESS_MOST], uint32_t *count,
                    tarry_diagnostic *diagnostic)
{
    pieces parts;
    int error = split(text, listening, &parts, diagnostic);
    if (error != TARRY_OK)
        return error;
    if (parts.path != NULL) {
        from_path(parts.path, &found[0]);
        *count = 1;
        return TARRY_OK;
    }
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (listening ? AI_PASSIVE : 0),
    };
    struct addrinfo *list;
    int status = getaddrinfo(parts.host[0] != '\0' ? parts.host : NULL, parts.port, &hints, &list);
    if (status != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "%s: %s", text,
                        status == EAI_SYSTEM ? strerror(errno) : gai_strerror(status));
    uint32_t n = 0;
    for (const struct addrinfo *at = list; at != NULL && n < ADDRESS_MOST; at = at->ai_next) {
        found[n] = (address){.size = at->ai_addrlen};
        memcpy(&found[n].socket, at->ai_addr, at->ai_addrlen);
        n += !is_among(&found[n], found, n); /* a host's file may say it twice */
    }
    freeaddrinfo(list);
    *count = n;
    return TARRY_OK;
}

bool address_is_file(const address *where)
{
    return address_is_unix(where) &&
           ((const struct sockaddr_un *)&where->socket)->sun_path[0] != '\0';
}

bool address_is_unix(const address *where)
{
    return where->socket.ss_family == AF_UNIX;
}

bool address_is_loopback(const address *where)
{
    if (where->socket.ss_family == AF_INET) {
        const struct sockaddr_in *name = (const struct sockaddr_in *)&where->socket;
        return ntohl(name->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
    }
    if (where->socket.ss_family == AF_INET6) {
        const struct in6_addr *at = &((const struct sockaddr_in6 *)&where->socket)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(at) ||
               (IN6_IS_ADDR_V4MAPPED(at) && at->s6_addr[12] == IN_LOOPBACKNET);
    }
    return address_is_unix(where);
}

bool address_is_wildcard(const address *where)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)&where->socket;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&where->socket;
    return (where->socket.ss_family == AF_INET && four->sin_addr.s_addr == htonl(INADDR_ANY)) ||
           (where->socket.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr));
}

/* Where the port is; NULL: there is none. */
static in_port_t *port_of(address *where)
{
    if (where->socket.ss_family == AF_INET)
        return &((struct sockaddr_in *)&where->socket)->sin_port;
    if (where->socket.ss_family == AF_INET6)
        return &((struct sockaddr_in6 *)&where->socket)->sin6_port;
    return NULL;
}

void address_take_port(address *where, const address *from)
{
    address other = *from;
    in_port_t *port = port_of(where), *others = port_of(&other);
    if (port != NULL && others != NULL && *port == 0)
        *port = *others;
}

void address_text(const address *where, char text[ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (where->socket.ss_family == AF_INET) {
        const struct sockaddr_in *name = (const struct sockaddr_in *)&where->socket;
        inet_ntop(AF_INET, &name->sin_addr, host, sizeof(host));
        snprintf(text, ADDRESS_TEXT, "%s:%u", host, (unsigned)ntohs(name->sin_port));
    } else if (where->socket.ss_family == AF_INET6) {
        const struct sockaddr_in6 *name = (const struct sockaddr_in6 *)&where->socket;
        inet_ntop(AF_INET6, &name->sin6_addr, host, sizeof(host));
        snprintf(text, ADDRESS_TEXT, "[%s]:%u", host, (unsigned)ntohs(name->sin6_port));
    } else if (address_is_unix(where)) {
        const struct sockaddr_un *name = (const struct sockaddr_un *)&where->socket;
        if (name->sun_path[0] != '\0')
            snprintf(text, ADDRESS_TEXT, "unix:%s", name->sun_path);
        else /* the rest of the structure is zero */
            snprintf(text, ADDRESS_TEXT, "unix:@%.*s", (int)sizeof(name->sun_path) - 1,
                     name->sun_path + 1);
    } else {
        snprintf(text, ADDRESS_TEXT, "unknown");
    }
}

void address_text_without_port(const address *where, char text[ADDRESS_TEXT])
{
    address bare = *where;
    if (bare.socket.ss_family == AF_INET)
        ((struct sockaddr_in *)&bare.socket)->sin_port = 0;
    else if (bare.socket.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&bare.socket)->sin6_port = 0;
    else
        bare.socket.ss_family = AF_UNSPEC;
    if (bare.socket.ss_family == AF_UNSPEC)
        snprintf(text, ADDRESS_TEXT, "127.0.0.1:0");
    else
        address_text(&bare, text);
}

int address_of(int fd, address *found, tarry_diagnostic *diagnostic)
{
    address name = {.size = sizeof(name.socket)};
    if (getsockname(fd, (struct sockaddr *)&name.socket, &name.size) != 0)
        return diagnose(diagnostic, TARRY_ERROR_SYSTEM, "a socket's address: %s", strerror(errno));
    *found = name;
    return TARRY_OK;
}

static int complain(const address *where, const char *what, tarry_diagnostic *diagnostic)
{
    char text[ADDRESS_TEXT];
    int why = errno;
    address_text(where, text);
    diagnose(diagnostic, TARRY_ERROR_SYSTEM, "%s: %s: %s", text, what, strerror(why));
    errno = why;
    return TARRY_ERROR_SYSTEM;
}

static int make_socket(const address *where, tarry_diagnostic *diagnostic)
{
    int fd = socket(where->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd >= 0 ? fd : complain(where, "no socket", diagnostic);
}

/* A socket file that a process left behind which is no more; one that answers stays, and so does
 * what is no socket. */
static void remove_stale(const address *where)
{
    const char *path = ((const struct sockaddr_un *)&where->socket)->sun_path;
    struct stat file;
    if (lstat(path, &file) != 0 || !S_ISSOCK(file.st_mode))
        return;
    int fd = make_socket(where, NULL);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&where->socket, where->size) != 0 &&
        errno == ECONNREFUSED)
        unlink(path);
    close(fd);
}

static bool set_options(const address *where, int fd)
{
    int on = 1;
    if (address_is_unix(where) && !address_is_file(where))
        return true;
    if (address_is_unix(where))
        return fchmod(fd, S_IRUSR | S_IWUSR) == 0; /* the file takes it over when it is bound */
    /* IPv6 alone, as IPv4's addresses are listened on beside it. */
    return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
           (where->socket.ss_family != AF_INET6 ||
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0);
}

int address_check_listen(const address *where, const char *text, bool insecure, bool force,
                         bool has_credential, tarry_diagnostic *diagnostic)
{
    if (insecure && !force && !address_is_loopback(where))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "%s: plain text is for loopback addresses and Unix sockets, unless it is "
                        "forced",
                        text);
    if (!has_credential && !insecure && !address_is_file(where))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "%s: needs credentials", text);
    return TARRY_OK;
}

int address_listen(const address *where, int *out, tarry_diagnostic *diagnostic)
{
    if (address_is_file(where))
        remove_stale(where);
    int fd = make_socket(where, diagnostic);
    if (fd < 0)
        return fd;
    if (!set_options(where, fd) ||
        bind(fd, (const struct sockaddr *)&where->socket, where->size) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int why = errno;
        complain(where, "can't listen", diagnostic);
        close(fd);
        errno = why;
        return TARRY_ERROR_SYSTEM;
    }
    *out = fd;
    return TARRY_OK;
}

int address_connect(const address *where, int *out, tarry_diagnostic *diagnostic)
{
    int fd = make_socket(where, diagnostic);
    if (fd < 0)
        return fd;
    if (connect(fd, (const struct sockaddr *)&where->socket, where->size) != 0 &&
        errno != EINPROGRESS) {
        int error = complain(where, "can't connect", diagnostic);
        close(fd);
        return error;
    }
    *out = fd;
    return TARRY_OK;
}

bool address_is_own_user(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}
