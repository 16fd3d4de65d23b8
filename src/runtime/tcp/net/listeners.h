/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets that a server listens on, as handles of its loop. Taking what comes in is the
 * owner's. */
#ifndef TCP_LISTENERS_H
#define TCP_LISTENERS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include <tarry/error.h>
#include <tarry/tcp.h>

#include "runtime/tcp/net/address.h"

typedef struct listeners listeners;

typedef struct listener {
    listeners *all;
    uv_poll_t poll;
    int fd;
    bool polled; /* the handle is the loop's */
    bool local;  /* a Unix socket */
    bool file;   /* with a path: who may open that is a member */
    char text[ADDRESS_TEXT];
} listener;

/* Zeroed but for the first three, which are the owner's to set. */
struct listeners {
    void *owner;
    const tarry_tcp_security *security;
    bool secured; /* the owner has a credential */
    listener items[ADDRESS_MOST];
    uint32_t count;
    bool accepting;
    void (*readable)(listener *at);
};

/* Listens at all addresses that a text stands for: a kind of them that this machine has not is left
 * out if there is another. Errors: ARGUMENT (plain text where it may not be spoken, too many),
 * FORMAT, SYSTEM. */
int listeners_add(listeners *self, const char *text, tarry_diagnostic *diagnostic);
/* The handles. Errors: SYSTEM. */
int listeners_open(listeners *self, uv_loop_t *loop, void (*readable)(listener *at));
/* `readable` is called where somebody waits, from now on, or no more until this is called again. */
void listeners_accept(listeners *self, bool accepting);
/* Closes the sockets; their handles, too, if the loop has them. A Unix socket's file goes with it.
 */
void listeners_close(listeners *self);

/* Who comes in: a non-blocking descriptor; or -1, with errno. */
int listener_take(const listener *at, address *from);
/* Whether that was for a lack of descriptors or memory. */
bool listener_is_short(void);
/* Over a Unix socket: whoever runs as the same user, or as root, is a member. */
bool listener_is_member(int fd);

#endif
