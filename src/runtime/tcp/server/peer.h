/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection at the server: what it may say, from its HELLO on, and how long it may take. All
 * calls are the loop thread's.
 */
#ifndef TCP_PEER_H
#define TCP_PEER_H

#include <tarry/tcp.h>

#include "protocol/wire/wire.h"
#include "runtime/sum/stripes.h"
#include "runtime/tcp/net/bucket.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/net/near.h"
#include "runtime/tcp/net/outgoing.h"
#include "runtime/tcp/trust/identity.h"

typedef struct tarry_tcp_server tarry_tcp_server;

typedef enum peer_state {
    PEER_NEW,      /* not verified, or no HELLO was taken yet: one of the newcomers */
    PEER_WELCOMED, /* a worker that gets the plan, the job and its data ready */
    PEER_READY,    /* a worker that has joined */
    PEER_TURNING,  /* the same, while it goes over to another plan */
    PEER_VIEWER,
    PEER_OVER, /* the channel is closed; freed at the end of the turn */
} peer_state;

/* What is put off until the end of a turn. */
typedef enum peer_task {
    PEER_RESUME = 1,  /* a stripe is free again: its channel waits for one */
    PEER_PUMP = 2,    /* pieces were sent: the next ones may go */
    PEER_HEARD = 4,   /* bytes came: the machine is to be told */
    PEER_DROP = 8,    /* the machine has given its worker up */
    PEER_REFUSE = 16, /* `refusal` says why */
} peer_task;

/* What it may still say. Honest workers never come near to the end of it. */
typedef struct peer_limits {
    bucket messages;        /* a token each, and many if it makes no sense */
    bucket_size most;       /* of these, by the plan */
    double each_round;      /* that come back with a round, */
    uint64_t counted_round; /* and the last one for which they did */
    bucket heartbeats;
    uint32_t answers;        /* READYs: one for each plan that it was told of, */
    uint32_t shared_answers; /* SHAREDs: for each memory that it was offered, */
    uint32_t fetches;        /* FETCHes: for each chunk of the data, and some */
} peer_limits;

typedef struct peer peer;

struct peer {
    tarry_tcp_server *server;
    peer *before, *after;  /* in the list of all */
    peer *elder, *younger; /* of newcomers, while it is new */
    peer *next_task;       /* in the list of those with tasks */
    unsigned tasks;        /* of peer_task */
    bool listed;           /* in that list */
    peer_state state;
    channel *channel;
    uint32_t worker; /* WIRE_ANY_WORKER: none */
    bool trusted;    /* a member by its Unix socket, or anybody is: it is who it says it is */
    credential_identity identity; /* unless it is trusted */
    bool introduced;              /* its HELLO came */
    wire_reason refusal;
    bool replanned;      /* a plan was sent since its WELCOME */
    uint64_t since_ns;   /* when it came */
    uint64_t heard_ns;   /* when bytes last came from it */
    uint64_t sent_ns;    /* when bytes last went to it, */
    uint64_t sent_bytes; /* as many as these by then */
    peer_limits limits;
    uint64_t spoke_ns; /* the turn in which a message of it was stepped with last */
    bool waiting;      /* its channel, for a stripe */
    bool drained;      /* all that was sent has gone out */
    stripe *incoming;  /* that it is sending */
    near_part *near;   /* the memory for its coded part; NULL: none */
    bool near_opened;  /* it uses that, */
    bool reads_board;  /* and reads parameters there */
    outgoing large;
    uint8_t *held; /* frames for after it has turned */
    size_t held_size, held_room;
};

typedef struct peer_list {
    peer *first;
    peer *tasks; /* those with tasks */
    peer *over;  /* to be freed */
} peer_list;

/*
 * Takes over a connection. member: by the Unix socket's file. Errors: NO_MEMORY, SYSTEM; fd is
 * closed then.
 */
int peer_open(tarry_tcp_server *server, int fd, bool member);
/* Says why, and ends it; it can be told so for a little while yet. */
void peer_refuse(peer *its, wire_reason reason, const char *text);
/* Ends it, with a last word if bye is not 0. Its worker is lost. */
void peer_end(peer *its, wire_bye bye);
/* Frees those that are over. */
void peer_bury(tarry_tcp_server *server);
/* Puts something off until the end of the turn. */
void peer_later(peer *its, peer_task task);
/* Does what was put off, for all. */
void peer_do_tasks(tarry_tcp_server *server);
/* Sends what may go of the large things. */
void peer_pump(peer *its);
/* A plan goes out; what waits of one before does not. */
void peer_send_plan(peer *its);
/* Drops large things of a tag; nothing reads them after that. */
void peer_drop(peer *its, outgoing_tag tag);
/* A heartbeat, unless it has not said who it is. */
void peer_beat(peer *its, uint64_t now);
/* The same if nothing was sent lately; the end of one that does not get on. */
void peer_tick(peer *its, uint64_t now);
/* Whether its certificate is on the list that is in force now. */
bool peer_is_revoked(const peer *its);
uint64_t peer_received(const peer *its);
uint64_t peer_sent(const peer *its);

/* peer_limits.c: what it says is counted, and too much of anything a flood, for which it is refused
 * at the end of the turn. Those that count give back false then. */
void peer_limits_begin(peer *its);  /* it is a worker, and hears of the plan */
void peer_limits_replan(peer *its); /* it hears of another one */
/* A message that the machine rejected, or took (reject: NULL). */
bool peer_count_message(peer *its, const tarry_reject *reject);
bool peer_count_frame(peer *its, wire_kind kind); /* another frame */

/* peer_admit.c */
bool peer_hello(peer *its, const wire_hello *hello);
bool peer_ready(peer *its, const wire_ready *ready);

#endif
