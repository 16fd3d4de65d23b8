/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "runtime/tcp/relay/relay_state.h"

enum { ACCEPTED_PER_TURN = 64 };

static void turn_away(tcp_relay *self, const char *from, const char *why)
{
    relay_notify(self, &(tarry_tcp_notice){
                           .type = TARRY_TCP_REFUSED,
                           .worker = TARRY_TCP_NO_WORKER,
                           .peer = from,
                           .text = why,
                       });
}

static void take(const listener *at, int fd)
{
    tcp_relay *self = at->all->owner;
    if (at->local && !listener_is_member(fd)) {
        close(fd);
        turn_away(self, at->text, "another user");
    } else if (relay_child_open(self, fd, at->file) != TARRY_OK) {
        turn_away(self, at->text, "no memory for a connection");
    }
}

static void on_readable(listener *at)
{
    tcp_relay *self = at->all->owner;
    for (int i = 0; i < ACCEPTED_PER_TURN; i++) {
        address from;
        int fd = listener_take(at, &from);
        if (fd >= 0) {
            take(at, fd);
        } else if (listener_is_short()) {
            relay_child *oldest = self->newcomers.first;
            if (oldest == NULL) {
                relay_accept(self, false); /* until the next tick */
                return;
            }
            relay_child_end(oldest, WIRE_LANE_CLOSED, "made room for others", false);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

int relay_listen(tcp_relay *self, const char *const *texts, uint32_t count,
                 tarry_diagnostic *diagnostic)
{
    listeners *all = &self->listeners;
    all->owner = self;
    all->security = &self->settings.security;
    all->secured = self->credential != NULL;
    for (uint32_t i = 0; i < count; i++) {
        int error = listeners_add(all, texts[i], diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

int relay_open_listeners(tcp_relay *self)
{
    return listeners_open(&self->listeners, &self->loop, on_readable);
}

void relay_accept(tcp_relay *self, bool accepting)
{
    if (!self->stopping)
        listeners_accept(&self->listeners, accepting);
}
