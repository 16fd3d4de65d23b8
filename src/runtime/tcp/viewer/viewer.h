/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One who looks on: a connection to a server as a viewer, over which it tells twice a second how
 * the run stands (protocol/wire/status.h). When the connection is lost the viewer connects again,
 * with growing pauses, and asks for the address anew. All calls and handlers are on the thread of
 * the loop, which a viewer never blocks.
 */
#ifndef TCP_VIEWER_H
#define TCP_VIEWER_H

#include <uv.h>

#include <tarry/tcp.h>

typedef struct viewer viewer;

typedef struct viewer_handlers {
    void *user;
    /* A status: one line of printable UTF-8 without a NUL behind it, borrowed until this returns.
     * Gives back FORMAT if it is none, with what is wrong in `why`: the server counts as broken
     * then, as by a frame that is malformed. Another error ends the viewer. */
    int (*told)(void *user, const char *text, size_t length, tarry_diagnostic *why);
    /* There is no connection, or no longer; it tries again in wait_ns. `why` is one line of
     * printable ASCII or UTF-8, borrowed. */
    void (*lost)(void *user, const char *why, uint64_t wait_ns);
    /* The viewer has ended and calls nothing more: the run is `over`, or it can't look on. */
    void (*ended)(void *user, bool over, const char *why);
} viewer_handlers;

/*
 * connect: "HOST:PORT", "[HOST]:PORT" or "unix:PATH"; borrowed until the loop has let go of the
 * viewer. Over a Unix socket no credentials are needed, and those given are not used. No handler is
 * called from within. Errors: ARGUMENT (neither credentials nor insecure; another member's), FORMAT
 * (the address, a credential), FILE (a credential), NO_MEMORY, SYSTEM.
 */
int viewer_open(uv_loop_t *loop, const char *connect, const tarry_tcp_security *security,
                const viewer_handlers *handlers, const tarry_allocator *allocator, viewer **out,
                tarry_diagnostic *diagnostic);
/* Ends it; no handler is called any more. May be called from within a handler. Its memory is freed
 * in the loop, which has to go on running for that. NULL is allowed. */
void viewer_close(viewer *self);

#endif
