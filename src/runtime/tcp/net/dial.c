/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/net/dial.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/diagnostic.h"

/* With a credential, or in plain text as the settings allow. */
static bool is_allowed(const tarry_tcp_security *security, const credential *own, const address *to)
{
    return address_is_file(to) || own != NULL ||
           (security->insecure && (security->force || address_is_loopback(to)));
}

uint32_t dial_keep_allowed(const tarry_tcp_security *security, const credential *own,
                           address *found, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_allowed(security, own, &found[i]))
            found[kept++] = found[i];
    return kept;
}

const char *dial_refusal(const tarry_tcp_security *security)
{
    return security->insecure
               ? "plain text is for loopback addresses and Unix sockets, unless it is forced"
               : "needs credentials";
}

/* The other end of a Unix socket needs no credential if it is of the same user, or root. */
static bool is_ours(int fd, uid_t *user)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
        return false;
    *user = who.uid;
    return who.uid == geteuid() || who.uid == 0 || geteuid() == 0;
}

int dial(const address *to, const credential *own, dialed *made, tarry_diagnostic *diagnostic)
{
    bool plain = address_is_file(to) || own == NULL;
    *made = (dialed){.fd = -1};
    int error = address_connect(to, &made->fd, diagnostic);
    if (error == TARRY_OK && address_is_unix(to) && !is_ours(made->fd, &made->user))
        error = diagnose(diagnostic, TARRY_ERROR_SYSTEM, "another user's socket");
    if (error == TARRY_OK && !plain && (made->ssl = credential_open(own)) == NULL)
        error = diagnose(diagnostic, TARRY_ERROR_NO_MEMORY, "out of memory");
    if (error != TARRY_OK && made->fd >= 0)
        close(made->fd);
    return error;
}
