/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection at the server: what it may say, from its HELLO on, and how long it may take. What
 * it says goes to a table of events. All calls are the loop thread's.
 */
#ifndef TCP_PEER_H
#define TCP_PEER_H

#include <tarry/tcp.h>

#include "protocol/wire/wire.h"
#include "protocol/wire/wire_secure.h"
#include "runtime/sum/stripes.h"
#include "runtime/tcp/net/bucket.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/net/outgoing.h"
#include "runtime/tcp/net/shm.h"
#include "runtime/tcp/server/newcomers.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/identity.h"

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
    void (*shared)(void *user, peer *from, const wire_shared *shared);
    void (*bye)(void *user, peer *from);
    /* A coded part begins to come in, or is there in shared memory: `message` follows. */
    channel_verdict (*begin_part)(void *user, peer *from, const tarry_message *message,
                                  size_t bytes, void **place);
    bool (*shm_part)(void *user, peer *from, const tarry_message *message);
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
    bool replanned;      /* a plan was sent since its WELCOME */
    uint64_t since_ns;   /* when it came */
    uint64_t heard_ns;   /* when bytes last came from it */
    uint64_t sent_ns;    /* when bytes last went to it, */
    uint64_t sent_bytes; /* as many as these by then */
    peer_limits limits;
    uint64_t spoke_ns;         /* the turn in which a message of it was stepped with last */
    bool waiting;              /* its channel, for a stripe */
    bool drained;              /* all that was sent has gone out */
    stripe *incoming;          /* that it is sending */
    shm_part *shm;             /* the memory for its coded part; NULL: none */
    bool shm_opened;           /* it uses that, */
    bool reads_shm_parameters; /* and reads parameters there */
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
/* The same in the middle of a turn, if nothing was sent lately. It goes out at once, or not at all
 * if other frames wait. */
void peer_beat_aside(peer *self, uint64_t now);
/* A heartbeat if nothing was sent lately; the end of one that does not get on. */
void peer_tick(peer *self, uint64_t now);
/* Whether its certificate is on the list that is in force now. */
bool peer_is_revoked(const peer *self);
uint64_t peer_received(const peer *self);
uint64_t peer_sent(const peer *self);

/* For peer's own files: */
/* Says why it is turned away. False: it is to go without a word. */
bool peer_say_refused(peer *self, const char *why);
/* Bytes came, or (`excused`) may have: nothing was read from it. */
void peer_hear(peer *self, bool excused);

/* peer_limits.c: what it says is counted, and too much of anything a flood, for which it is refused
 * at the end of the turn. Those that count give back false then. */
/* It is a worker, and hears of a plan, by which an honest one sends `each` messages in a round; it
 * may fetch so many chunks. */
void peer_limits_begin(peer *self, double each, uint32_t chunks);
void peer_limits_replan(peer *self, double each); /* it hears of another one */
/* A message of this round that the machine rejected, or took (reject: NULL). */
bool peer_count_message(peer *self, uint64_t round, const tarry_reject *reject);
bool peer_count_frame(peer *self, wire_kind kind); /* another frame */

#endif
