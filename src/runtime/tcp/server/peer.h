/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection at the server: what it may say, from its HELLO on, and how long it may take. What
 * it says goes to a table of events. All calls are the loop thread's.
 */
#ifndef RUNTIME_PEER_H
#define RUNTIME_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/tcp.h>

#include "compress/view.h"
#include "protocol/wire/wire.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/sum/stripes.h"
#include "runtime/tcp/net/bucket.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/trust/credential.h"

/*
 * Large things on their way to one peer: the round's parameters, the plan, the job, the data of
 * chunks. They are sent in pieces out of the memory where they lie, a few at a time, so that small
 * frames pass between them and a slow peer costs no more than a fast one.
 */

enum {
    OUTGOING_PIECE = 1 << 16, /* bytes in one frame */
    OUTGOING_WINDOW = 16,     /* pieces that wait in the channel */
    OUTGOING_STREAMS = 40,    /* things that wait */
};

/* What is dropped together. */
typedef enum outgoing_tag {
    OUTGOING_PARAMETERS = 1,
    OUTGOING_PLAN,
    OUTGOING_JOB,
    OUTGOING_DATA,
} outgoing_tag;

typedef struct outgoing_stream {
    outgoing_tag tag;
    uint64_t round;       /* PARAMETERS */
    uint32_t index;       /* DATA, PLAN */
    const uint8_t *bytes; /* borrowed until sent or dropped */
    const view *from;     /* PARAMETERS: in their place its pieces; else NULL */
    uint64_t size, sent;
} outgoing_stream;

typedef struct outgoing {
    outgoing_stream streams[OUTGOING_STREAMS]; /* a ring */
    uint32_t first, count;
    view_reader reader; /* what the peer has of a view */
} outgoing;

/* Whether anything of the tag waits, or is on its way for all that is known here. */
bool outgoing_has(const outgoing *self, outgoing_tag tag);

/*
 * Connections that have not said who they are: anybody can make them, as many as he likes. So there
 * are few of them, and when there is no room one goes: the oldest of those that have got least far
 * with the handshake. A member is verified and has said HELLO within a moment, and somebody who
 * says nothing keeps nobody out. What is said of those that are turned away, and to them, is
 * bounded as well. The loop thread's.
 */

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
/* It has said who it is, or is over. */
void newcomers_remove(struct peers *all, struct peer *who);
/* Whether one more may come in at one of the listeners in this turn of the loop, in which it was
 * given its turn when so many had been displaced: all that have just come shall be heard before
 * they make room, and no listener waits for another one. */
bool newcomers_may_come(const newcomers *self, uint32_t displaced, uint32_t listeners);
/* Says, once a second, how many were only counted. */
void newcomers_tick(struct peers *all, uint64_t now);

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
    uint32_t answers; /* READYs: one for each plan that it was told of, */
    uint32_t fetches; /* FETCHes: for each chunk of the data, and some */
} peer_limits;

typedef struct peer peer;

/*
 * What a peer says, asks and goes through, for whom it is of. Called in the loop's thread; where a
 * bool is given back, false says that the peer was ended, or is to hear nothing more. peer.c sees
 * to it that HELLO comes first, and that what follows is allowed in the peer's state.
 */
typedef struct peer_events {
    void *user;
    uint64_t (*now)(void *user);
    /* Somebody is turned away; worker: WIRE_ANY_WORKER: not known. */
    void (*turned_away)(void *user, uint32_t worker, const char *from, const char *why);
    bool (*hello)(void *user, peer *from, const wire_hello *hello);
    bool (*ready)(void *user, peer *from, const wire_ready *ready);
    bool (*key)(void *user, peer *from, const wire_key *words);
    bool (*message)(void *user, peer *from, tarry_message *message);
    bool (*fetch)(void *user, peer *from, const wire_fetch *fetch);
    void (*bye)(void *user, peer *from);
    /* A coded part begins to come in: `message` follows. */
    channel_verdict (*begin_part)(void *user, peer *from, const tarry_message *message,
                                  size_t bytes, void **place);
    /* heard_ns is new, since bytes came, or (`excused`) could not be read. It has a worker's id. */
    void (*heard)(void *user, peer *from, bool excused);
    /* The task PEER_HEARD is due. */
    void (*alive)(void *user, peer *from);
    /* A worker has said nothing for twice the silence that counts as absence. Gives back whether it
     * is to be ended. */
    bool (*silent)(void *user, peer *from);
    /* It is over, and was in that state; its channel is still to be closed. */
    void (*gone)(void *user, peer *who, peer_state was);
} peer_events;

typedef struct peers peers;

struct peer {
    peers *all;
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
    uint32_t turn;       /* plans that it was sent since its WELCOME */
    uint64_t since_ns;   /* when it came */
    uint64_t heard_ns;   /* when bytes last came from it */
    uint64_t sent_ns;    /* when bytes last went to it, */
    uint64_t sent_bytes; /* as many as these by then */
    peer_limits limits;
    uint64_t spoke_ns; /* the turn in which a message of it was stepped with last */
    bool waiting;      /* its channel, for a stripe */
    bool drained;      /* all that was sent has gone out */
    stripe *incoming;  /* that it is sending */
    outgoing large;
    uint8_t *held; /* frames for after it has turned */
    size_t held_size, held_room;
    uint8_t *key; /* secure sums: its KEY; NULL: none came yet */
    size_t key_size;
    uint64_t numerics; /* that it says */
};

/* All connections, and what they have in common. */
struct peers {
    tarry_allocator allocator;
    uv_loop_t *loop;
    credential *credential; /* NULL: plain text, and everybody is trusted */
    uint8_t *read_buffer;   /* CHANNEL_SHARED_BYTES */
    size_t most_waiting;    /* bytes that wait to be sent to one */
    uint64_t silence_ns;    /* that counts as absence */
    peer_events events;
    peer *first;
    peer *tasks; /* those with tasks */
    peer *over;  /* to be freed */
    uint32_t count;
    newcomers newcomers;
};

/*
 * Takes over a connection. member: by the Unix socket's file. Errors: NO_MEMORY, SYSTEM; fd is
 * closed then.
 */
int peer_open(peers *all, int fd, bool member);
/* Says why, and ends it; it can be told so for a little while yet. */
void peer_refuse(peer *self, wire_reason reason, const char *text);
/* Ends it, with a last word if bye is not 0. Its worker is lost. */
void peer_end(peer *self, wire_bye bye);
/* Frees those that are over. */
void peers_free_closed(peers *all);
/* Puts something off until the end of the turn. */
void peer_defer(peer *self, peer_task task);
/* Does what was put off, for all. */
void peers_do_tasks(peers *all);
/* Something large goes out. */
void peer_send_large(peer *self, const outgoing_stream *stream);
/* Drops large things of a tag; nothing reads them after that. */
void peer_drop(peer *self, outgoing_tag tag);
/* A heartbeat, unless it has not said who it is. */
void peer_beat(peer *self, uint64_t now);
/* A heartbeat if nothing was sent lately; the end of one that does not get on. */
void peer_tick(peer *self, uint64_t now);
/* True if it is a worker that has joined and is still here; NULL is not. */
static inline bool peer_is_there(const peer *self)
{
    return self != NULL && (self->state == PEER_READY || self->state == PEER_TURNING);
}
uint64_t peer_received(const peer *self);
uint64_t peer_sent(const peer *self);

/* peer.c: what it says is counted, and too much of anything a flood, for which it is refused
 * at the end of the turn. Those that count give back false then. */
/* It is a worker, and hears of a plan, by which an honest one sends `each` messages in a round; it
 * may fetch so many chunks. */
void peer_limits_begin(peer *self, double each, uint32_t chunks);
void peer_limits_replan(peer *self, double each); /* it hears of another one */
/* A message of this round that the machine rejected, or took (reject: NULL). */
bool peer_count_message(peer *self, uint64_t round, const tarry_reject *reject);

#endif
