/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network server from within. The caller's thread only asks and waits (tcp_server.c); one
 * thread runs the loop, calls the host (runtime/host) and does all that goes over connections; the
 * host's decode threads sum. What follows is the loop thread's, but for what is said to be shared.
 *   tcp_server.c         creation and the end; the calls of the caller's thread; the loop's thread:
 *                        turns, timers, heartbeats; coded parts, on the way from the connection to
 *                        the host
 *   tcp_server_step.c    what the host asks for, and what it is told of who comes and goes;
 * messages and parameters to workers; another plan; rules and keys of secure sums; how the run
 * stands, for viewers; what peers say and go through; who is let in, and as whom peer.h one
 * connection, which knows nothing of the server but a table of events; listening sockets
 */
#ifndef RUNTIME_TCP_SERVER_H
#define RUNTIME_TCP_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include <tarry/tcp.h>

#include "protocol/wire/status.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/host/host.h"
#include "runtime/host/runtime.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/server/peer.h"
#include "runtime/tcp/server/tcp_server_step.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/roster_file.h"

typedef struct tarry_tcp_server tarry_tcp_server;

enum {
    TCP_STRIPES_PER_WORKER = 4, /* some come in while others are summed */
    TCP_REMEMBERED_ROUNDS = 32, /* for the median of their times */
};

/* One worker, over all its connections. */
typedef struct tcp_member {
    wire_worker_state state;
    uint32_t buffers; /* stripes of the pool in use for what it sent */
    /* How often it joined: on its way to that it may take its seat twice, see shm.h. */
    uint32_t arrivals;
    bucket entries[2]; /* how often it took its seat; and so with a credential that is bound to it,
                          which others can't use up */
    uint64_t steps_on; /* the last sum that it was told to step on; 0: it loads, or none yet */
    bool lent;         /* it was told to load the state from here */
    bool restarted;    /* since it joined last, another process took its seat */
    wire_rack rack;    /* that it said last */
    uint64_t numerics; /* the same */
    uint32_t silent, gone, late, failed;
    uint64_t received, sent; /* bytes, over connections that have ended */
} tcp_member;

typedef struct tcp_meeting tcp_meeting; /* tcp_server.c */

/* A socket that the server listens on, as a handle of its loop. */
typedef struct listener {
    tarry_tcp_server *server;
    uv_poll_t poll;
    int fd;
    bool polled; /* the handle is the loop's */
    bool local;  /* a Unix socket */
    bool file;   /* with a path: who may open that is a member */
    char text[ADDRESS_TEXT];
} listener;

struct tarry_tcp_server {
    tarry_runtime base;
    tarry_allocator allocator;
    tarry_tcp_server_settings settings;
    credential *credential;
    roster_file *roster_file; /* secure sums; else NULL */
    uint8_t *job;
    uint8_t *plan_bytes;
    size_t plan_size;
    uint8_t job_id[WIRE_ID_BYTES];

    /* shared between the caller's thread and the loop's, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a request is done, the round is over, a worker came or went */
    bool has_lock, has_changed;
    runtime_request *request;
    void *argument;
    bool round_over;
    uint32_t present;     /* workers that have joined: the host's figure */
    uint32_t ready;       /* of these, that take part in a round that begins now */
    uint64_t joins;       /* so many times one did */
    uint64_t attended_ns; /* the caller's thread's: when it did so last */
    _Atomic bool waiting; /* the caller, for workers */

    /* the loop */
    uv_loop_t loop;
    uv_async_t wake;       /* a request, an interrupt, or stripes that are summed */
    uv_timer_t deadline;   /* the machine's */
    uv_timer_t tick;       /* heartbeats, those who don't get on, viewers */
    uv_prepare_t turn_end; /* what is put off until all that came in was handled */
    pthread_t thread;
    bool has_loop, has_handles, has_thread;
    bool closing;
    uint64_t now_ns; /* of this turn; 0: not read yet */
    uint64_t tick_ms;
    bool spared; /* the tick before was late, and judged nobody */
    uint64_t armed_ns, ticked_ns, status_ns, trimmed_ns, refreshed_ns; /* when each was done last */
    tarry_diagnostic list_failure; /* why the list of revoked is not taken; "": it is */
    listener listeners[ADDRESS_MOST];
    uint32_t listener_count, address_count; /* now; and that the caller asked for */
    bool accepting;
    bool open; /* connections are taken: since the caller first waited, or ran a round */

    /* the rounds */
    uint8_t *read_buffer;    /* CHANNEL_SHARED_BYTES */
    const float *parameters; /* what workers compute with in the round in progress; borrowed */
    const peer *leaving;     /* whose worker the machine is being told is gone */
    uint64_t exact_rounds;
    tarry_sum_id signalled; /* that workers were last told to make; step 0: none */
    status_sum last_sum;    /* that they made */
    uint64_t durations[TCP_REMEMBERED_ROUNDS];
    uint64_t rounds; /* that ended */
    uint64_t noted_rounds;
    uint64_t noted_done; /* by the caller's word, when `rounds` was noted_at */
    uint64_t noted_at;
    char note[STATUS_NOTE_BYTES + 1];
    uint8_t *status; /* a STATUS frame; taken when first needed */

    /* who is there */
    roster roster;
    tcp_member *members;
    tcp_meeting *meetings; /* NULL: workers don't make the sum */
    /* The way to a worker's state; the caller's thread's. NULL: there is none. */
    mesh *mesh;
    uint32_t loans; /* members that load the state from here */
    peers peers;
    uint32_t viewers;
};

static inline tarry_tcp_server *tcp_server_of(tarry_runtime *runtime)
{
    return (tarry_tcp_server *)runtime;
}

/* Workers make the sum, and have the parameters. */
static inline bool tcp_server_is_everywhere(const tarry_tcp_server *server)
{
    return server->settings.server.sum == TARRY_SUM_EVERYWHERE;
}

/* The clock, read once per turn. */
uint64_t tcp_server_read_clock(tarry_tcp_server *server);
static inline uint64_t tcp_server_now(tarry_tcp_server *server)
{
    return server->now_ns != 0 ? server->now_ns : tcp_server_read_clock(server);
}
/* Calls the observer with the notice, whose time is set. */
void tcp_server_notify(tarry_tcp_server *server, tarry_tcp_notice *notice);
/* The connection that holds the worker's id; NULL: none. */
static inline peer *tcp_server_peer(const tarry_tcp_server *server, uint32_t worker)
{
    return server->roster.seats[worker].holder;
}
/* Makes the caller's thread look again. */
void tcp_server_changed(tarry_tcp_server *server);
/* The worker is told to load them: it is let at them, until it has. */
void tcp_server_lend(tarry_tcp_server *server, uint32_t worker);
/* It is gone. */
void tcp_server_lend_no_more(tarry_tcp_server *server, uint32_t worker);

/* peer.c */
/* Listens at the addresses of the settings. Errors: ARGUMENT (plain text is not allowed there, too
 * many), FORMAT, SYSTEM. */
int tcp_server_listen(tarry_tcp_server *server, tarry_diagnostic *diagnostic);
/* The handles. Errors: SYSTEM. */
int tcp_server_open_listeners(tarry_tcp_server *server);
/* Closes the sockets, and their handles if the loop has them. A Unix socket's file goes with it.
 */
void tcp_server_close_listeners(tarry_tcp_server *server);
/* Connections are taken from now on, if at all, or none any more until this is called again. */
void tcp_server_accept(tarry_tcp_server *server, bool accepting);

/* tcp_server_step.c */
/* What the host does over connections. */
host_transport tcp_server_transport(tarry_tcp_server *server);
/* Tells the caller's thread how many take part in a round that begins now, if that has changed. */
void tcp_server_count_ready(tarry_tcp_server *server);

/* tcp_server_step.c: a tcp_replan as argument. */
typedef struct tcp_replan {
    const tarry_plan *next;
    int error;
    tarry_diagnostic *diagnostic;
} tcp_replan;
void tcp_server_turn_to(tarry_runtime *runtime, void *argument);
/* The plan as workers are sent it; the caller's. Errors: NO_MEMORY. */
int tcp_server_encode_plan(const tarry_tcp_server *server, const tarry_plan *plan, uint8_t **bytes,
                           size_t *size, tarry_diagnostic *diagnostic);

/* tcp_server_step.c */
peer_events tcp_server_peer_events(tarry_tcp_server *server);

/* Whether a worker that is about to join sums by the engine of those who are there; else `why` says
 * what differs. */
bool tcp_server_sums_alike(const tarry_tcp_server *server, const peer *who, const wire_ready *ready,
                           char *why, size_t room);
/* A worker is about to join. */
void tcp_server_meet(tarry_tcp_server *server, peer *who, const wire_ready *ready);
/* A worker has left in good order, or may not be talked to any more; so all that are revoked. */
void tcp_server_part_from(tarry_tcp_server *server, uint32_t worker);

/* tcp_server_step.c: where sums are not secure all are, and nothing is said. */
static inline ring tcp_server_grid(const tarry_secure_rules *rules)
{
    return (ring){.bits = rules->bits, .fraction = rules->fraction, .bound = rules->bound};
}
/* Errors: ARGUMENT. */
int tcp_server_check_secure(const tarry_tcp_server_settings *settings, uint32_t chunks,
                            tarry_diagnostic *diagnostic);
/* The list of workers of the own credentials, which the rules name. Errors: as credential_roster.
 */
int tcp_server_open_roster(tarry_tcp_server *server, tarry_diagnostic *diagnostic);
/* Starts the loop's thread; in this file, so that a fuzzer can have the loop in its own. */
int tcp_server_start_loop(tarry_tcp_server *server);

/* tcp_server.c: what that thread runs, with the server as argument. */
void *tcp_server_run_loop(void *argument);

/* tcp_server_step.c */
void tcp_server_send_status(tarry_tcp_server *server);
/* runtime_methods.status */
bool tcp_server_status(tarry_runtime *runtime, record_out *out);

#endif
