/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that have not said who they are: anybody can make them, as many as he likes. So there
 * are few of them, and when there is no room one goes: the oldest of those that have got least far
 * with the handshake. A member is verified and has said HELLO within a moment, and somebody who
 * says nothing keeps nobody out. What is said of those that are turned away, and to them, is
 * bounded as well. The loop thread's.
 */
#ifndef TCP_NEWCOMERS_H
#define TCP_NEWCOMERS_H

#include <tarry/tcp.h>

#include "runtime/tcp/net/bucket.h"

typedef struct tarry_tcp_server tarry_tcp_server;

struct peer;

typedef struct newcomers {
    struct peer *oldest, *youngest;
    uint32_t count, most;
    bucket words[2];            /* to those that have said HELLO, and to others */
    uint32_t displaced, unsaid; /* since the last lines about them */
    uint64_t told_ns;
} newcomers;

/* How many there may be: as the settings say, or one per worker of the plan and 512, of which each
 * has one try at a time; in any case a quarter of the files that the process may open. */
void newcomers_init(tarry_tcp_server *server, uint32_t workers);
/* Makes room for one more, and counts it. */
void newcomers_add(tarry_tcp_server *server, struct peer *its);
/* It has said who it is, or is over. */
void newcomers_remove(tarry_tcp_server *server, struct peer *its);
/* Ends one, as said above. False: there is none. */
bool newcomers_displace(tarry_tcp_server *server);
/* Whether one more may come in at one of the listeners in this turn of the loop, in which it was
 * given its turn when so many had been displaced: all that have just come shall be heard before
 * they make room, and no listener waits for another one. */
bool newcomers_may_come(const tarry_tcp_server *server, uint32_t displaced);
/* One of them, from that address, is turned away; its: NULL if it was not even one. False: there
 * were too many lately, this one is only counted, and shall be ended without a word. */
bool newcomers_refused(tarry_tcp_server *server, const struct peer *its, const char *from,
                       const char *why);
/* Says, once a second, how many were only counted. */
void newcomers_tick(tarry_tcp_server *server, uint64_t now);

#endif
