/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections: messages between a coordinator and the processes that take part in a run,
 * from before there is a job until after its last round. Messages are the program's own bytes; they
 * arrive once, whole and in order, or the connection is over. It is not made again.
 *
 * A connection has the security of the network runtime (tarry/tcp.h): TLS 1.3 with credentials, of
 * the server on the side that listens and of workers on the other one, or plain text as
 * `tarry_tcp_security` allows. Over a Unix socket both sides have to be of the same user, or root.
 * See docs/wire.md for what travels.
 */
#ifndef TARRY_CONTROL_H
#define TARRY_CONTROL_H

#include <tarry/tcp.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARRY_CONTROL_MESSAGE_MOST 1048576 /* bytes of a message */

typedef struct tarry_control tarry_control;

typedef struct tarry_control_settings {
    size_t size;         /* of this structure: its init sets it */
    const char *listen;  /* as a server's address; NULL: it connects */
    const char *connect; /* as a worker's address; NULL: it listens */
    tarry_tcp_security security;
    uint64_t patience_ns; /* for which it tries to connect; TARRY_NEVER: for ever */
    size_t most_waiting;  /* bytes that may wait on a connection, in each direction */
} tarry_control_settings;

/* Patience is a minute, 4 MiB may wait; everything else 0. */
#define tarry_control_settings_init(settings)                                                      \
    tarry_control_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_control_settings_init_sized(tarry_control_settings *settings, size_t size);

/*
 * Listens, or begins to connect; starts a thread. Errors: ARGUMENT (plain text, or no credentials,
 * where that is not allowed), FILE and FORMAT (credentials, the address), SYSTEM (an address that
 * can't be listened on), NO_MEMORY.
 */
TARRY_API int tarry_control_create(const tarry_control_settings *settings,
                                   const tarry_allocator *allocator, tarry_control **control,
                                   tarry_diagnostic *diagnostic);
/* Where it listens, with the port that the system chose; "": it connects. Valid until it is freed.
 */
TARRY_API const char *tarry_control_address(const tarry_control *control);

/* A connection, or (peer 0) a line on one that was turned away or has not been made yet. */
typedef struct tarry_control_arrival {
    uint64_t peer;   /* by which the other functions know it; never given again */
    char name[20];   /* of the other side's certificate, as "worker-3"; "": it has none */
    char where[128]; /* an address, for people */
    char text[256];
} tarry_control_arrival;

/*
 * The functions below may be called by any thread. wait_ns may be 0, and TARRY_NEVER for no limit.
 */

/*
 * The next connection: that of a side that connects is its only one. Errors: STATE with an empty
 * diagnostic (none came in time), STATE (refused by the other side), SYSTEM (not made within the
 * patience; or nothing is listened on any more), ARGUMENT (plain text, or no credentials, where
 * that is not allowed).
 */
TARRY_API int tarry_control_accept(tarry_control *control, uint64_t wait_ns,
                                   tarry_control_arrival *arrival, tarry_diagnostic *diagnostic);

typedef struct tarry_control_message {
    uint32_t kind; /* the program's own */
    size_t size;
    const void *bytes; /* the taker's, by tarry_control_release */
} tarry_control_message;

/* Sends a message of 1 to TARRY_CONTROL_MESSAGE_MOST bytes, which are copied; waits while too much
 * waits to be sent. Errors: ARGUMENT, NO_MEMORY, STATE with an empty diagnostic (it is that late,
 * and nothing was sent), SYSTEM (the connection is over). */
TARRY_API int tarry_control_say(tarry_control *control, uint64_t peer, uint32_t kind,
                                const void *bytes, size_t size, uint64_t wait_ns,
                                tarry_diagnostic *diagnostic);
/* The next message that came. One thread at a time for each connection. Errors: STATE with an empty
 * diagnostic (none came in time), SYSTEM (the connection is over, and all that came was taken). */
TARRY_API int tarry_control_take(tarry_control *control, uint64_t peer, uint64_t wait_ns,
                                 tarry_control_message *message, tarry_diagnostic *diagnostic);
TARRY_API void tarry_control_release(tarry_control *control, tarry_control_message *message);
/* Whether the connection is up, as far as this side knows. */
TARRY_API bool tarry_control_is_open(tarry_control *control, uint64_t peer);
/* Ends the connection once what waits has gone out, for which there are a few seconds; calls that
 * wait for it return. peer 0: nothing is listened on any more. No such peer: nothing happens. */
TARRY_API void tarry_control_end(tarry_control *control, uint64_t peer);
/* Ends all connections and waits for that. No call may be in progress. NULL is allowed. */
TARRY_API void tarry_control_free(tarry_control *control);

#ifdef __cplusplus
}
#endif

#endif
