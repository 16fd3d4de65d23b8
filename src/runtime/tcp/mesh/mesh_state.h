/* SPDX-License-Identifier: Apache-2.0 */
/* What a mesh is, for the files that make it up. All but what is said to be guarded by the lock
 * belongs to its thread. */
#ifndef TCP_MESH_STATE_H
#define TCP_MESH_STATE_H

#include <pthread.h>
#include <uv.h>

#include "engine/sum_form.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/mesh/mesh_address.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/net/session.h"
#include "runtime/worker/mailbox.h"

/* What is dropped together. */
enum mesh_tag { MESH_TAG_SUM = 1, MESH_TAG_PIECE };

enum {
    MESH_UNSENT_BYTES = 4 << 20, /* that the system takes of a connection, if it has the room */
    MESH_DIALER_BYTES = WIRE_ID_BYTES / 2, /* of the instance of one that connects to all: ones */
};

typedef struct mesh_member mesh_member; /* another worker that may be talked to */
typedef struct mesh_link mesh_link;

/* A connection. */
struct mesh_link {
    mesh *mesh;
    mesh_link *next;
    session *session;
    channel *channel;    /* of the session; NULL while it is dialled */
    mesh_member *member; /* NULL: it is a stranger's so far */
    uint64_t since_ns;
    bool dialed, greeted;
    wire_greeting greeting;                 /* `greeted`: what it said */
    uint8_t fingerprint[WIRE_DIGEST_BYTES]; /* of the certificate that it showed */
    wire_begun begun;                       /* the last one; step 0: none */
    int unsent_bytes;                       /* that the system takes of it */
};

/* Another worker that may be talked to. */
struct mesh_member {
    uint32_t worker;
    bool admitted;
    bool grouped; /* in the engine's group, ... */
    uint32_t place;
    mesh_address where;
    mesh_link *link; /* dialed, or accepted; NULL: there is none */
    backoff wait;
    uint64_t retry_ns; /* TARRY_NEVER: it connects, or is connected to */
};

typedef enum mesh_flow_kind {
    MESH_CODED, /* a member's coded part, in the own share */
    MESH_SUM,   /* the sum, in a member's share */
} mesh_flow_kind;

/* Blocks that come from one member: stripe by stripe, and those of the sum part by part. */
typedef struct mesh_flow {
    mesh_flow_kind kind;
    uint32_t owner;        /* the place of the member that sums the share */
    uint32_t stripe, part; /* the next block that has numbers; CODED: part 0 */
} mesh_flow;

/* What there is of one member in the sum that runs. */
typedef struct mesh_intake {
    mesh_flow coded, sum; /* of the own place there are none */
    float *window;        /* blocks of `coded` that are in and not used yet, a ring */
    uint32_t sent;        /* the next stripe of the own coded part that goes to it */
    uint8_t *packed;      /* room for that stripe in its form */
    uint64_t came_ns;     /* when the last block came in */
    bool begun;           /* it has, or need not say so */
} mesh_intake;

/* The share of the sum that this member decodes for all. */
typedef struct mesh_share {
    uint32_t decoded; /* the next stripe to be */
    uint8_t *packed;  /* room for that stripe in its form */
    share_terms terms;
} mesh_share;

/* The forms of the sum that runs, and room for what is in them. */
typedef struct mesh_forms {
    sum_forms of;
    uint8_t *out; /* what is sent, share by share: of the own coded part, and the own share's sum */
    uint8_t *in;  /* a block of the sum for each member, as it comes, of so many bytes */
    uint8_t *term; /* numbers of one block of a coded part */
    size_t out_room, in_room, in_stride, term_room;
} mesh_forms;

typedef struct mesh_sum {
    uint64_t epoch;
    uint32_t count, place; /* 0: there is no group */
    mesh_member **members; /* NULL: itself, or one that was removed */
    uint32_t *workers;
    mesh_intake *intake;
    bool *has;       /* a coded part that is not zeros */
    const float **z; /* of the own share */
    mesh_share own;
    float *windows;   /* of all members */
    size_t rows_room; /* numbers in own.terms.rows */
    mesh_forms forms;
    size_t window_stripes;
    uint32_t ahead; /* stripes of the own coded part that may be out and not decoded here */
    const kernel *kernel;
    /* The one that runs: */
    bool runs;
    tarry_engine_sum asked;
    layout cut;
    uint32_t begun; /* members whose begun is in, or needn't be */
    uint64_t loads; /* in the channels, that read the part or the sum */
    uint64_t moved;
    mesh_pace pace;
} mesh_sum;

/* What was last asked for of another worker. */
typedef struct mesh_request {
    wire_pass asked; /* ticket 0: nothing was */
    uint32_t from;
    bool sent;
    mesh_pace pace;
} mesh_request;

/* Of the group that was formed last, as its caller named it. */
typedef struct mesh_formed {
    uint32_t worker;
    size_t address_size;
    uint8_t address[TARRY_ENGINE_ADDRESS_MOST];
} mesh_formed;

typedef struct mesh_call {
    void (*carry)(mesh *self, void *argument); /* NULL: none waits */
    void *argument;
} mesh_call;

struct mesh {
    tarry_engine engine;
    exchange *exchange;
    tarry_allocator allocator;
    credential *credential;
    uint64_t silence_ns;
    uint32_t connects_most;
    bool dials; /* to all, and none to it */
    void (*unreached)(void *user, uint32_t worker, const char *why);
    void *user;
    mesh_address own;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t tick;
    uv_poll_t listener;
    int listen_fd;
    pthread_t thread;
    uint8_t *shared; /* the channels' */
    mesh_link *links;
    uint32_t strangers;
    mesh_member **members;
    size_t member_count, member_room;
    mesh_sum sum;
    mesh_request request;
    mailbox said;     /* by the exchange, to be sent */
    uint64_t pump_ns; /* when exchange_pump is to be called */
    /* The engine's caller's: */
    struct {
        uint64_t epoch; /* of the next sum */
        uint32_t count, place;
        mesh_formed *members;
        tarry_engine_sum asked;
    } formed;
    /* Guarded by the lock: */
    pthread_mutex_t lock;
    pthread_cond_t called, moved; /* a call is over; there is progress */
    mesh_call call;
    bool stopping, engine_woken;
    bool group_stands; /* the thread has the group that was formed last, and all its members */
    tarry_engine_progress engine_progress;
};

/* Has the thread carry this out, and waits for that. */
void mesh_do(mesh *self, void (*carry)(mesh *self, void *argument), void *argument);
/* Has the thread carry this out by and by: it is done before what it is asked for next. */
void mesh_post(mesh *self, void (*carry)(mesh *self, void *argument), void *argument);
/* With the lock held: waits until `runs` says no, until_ns (0: not at all), or *woken, which is
 * reset. */
void mesh_wait(mesh *self, bool *woken, uint64_t until_ns, bool (*runs)(const mesh *self));
/* Sets *woken. */
void mesh_wake(mesh *self, bool *woken);

/* ---- mesh.c ---- */

mesh_member *mesh_find(const mesh *self, uint32_t worker);
/* Adds it, or gives back the one that is there; of another instance: after dropping that. NULL: no
 * memory. */
mesh_member *mesh_add(mesh *self, uint32_t worker, const mesh_address *where);
/* Its connection ends, and it is none any more. */
void mesh_drop(mesh *self, mesh_member *member, const char *why);
/* Whether frames can be sent to it. */
static inline bool mesh_is_linked(const mesh_member *member)
{
    return member->link != NULL && member->link->greeted;
}
/* It is wanted now: if it is not connected, that is tried without delay. */
void mesh_hurry(mesh *self, mesh_member *member);
/* A group is formed: its members are tried at once, and of many members no others. */
void mesh_choose_links(mesh *self);
/* Something is wanted of it outside of a sum: where the two are not kept connected, it is connected
 * to, whoever of them would do that. */
void mesh_reach(mesh *self, mesh_member *member);
/* The time at which something has to be done has changed. */
void mesh_set_tick(mesh *self);
/* The system takes so many bytes of it that are not sent yet, and no more. */
void mesh_hold_unsent(mesh_link *link, int bytes);
/* What came over it is not of this protocol. Gives back false. */
bool mesh_misbehaves(mesh_link *link, const char *why);

/* ---- mesh_sum.c ---- */

extern const tarry_engine_methods mesh_engine_methods;
void mesh_group_stands(mesh *self, bool stands);
void mesh_engine_close(mesh *self);

/* ---- mesh_sum.c: where blocks are ---- */

/* How many numbers the next block has, which begin at number *first of the part. */
size_t mesh_flow_next(const mesh_sum *sum, const mesh_flow *flow, size_t *first);
static inline bool mesh_flow_is_over(const mesh_sum *sum, const mesh_flow *flow)
{
    return flow->stripe == sum->cut.stripes;
}

/* ---- mesh_sum.c: numbers in fewer bytes ---- */

/* The form of a block of that kind. */
compress_form mesh_form_of(const mesh_sum *sum, wire_block_kind kind, share of);

/* ---- mesh_sum.c ---- */

void mesh_sum_linked(mesh *self, mesh_member *member);
/* It can't be reached, or its connection is lost. */
void mesh_sum_lost(mesh *self, mesh_member *member, const char *why);
bool mesh_sum_begun(mesh_link *link, const wire_begun *begun);
channel_verdict mesh_sum_begin(mesh_link *link, const wire_block *block, void **place);
bool mesh_sum_complete(mesh_link *link, const wire_block *block);

/* ---- mesh_sum.c: a sum that stands still ---- */

/* A sum of which nothing has moved for the silence limit fails; suspected is who owes something
 * and was heard of longest ago, and of several of which nothing was heard one that is not
 * connected: the others may have ended because of that one. */
void mesh_watch_look(mesh *self, uint64_t now_ns);

/* ---- mesh_exchange.c ---- */

int mesh_exchange_open(mesh *self);
void mesh_exchange_close(mesh *self);
/* Sends what waits. */
void mesh_exchange_turn(mesh *self);
void mesh_exchange_linked(mesh *self, mesh_member *member);
bool mesh_exchange_take(mesh_link *link, const wire_pass *message);
channel_verdict mesh_exchange_begin(mesh_link *link, const wire_pass *piece, void **place);
bool mesh_exchange_complete(mesh_link *link, const wire_pass *piece);
/* When mesh_exchange_look is to be called; TARRY_NEVER: need not be. */
uint64_t mesh_exchange_due_ns(const mesh *self);
/* A request of which nothing has moved for the silence limit fails: its source has not connected,
 * or sends nothing. */
void mesh_exchange_look(mesh *self, uint64_t now_ns);

#endif
