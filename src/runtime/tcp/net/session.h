/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection to another process: resolve all addresses of a name, dial them in turn,
 * TLS, greet, keep alive, notice silence, back off and dial again, end. Workers, viewers and
 * members of a mesh have it from here, so that they behave alike and say the same words. A
 * connection that was accepted has the same life from its greeting on, and is not made again.
 *
 * A session runs on its owner's loop with a timer of its own, and never blocks. All calls and
 * handlers are on the loop's thread. No handler is called from within a call of the owner's, except
 * by session_lose, session_misfit and session_end.
 */
#ifndef RUNTIME_SESSION_H
#define RUNTIME_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include <tarry/allocator.h>
#include <tarry/error.h>
#include <tarry/tcp.h>

#include "base/random.h"
#include "protocol/wire/wire.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/trust/credential.h"

typedef struct session session;

enum { SESSION_HEARTBEAT_FRACTION = 8 }; /* of the silence limit */

/*
 * How long to wait before the next attempt to connect: a random time below a bound that doubles
 * with each attempt ("full jitter"), so that workers which lost their server together don't come
 * back together. Source: M. Brooker, Exponential backoff and jitter, AWS Architecture Blog, 2015.
 */

#define BACKOFF_LEAST_NS UINT64_C(100000000)
#define BACKOFF_MOST_NS UINT64_C(30000000000)
#define BACKOFF_STEADY_NS UINT64_C(2000000000) /* a connection that was up for so long was good */

typedef struct backoff {
    random_stream random;
    uint64_t bound_ns;
} backoff;

/* a, b: what tells this stream of the seed from others'. */
void backoff_init(backoff *state, uint64_t seed, uint32_t a, uint32_t b);
/* The next wait: in 0..bound, which is then doubled, from LEAST up to MOST. */
uint64_t backoff_next_ns(backoff *state);
/* It went well: the bound is LEAST again. */
void backoff_reset(backoff *state);
/* A connection is lost that was up for `up_ns`: if that is STEADY at least, it went well. */
void backoff_lost(backoff *state, uint64_t up_ns);

typedef struct session_settings {
    const char *connect;   /* resolved before each attempt; borrowed until `freed`. NULL: places */
    const address *places; /* 1..ADDRESS_MOST, copied; plain text is allowed there */
    uint32_t place_count;
    bool insecure, force;         /* as in tarry_tcp_security, for `connect` */
    const credential *credential; /* as `connect`; NULL: plain text */
    bool between;                 /* two workers: TLS with the certificates of both, and no BYE */
    channel_settings channel;
    bool probed;          /* TCP finds out when the other machine is gone, though nothing is sent */
    int unsent_bytes;     /* that the system takes of the connection; 0: as the channel has it */
    uint64_t greeting_ns; /* to connect and greet, for each address */
    backoff *wait;        /* between attempts, borrowed; NULL: there is only one attempt */
    const tarry_allocator *allocator;
} session_settings;

typedef struct session_handlers {
    void *user;
    /* Connected and, with TLS, verified: the owner says its first words, if it is the first. */
    void (*greet)(void *user);
    /* As a channel's. HEARTBEAT, REFUSED and BYE are the session's. */
    bool (*frame)(void *user, const wire_head *head, const uint8_t *body);
    channel_verdict (*begin)(void *user, const wire_head *head, const uint8_t *fixed, size_t bytes,
                             void **place);
    bool (*complete)(void *user, const wire_head *head, const uint8_t *fixed);
    /* Whether another attempt may do better. NULL: as wire_reason_passes says. */
    bool (*refused)(void *user, const wire_refused *refused);
    /* The connection is over, or was not made; session_channel is closed after this. `up`:
     * session_up was called. NULL is allowed. */
    void (*lost)(void *user, bool up, const char *why);
    /* The next attempt begins after *wait_ns, which the owner may shorten. False: there is none. */
    bool (*waits)(void *user, const char *why, uint64_t *wait_ns);
    /* There is no other attempt. OK: the run is over; STATE: refused; ARGUMENT: plain text may not
     * be spoken there; SYSTEM: the one attempt failed, or the connection is lost; or the owner's of
     * session_end. */
    void (*ended)(void *user, int error, const char *why);
    /* After session_close: the loop has let go of the session. NULL is allowed. */
    void (*freed)(void *user);
} session_handlers;

/* Begins the first attempt in the loop's next turn. Errors: NO_MEMORY. */
int session_connect(uv_loop_t *loop, const session_settings *settings,
                    const session_handlers *handlers, session **out);
/* Takes over a connection that was accepted. Errors: NO_MEMORY, SYSTEM; fd is closed then. */
int session_accept(uv_loop_t *loop, int fd, const session_settings *settings,
                   const session_handlers *handlers, session **out);
/* Ends it, with a last word if it is up and bye is not 0. Only `freed` is called from now on, in
 * the loop, which has to go on running for that. NULL is allowed. */
void session_close(session *self, wire_bye bye);
/* The same with REFUSED as the last word, whether or not it is up. */
void session_refuse(session *self, wire_reason reason, const char *text);

/* Both sides have greeted. From now on heartbeats go out, and silence for so long is a loss. */
void session_up(session *self, uint64_t silence_ns);
/* The connection is of no use, for this reason. A greeting that fails goes on to the next address,
 * anything else backs off. Gives back false. */
__attribute__((format(printf, 2, 3))) bool session_lose(session *self, const char *format, ...);
/* The same if a frame came that has no place here. */
bool session_misfit(session *self);
/* There is no other attempt, for this reason: `lost` and `ended` are called. */
void session_end(session *self, int error, const char *why);

/* NULL: there is no connection. */
channel *session_channel(const session *self);
/* The own end of the connection; size 0: not known. */
const address *session_local(const session *self);

#endif
