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

#include <stdbool.h>
#include <stdint.h>

#include "runtime/tcp/net/bucket.h"

struct peer;
struct peers;

typedef struct newcomers {
    struct peer *oldest, *youngest;
    uint32_t count, most;
    uint32_t workers;           /* of the plan */
    bucket words[2];            /* to those that have said HELLO, and to others */
    uint32_t displaced, unsaid; /* since the last lines about them */
    uint64_t told_ns;
} newcomers;

/* How many there may be: `most`, or (0) one per worker of the plan and 512, of which each has one
 * try at a time; in any case `connections`, and a quarter of the files that the process may open.
 */
void newcomers_init(newcomers *self, uint32_t workers, uint32_t most, uint32_t connections);
/* Makes room for one more, and counts it. */
void newcomers_add(struct peers *all, struct peer *who);
/* It has said who it is, or is over. */
void newcomers_remove(struct peers *all, struct peer *who);
/* Ends one, as said above. False: there is none. */
bool newcomers_displace(struct peers *all);
/* Whether one more may come in at one of the listeners in this turn of the loop, in which it was
 * given its turn when so many had been displaced: all that have just come shall be heard before
 * they make room, and no listener waits for another one. */
bool newcomers_may_come(const newcomers *self, uint32_t displaced, uint32_t listeners);
/* One of them, from that address, is turned away; introduced: it has said HELLO. False: there were
 * too many lately, this one is only counted, and shall be ended without a word. */
bool newcomers_refused(struct peers *all, bool introduced, const char *from, const char *why);
/* Says, once a second, how many were only counted. */
void newcomers_tick(struct peers *all, uint64_t now);

#endif
