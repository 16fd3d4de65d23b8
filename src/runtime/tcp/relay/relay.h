/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay: it stands between a server, or another relay, and workers that connect to it, its
 * children. What a child says goes up in a lane of the relay's one connection upward, the trunk
 * (protocol/wire/wire_trunk.h), many reports in one frame; what all children get comes down once.
 * To the server's machine, and to the workers', a relay is not there: it keeps no state of the
 * protocol, and whoever loses it goes on elsewhere.
 */
#ifndef TCP_RELAY_H
#define TCP_RELAY_H

#include <tarry/tcp.h>

typedef struct tcp_relay tcp_relay;

typedef struct tcp_relay_settings {
    const char *connect;       /* the server or a relay: a list (runtime/tcp/net/parents.h) */
    const char *const *listen; /* as tarry_tcp_server_settings */
    uint32_t listen_count;
    const char
        *advertise; /* where workers are told that they may connect; NULL: where it listens */
    tarry_tcp_security security;
    uint64_t patience_ns; /* without a connection upward, then it ends; TARRY_NEVER: for ever */
    uint64_t seed;        /* of the jitter between attempts to connect */
    /* LISTENING, CONNECTED, LOST, WAITING, REFUSED, and of children JOINED and LEFT, whose `peer`
     * is where they are and whose `worker` is TARRY_TCP_NO_WORKER. Called in the thread of
     * tcp_relay_run. NULL: nobody. */
    tarry_tcp_observe *observe;
    void *observe_user;
} tcp_relay_settings;

/* What went through it. */
typedef struct tcp_relay_work {
    uint32_t children;       /* now */
    uint64_t arrivals;       /* of children */
    uint64_t connections;    /* upward */
    uint64_t reports;        /* of children, */
    uint64_t batches;        /* and frames in which they went up */
    uint64_t parts;          /* coded parts of children that were passed on as they are; */
    uint64_t sums;           /* stripes that went up as sums of several */
    uint64_t received, sent; /* bytes, over connections upward */
} tcp_relay_work;

/* Listens; nothing is connected yet. Errors: ARGUMENT, NO_MEMORY, SYSTEM, FILE, FORMAT, with a
 * diagnostic. */
int tcp_relay_create(const tcp_relay_settings *settings, const tarry_allocator *allocator,
                     tcp_relay **out, tarry_diagnostic *diagnostic);
/*
 * Passes on, until the server says that the run is over or tcp_relay_leave is called. When the
 * connection upward is lost the children are told to go elsewhere, and it connects anew, with
 * growing pauses. Errors: SYSTEM (patience is at its end), STATE (refused for good), NO_MEMORY,
 * with a diagnostic.
 */
int tcp_relay_run(tcp_relay *self, tarry_diagnostic *diagnostic);
/* Tells the children to go elsewhere, and ends the run. From any thread. */
void tcp_relay_leave(tcp_relay *self);
/* In the thread of tcp_relay_run, also from the observer. */
tcp_relay_work tcp_relay_count(const tcp_relay *self);
/* NULL is allowed. */
void tcp_relay_free(tcp_relay *self);

#endif
