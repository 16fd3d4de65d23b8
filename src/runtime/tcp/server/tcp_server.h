/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network server from within. The caller's thread only asks and waits (tcp_server_call.c); one
 * thread runs the loop, calls the host (runtime/host) and does all that goes over connections; the
 * host's decode threads sum. What follows is the loop thread's, but for what is said to be shared.
 *   tcp_server.c         creation and the end
 *   tcp_server_call.c    the calls of the caller's thread
 *   tcp_server_loop.c    the loop's thread: turns, timers, heartbeats
 *   tcp_server_listen.c  listening sockets
 *   tcp_server_step.c    what the host asks for, and what it is told of who comes and goes
 *   tcp_server_send.c    messages and parameters to workers
 *   tcp_server_parts.c   coded parts, on the way from the connection to the host
 *   tcp_server_near.c    memory shared with workers on this machine
 *   tcp_server_replan.c  another plan
 *   tcp_server_secure.c  rules and keys of secure sums
 *   tcp_server_status.c  how the run stands, for viewers
 *   tcp_server_peers.c   what peers say and go through
 *   tcp_server_admit.c   who is let in, and as whom
 *   peer.h               one connection, which knows nothing of the server but a table of events
 */
#ifndef TCP_SERVER_STATE_H
#define TCP_SERVER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include <tarry/tcp.h>

#include "protocol/wire/wire_mesh.h"
#include "protocol/wire/wire_status.h"
#include "runtime/host/host.h"
#include "runtime/host/runtime.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/listeners.h"
#include "runtime/tcp/net/shm.h"
#include "runtime/tcp/server/peer.h"
#include "runtime/tcp/server/roster.h"
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

typedef struct tcp_meeting tcp_meeting; /* tcp_server_meet.c */

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
    uint32_t present; /* workers that have joined: the host's figure */
    uint32_t ready;   /* of these, that take part in a round that begins now */
    uint64_t joins;   /* so many times one did */
    _Atomic bool interrupted;
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
    listeners listeners;
    uint32_t address_count; /* of these, that the caller asked for */
    bool open; /* connections are taken: since the caller first waited, or ran a round */

    /* the rounds */
    uint8_t *read_buffer;    /* CHANNEL_SHARED_BYTES */
    const float *parameters; /* what workers compute with in the round in progress; borrowed */
    const peer *leaving;     /* whose worker the machine is being told is gone */
    uint64_t exact_rounds;
    tarry_sum_id signalled;   /* that workers were last told to make; step 0: none */
    wire_sum_status last_sum; /* that they made */
    uint64_t durations[TCP_REMEMBERED_ROUNDS];
    uint64_t rounds; /* that ended */
    uint64_t noted_rounds;
    uint64_t noted_done; /* by the caller's word, when `rounds` was noted_at */
    uint64_t noted_at;
    char note[WIRE_STATUS_NOTE_BYTES + 1];
    uint8_t *status; /* a STATUS frame, and what it is made from; taken when first needed */
    wire_worker_status *worker_status;

    /* who is there */
    roster roster;
    tcp_member *members;
    tcp_meeting *meetings; /* NULL: workers don't make the sum */
    /* The way to a worker's state; the caller's thread's. NULL: there is none. */
    mesh *mesh;
    uint32_t loans; /* members that load the state from here */
    peers peers;
    uint32_t viewers;

    /* shared memory */
    uint8_t host_id[SHARE_HOST_BYTES]; /* of this machine */
    shm_parameters shm_parameters;     /* made when it is first needed */
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

/* tcp_server_loop.c */
int tcp_server_init_loop(tarry_tcp_server *server);
int tcp_server_start_loop(tarry_tcp_server *server);
/* In the caller's thread: says farewell to all, ends the thread and closes the loop. */
void tcp_server_stop_loop(tarry_tcp_server *server, bool finished);
/* Makes the caller's thread look again. */
void tcp_server_changed(tarry_tcp_server *server);

/* tcp_server_state.c: where workers have the parameters, a copy of theirs, and one for them. */
/* Takes a way to workers, if there is one: with a certificate of before workers talked to each
 * other there is none. */
void tcp_server_open_mesh(tarry_tcp_server *server);
void tcp_server_close_mesh(tarry_tcp_server *server);
/* runtime_methods.reach and .leave */
exchange *tcp_server_reach(tarry_runtime *runtime, uint32_t worker);
void tcp_server_leave(tarry_runtime *runtime, uint32_t worker);
/* runtime_methods.vectors */
int tcp_server_vectors(tarry_runtime *runtime, const tarry_sum_id *after, const void *bytes,
                       uint64_t size);
/* The worker is told to load them: it is let at them, until it has. */
void tcp_server_lend(tarry_tcp_server *server, uint32_t worker);
/* It is gone. */
void tcp_server_lend_no_more(tarry_tcp_server *server, uint32_t worker);
/* Those who have loaded them are not let at them any more. */
void tcp_server_end_loans(tarry_tcp_server *server);

/* tcp_server_call.c: the runtime's methods; */
int tcp_server_open(tarry_runtime *runtime, tarry_diagnostic *diagnostic);
int tcp_server_wait(tarry_runtime *runtime, uint32_t workers, uint64_t wait_ns,
                    tarry_diagnostic *diagnostic);
int tcp_server_round(tarry_runtime *runtime, const float *parameters, float *sum,
                     tarry_round_result *result, tarry_diagnostic *diagnostic);
int tcp_server_replan(tarry_runtime *runtime, const tarry_plan *next, tarry_diagnostic *diagnostic);
void tcp_server_interrupt(tarry_runtime *runtime);
void tcp_server_describe(tarry_runtime *runtime, uint32_t worker, tarry_worker_state *state);
void tcp_server_note(tarry_runtime *runtime, uint64_t done, uint64_t rounds, const char *note);
/* Has the request done by the loop's thread, and waits for it. Any thread: one after the other. */
void tcp_server_ask(tarry_tcp_server *server, runtime_request *request, void *argument);

/* tcp_server_listen.c */
int tcp_server_listen(tarry_tcp_server *server, tarry_diagnostic *diagnostic);
int tcp_server_open_listeners(tarry_tcp_server *server);
/* Connections are taken from now on, if at all, or none any more until this is called again. */
void tcp_server_accept(tarry_tcp_server *server, bool accepting);

/* tcp_server_step.c */
/* What the host does over connections. */
host_transport tcp_server_transport(tarry_tcp_server *server);
/* Begins a round with server->parameters. */
void tcp_server_begin_round(tarry_tcp_server *server, float *sum);
/* Tells the caller's thread how many take part in a round that begins now, if that has changed. */
void tcp_server_count_ready(tarry_tcp_server *server);
/* Tells the host that the worker of a peer has come; or is gone, when its seat is free already and
 * its channel, if it has one, not closed yet. */
void tcp_server_join(tarry_tcp_server *server, peer *who);
void tcp_server_lose(tarry_tcp_server *server, uint32_t worker, const peer *who);

/* tcp_server_send.c */
/* host_transport.send */
int tcp_server_send(void *user, uint32_t worker, const tarry_message *message, uint8_t *frame,
                    size_t size);
/* The worker has turned to the plan in force: it is sent what was held back. */
void tcp_server_send_held(tarry_tcp_server *server, peer *who);

/* ---- tcp_server_notes.c ---- */

/* What a message to, or from, a worker tells observers and viewers. */
void tcp_server_note_sent(tarry_tcp_server *server, uint32_t worker, const tarry_message *message);
void tcp_server_note_said(tarry_tcp_server *server, uint32_t worker, const tarry_message *message);
/* Nothing reads the round's parameters any more, now or later. */
void tcp_server_drop_parameters(tarry_tcp_server *server);

/* tcp_server_parts.c */
/* A coded part begins to come in. What channel_handlers.begin gives back. */
channel_verdict tcp_server_begin_part(void *user, peer *who, const tarry_message *message,
                                      size_t bytes, void **place);
/* The same of one that lies in shared memory, and so is there. False: it breaks the rules. */
bool tcp_server_begin_shm_part(void *user, peer *who, const tarry_message *message);
/* host_transport.released */
void tcp_server_release_stripe(void *user, stripe *item);
/* A part that came over a connection was taken: where there are no decode threads, some are summed
 * while they are in the cache. */
void tcp_server_sum_received(tarry_tcp_server *server);

/* tcp_server_near.c */
/* Offers memory to a worker on this machine, as far as there is any. */
void tcp_server_share(tarry_tcp_server *server, peer *who);
void tcp_server_take_shared(void *user, peer *who, const wire_shared *shared);
/* The parameters of the round in progress can be read in shared memory. */
void tcp_server_publish(tarry_tcp_server *server);
/* The Unix socket that a peer on this machine can come to; "": none. */
const char *tcp_server_near_socket(const tarry_tcp_server *server);

/* tcp_server_replan.c: a tcp_replan as argument. */
typedef struct tcp_replan {
    const tarry_plan *next;
    int error;
    tarry_diagnostic *diagnostic;
} tcp_replan;
void tcp_server_turn_to(tarry_runtime *runtime, void *argument);
/* The plan as workers are sent it; the caller's. Errors: NO_MEMORY. */
int tcp_server_encode_plan(const tarry_tcp_server *server, const tarry_plan *plan, uint8_t **bytes,
                           size_t *size, tarry_diagnostic *diagnostic);

/* A plan goes out; what waits of one before does not. */
void tcp_server_send_plan(const tarry_tcp_server *server, peer *who);
void tcp_server_send_job(const tarry_tcp_server *server, peer *who);

/* tcp_server_peers.c */
peer_events tcp_server_peer_events(tarry_tcp_server *server);

/* tcp_server_admit.c: peer_events.hello and .ready */
bool tcp_server_admit(void *user, peer *who, const wire_hello *hello);
bool tcp_server_take_ready(void *user, peer *who, const wire_ready *ready);
/* How many messages an honest worker sends in a round. */
double tcp_server_messages_of(const tarry_tcp_server *server, uint32_t worker);

/* tcp_server_meet.c: workers that make the sum are told of each other. Does nothing elsewhere. */
/* Errors: NO_MEMORY. */
int tcp_server_meet_init(tarry_tcp_server *server);
void tcp_server_meet_free(tarry_tcp_server *server);
/* Whether a worker that is about to join sums by the engine of those who are there; else `why` says
 * what differs. */
bool tcp_server_sums_alike(const tarry_tcp_server *server, const peer *who, const wire_ready *ready,
                           char *why, size_t room);
/* A worker is about to join. */
void tcp_server_meet(tarry_tcp_server *server, peer *who, const wire_ready *ready);
/* This process has an engine's address, too: it is the member after the last worker. fingerprint:
 * of its own certificate, zeros: plain text. */
void tcp_server_meet_self(tarry_tcp_server *server, const uint8_t *reached, size_t size,
                          const uint8_t fingerprint[WIRE_DIGEST_BYTES]);
/* How a worker is reached that is there. False: it is not. */
bool tcp_server_member(const tarry_tcp_server *server, uint32_t worker, wire_member *member);
/* A worker has left in good order, or may not be talked to any more; so all that are revoked. */
void tcp_server_part_from(tarry_tcp_server *server, uint32_t worker);
void tcp_server_part_from_revoked(tarry_tcp_server *server);

/* tcp_server_secure.c: where sums are not secure all are, and nothing is said. */
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
/* Before WELCOME. */
void tcp_server_send_rules(const tarry_tcp_server *server, peer *who);
/* peer_events.key */
bool tcp_server_take_key(void *user, peer *who, const wire_key *words);
/* Whether a worker that is about to join has a key, and computes as those who are there; else `why`
 * says what it lacks. */
bool tcp_server_masks_alike(const tarry_tcp_server *server, const peer *who,
                            const wire_ready *ready, char *why, size_t room);
/* A worker is about to join: it is told the keys of those who are there. */
void tcp_server_tell_keys(const tarry_tcp_server *server, peer *who);
/* Its epoch is this one, as it joined or came anew to its round (a late worker that is called
 * back): the others are told its key for that, if they were not. */
void tcp_server_spread_key(const tarry_tcp_server *server, peer *who, uint32_t epoch);

/* tcp_server_status.c */
void tcp_server_send_status(tarry_tcp_server *server);

#endif
