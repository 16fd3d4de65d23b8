/* SPDX-License-Identifier: Apache-2.0 */
/* What a mesh is, for the files that make it up. All but what is said to be guarded by the lock
 * belongs to its thread. */
#ifndef TCP_MESH_STATE_H
#define TCP_MESH_STATE_H

#include <pthread.h>
#include <uv.h>

#include "engine/share.h"
#include "engine/sum_form.h"
#include "protocol/wire/wire_mesh.h"
#include "route/route_cost.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/mesh/mesh_address.h"
#include "runtime/tcp/mesh/mesh_pace.h"
#include "runtime/tcp/net/backoff.h"
#include "runtime/tcp/net/channel.h"

/* What is dropped together. */
enum mesh_tag { MESH_TAG_SUM = 1, MESH_TAG_HELD, MESH_TAG_STATE };

enum {
    MESH_STREAMS = 4,                      /* that one peer gets at a time */
    MESH_SIGNS = 4,                        /* of life, within the silence limit */
    MESH_DIALER_BYTES = WIRE_ID_BYTES / 2, /* of the instance of one that connects to all: ones */
};

typedef struct mesh_member mesh_member; /* another worker that may be talked to */
typedef struct mesh_link mesh_link;
typedef struct mesh_copy mesh_copy;

/* Something large on its way to a peer that asked for it. */
typedef struct mesh_stream {
    uint32_t request; /* 0: none */
    wire_ask_kind kind;
    bool waits;      /* for a copy of the state, */
    mesh_copy *copy; /* which it reads then */
    bool cut;        /* nothing more of it is sent */
    tarry_sum_id sum;
    const uint8_t *bytes;
    uint64_t size, sent;
    uint32_t loads; /* in the channel */
    struct digest *digest;
    mesh_link *link;
} mesh_stream;

/* A connection. */
struct mesh_link {
    mesh *mesh;
    mesh_link *next;
    channel *channel;
    mesh_member *member; /* NULL: it is a stranger's so far */
    uint64_t since_ns;
    bool dialed, opened, greeted;
    wire_greeting greeting;                 /* `greeted`: what it said */
    uint8_t fingerprint[WIRE_DIGEST_BYTES]; /* of the certificate that it showed */
    wire_begun begun;                       /* the last one; step 0: none */
    mesh_stream streams[MESH_STREAMS];
};

/* Another worker that may be talked to. */
struct mesh_member {
    uint32_t worker;
    bool admitted;
    bool grouped; /* in the engine's group, ... */
    uint32_t place;
    mesh_address where;
    mesh_link *link; /* dialed, or accepted; NULL: there is none */
    uint32_t tried;  /* of its places: the last one */
    backoff wait;
    uint64_t retry_ns; /* TARRY_NEVER: it connects, or is connected to */
};

enum { MESH_OWN_SLICES = 2, MESH_NO_FLOW = -1 };

typedef enum mesh_flow_kind {
    MESH_CODED,   /* a leaf's coded part, in an own slice */
    MESH_PARTIAL, /* an inner child's partial sum, in a piece of an own slice */
    MESH_SUM,     /* of a slice that is another's, or a piece of an own one */
} mesh_flow_kind;

/* Blocks that come from one member: stripe by stripe, and but for CODED part by part. */
typedef struct mesh_flow {
    mesh_flow_kind kind;
    uint32_t from; /* its place */
    route_where where;
    uint32_t slice, piece; /* what it is of; `piece` unless that is a slice */
    float *window;         /* not SUM: blocks that are in and not used yet, a ring, */
    size_t room;           /* of so many numbers a stripe and part */
    uint32_t stripe, part; /* the next block that has numbers */
} mesh_flow;

/* A piece of an own slice. Stripes before `done` are summed here, and sent to the parent or final.
 */
typedef struct mesh_piece {
    route_where where;
    uint32_t slice;
    uint32_t parent; /* its place; ROUTE_NOBODY */
    int32_t sum;     /* that flow, from the parent */
    int32_t *inners; /* flows, in the order in which they are added */
    uint32_t inner_count;
    uint32_t done;
} mesh_piece;

/* A slice that this member has to do with. */
typedef struct mesh_slice {
    route_where where;
    uint32_t owner; /* its place */
    int32_t sum;    /* another's: that flow; */
    uint32_t sent;  /* the next stripe of the own coded part that goes there */
    /* An own one: */
    uint32_t number;              /* among those */
    uint32_t first_piece, pieces; /* of it */
    uint32_t decoded;             /* the next stripe to be */
    uint32_t final;               /* the next stripe that leaves are sent */
    uint8_t *packed, *unsent;     /* room for the next stripe in its form; of an own one: the next
                                     that leaves are sent */
    share_terms terms;            /* `rows`: of `rows_room` numbers */
} mesh_slice;

/* What the members do for each other, by the group's shape; in places, not seats. */
typedef struct mesh_route {
    mesh_slice *slices;
    mesh_piece *pieces;
    mesh_flow *flows; /* those of one member stand together */
    int32_t *inners;  /* all pieces' */
    uint32_t *seats;  /* place of each seat */
    uint32_t *terms;  /* all own slices' places */
    uint32_t slice_count, piece_count, flow_count, inner_count, leaf_count;
    size_t stripe_length;
} mesh_route;

/* What there is of one member in the sum that runs. */
typedef struct mesh_intake {
    uint32_t first_flow, flows;     /* none: it is no neighbour */
    int32_t coded[MESH_OWN_SLICES]; /* flow of its coded part, by the own slice's number */
    uint64_t came_ns;               /* when the last block came in, or a sign of life */
    bool begun;                     /* it has, or need not say so */
} mesh_intake;

/* The forms of the sum that runs, and room for what is in them. */
typedef struct mesh_forms {
    sum_forms of;
    uint8_t *out;  /* what is sent, slice by slice: of the own coded part, and of own slices' sum */
    uint8_t *in;   /* a block of the sum for each flow, as it comes, of so many bytes */
    uint8_t *term; /* numbers of one block of a coded part */
    size_t out_room, in_room, in_stride, term_room;
} mesh_forms;

typedef struct mesh_sum {
    uint64_t epoch;
    tarry_shape shape;
    uint32_t count, place; /* 0: there is no group */
    mesh_member **members; /* NULL: itself, or one that was removed */
    uint32_t *workers;
    mesh_intake *intake;
    bool *has;       /* a coded part that is not zeros, */
    bool *among;     /* ... and a leaf of one slice */
    const float **z; /* of one slice */
    mesh_route route;
    float *windows;  /* of all CODED flows */
    float *partials; /* of all PARTIAL flows, for sums of up to so many parts: */
    uint32_t partials_parts;
    float *rows; /* of all own slices */
    size_t rows_room;
    mesh_forms forms;
    size_t window_stripes;
    uint32_t ahead; /* stripes of the own coded part that may be out and not decoded here */
    const kernel *kernel;
    /* The one that runs: */
    bool runs;
    tarry_engine_sum asked; /* what is left to be summed of it, */
    size_t stride;          /* and from part to part of that */
    size_t whole;           /* once it has failed: what is right of it all the same */
    layout cut;
    uint32_t begun; /* members whose begun is in, or needn't be */
    uint64_t loads; /* in the channels, that read the part or the sum */
    uint64_t moved;
    uint64_t begun_ns;            /* when all with whom numbers are exchanged had begun */
    uint64_t took_ns, latency_ns; /* once it is done: as tarry_engine_progress */
    mesh_pace pace;
    uint64_t sign_ns; /* when neighbours are shown that this one is there; TARRY_NEVER: they are
                         not */
} mesh_sum;

/* What is got from another worker. */
typedef struct mesh_request {
    uint32_t number;
    wire_ask_kind kind; /* NOTHING: none runs */
    uint32_t from;
    bool sent, comes;
    uint32_t signs; /* that it is on its way, before it comes */
    mesh_pace pace;
    tarry_sum_id sum;
    uint8_t *bytes; /* where they go */
    uint8_t *state; /* of a load: the same, by the allocator; stays after the end */
    uint64_t size, got;
    struct digest *digest;
} mesh_request;

/* A copy of the own state. */
struct mesh_copy {
    uint32_t users; /* streams that read it, and the mesh while it is the newest */
    uint8_t *bytes; /* NULL: there is none */
    bool lent;      /* they are somebody else's, and stay */
    uint64_t size;
    tarry_sum_id after;
};

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
    exchange exchange;
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
    mesh_copy *newest; /* copy of the state that others may have, or NULL */
    uint64_t sign_ns;  /* when those who wait for a state hear that it is on its way; TARRY_NEVER:
                          none waits */
    /* The engine's caller's: */
    struct {
        uint64_t epoch; /* of the next sum */
        tarry_shape shape;
        uint32_t count, place;
        mesh_formed *members;
        tarry_engine_sum asked; /* what is left to be summed, */
        size_t stride;          /* and from part to part of it */
    } formed;
    /* Guarded by the lock: */
    pthread_mutex_t lock;
    pthread_cond_t called, moved; /* a call is over; there is progress */
    mesh_call call;
    bool stopping, engine_woken, exchange_woken;
    bool group_stands; /* the thread has the group that was formed last, and all its members */
    tarry_engine_progress engine_progress;
    exchange_progress exchange_progress;
    void (*wanted)(void *user);
    void *wanted_user;
    struct {
        tarry_sum_id sum; /* step 0: none */
        const uint8_t *bytes;
        uint64_t size;
        uint32_t streams; /* of it, which read it; the thread's to begin and to end */
    } held;
};

/* Has the thread carry this out, and waits for that. */
void mesh_do(mesh *self, void (*carry)(mesh *self, void *argument), void *argument);
/* Has the thread carry this out by and by: it is done before what it is asked for next. */
void mesh_post(mesh *self, void (*carry)(mesh *self, void *argument), void *argument);
void mesh_engine_is(mesh *self, tarry_engine_state state, uint32_t suspect, const char *why);
void mesh_exchange_is(mesh *self, exchange_state state, const char *why);
/* With the lock held: waits until `runs` says no, until_ns (0: not at all), or *woken, which is
 * reset. */
void mesh_wait(mesh *self, bool *woken, uint64_t until_ns, bool (*runs)(const mesh *self));
/* Sets *woken. */
void mesh_wake(mesh *self, bool *woken);

/* ---- mesh_peers.c ---- */

int mesh_listen(mesh *self, const mesh_settings *settings, tarry_diagnostic *diagnostic);
void mesh_close_listener(mesh *self);
void mesh_peers_start(mesh *self);
void mesh_peers_stop(mesh *self);
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
/* The group has its shape: its neighbours are tried at once, and of many members no others. */
void mesh_choose_links(mesh *self);
/* Something is wanted of it outside of a sum: where the two are not kept connected, it is connected
 * to, whoever of them would do that. */
void mesh_reach(mesh *self, mesh_member *member);
/* The time at which something has to be done has changed. */
void mesh_set_tick(mesh *self);
/* What came over it is not of this protocol. Gives back false. */
bool mesh_misbehaves(mesh_link *link, const char *why);

/* ---- mesh_engine.c ---- */

extern const tarry_engine_methods mesh_engine_methods;
void mesh_group_stands(mesh *self, bool stands);
void mesh_engine_close(mesh *self);

/* ---- mesh_route.c ---- */

/* What the group's members do for each other; members, place, count and shape are set. `where` is
 * where each is reached. Errors: NO_MEMORY. */
int mesh_route_make(mesh *self, const mesh_address *where);
void mesh_route_free(mesh *self);
/* Room for a sum of so many parts, while nothing runs. Errors: NO_MEMORY. */
int mesh_route_make_room(mesh *self, uint32_t parts);
/* Whether the two exchange anything in the group's shape. */
static inline bool mesh_is_neighbour(const mesh_sum *sum, uint32_t place)
{
    return sum->intake[place].flows > 0;
}

/* ---- mesh_flow.c: where blocks are ---- */

/* The numbers of a stripe, within a part. */
route_span mesh_span(const mesh_sum *sum, const route_where *where, uint32_t stripe);
/* The first stripe from `stripe` on in which there are numbers. */
uint32_t mesh_next_stripe(const mesh_sum *sum, const route_where *where, uint32_t stripe);
/* The flow's first block of the sum that begins, and the one after its next. */
void mesh_flow_begin(const mesh_sum *sum, mesh_flow *flow);
void mesh_flow_advance(const mesh_sum *sum, mesh_flow *flow);
/* How many numbers the next block has, which begin at number *first of the part. */
size_t mesh_flow_next(const mesh_sum *sum, const mesh_flow *flow, size_t *first);
float *mesh_flow_window(const mesh_sum *sum, const mesh_flow *flow, uint32_t stripe, uint32_t part);
static inline bool mesh_flow_is_over(const mesh_sum *sum, const mesh_flow *flow)
{
    return flow->stripe == sum->cut.stripes;
}

/* ---- mesh_form.c: numbers in fewer bytes ---- */

/* Room for a sum of the group in its forms, while nothing runs. Errors: NO_MEMORY, ARGUMENT (a form
 * that is none of a sum's, or any in another shape than direct, where each hop would round). */
int mesh_form_make_room(mesh *self, const tarry_engine_sum *asked);
void mesh_form_free(mesh *self);
/* The sum begins. */
void mesh_form_begin(mesh_sum *sum);
/* The form of a block of that kind. */
compress_form mesh_form_of(const mesh_sum *sum, wire_block_kind kind, route_span span);
/* The own coded part's numbers in another's slice, as they are sent: they stay until the sum's end,
 * once mesh_form_packed has been told that they are on their way. */
const void *mesh_form_pack(const mesh_sum *sum, const mesh_slice *slice, route_span span);
void mesh_form_packed(const mesh_sum *sum, mesh_slice *slice, route_span span);
/* The numbers of a block of a coded part that came, until the next ones are asked for. */
const float *mesh_form_term(const mesh_sum *sum, const void *came, route_span span);
/* The next stripe of an own slice is summed: it becomes what others are sent of it. */
void mesh_form_round(mesh_sum *sum, mesh_slice *slice, route_span span);
/* Where a block of the sum is to be written as it comes, */
void *mesh_form_place(const mesh_sum *sum, const mesh_flow *flow, const wire_block *block);
/* ... and it is there. */
void mesh_form_came(const mesh_sum *sum, const mesh_flow *flow, const wire_block *block);

/* ---- mesh_sum.c ---- */

/* There is a group, nothing runs, and there is room for the parts. `asked` and `stride` are what
 * share_rest gives. */
void mesh_sum_start(mesh *self, const tarry_engine_sum *asked, size_t stride, uint64_t epoch);
/* What runs ends: nothing of it is read or written from here on. */
void mesh_sum_let_go(mesh *self);
void mesh_sum_linked(mesh *self, mesh_member *member);
/* It can't be reached, or its connection is lost. */
void mesh_sum_lost(mesh *self, mesh_member *member, const char *why);
bool mesh_sum_begun(mesh_link *link, const wire_begun *begun);
channel_verdict mesh_sum_begin(mesh_link *link, const wire_block *block, void **place);
bool mesh_sum_complete(mesh_link *link, const wire_block *block);
/* It fails, and the member in that place is suspected; the group's count: nobody is. */
void mesh_sum_fail(mesh *self, uint32_t place, const char *why);
/* It still has to send something, to be all. */
bool mesh_sum_needs(const mesh_sum *sum, uint32_t place);
void mesh_sum_say_begun(mesh *self, mesh_member *member);

/* ---- mesh_reduce.c: adding up ---- */

/* As far as that may go now: all that is in is decoded, added up and sent on. */
void mesh_reduce(mesh *self);
/* A block of that flow is in. */
void mesh_reduce_came(mesh *self, mesh_flow *flow, const wire_block *block);
/* The own coded part, to one who has begun. */
void mesh_reduce_send_coded(mesh *self, uint32_t place);
/* What runs is done, if all is there, and nothing is read any more. */
void mesh_reduce_look_whether_done(mesh *self);
/* How many numbers of each part are final. */
size_t mesh_reduce_whole(const mesh_sum *sum);

/* ---- mesh_times.c: how long it takes ---- */

/* All with whom numbers are exchanged have begun. */
void mesh_times_begin(mesh_sum *sum);
/* The sum is done. */
void mesh_times_end(mesh_sum *sum);

/* ---- mesh_watch.c: a sum that stands still ---- */

/* A sum begins. */
void mesh_watch_begin(mesh *self);
/* When mesh_watch is to be called; TARRY_NEVER: need not be. */
uint64_t mesh_watch_due_ns(const mesh *self);
/* A sum of which nothing has moved for the silence limit fails; suspected is who owes something
 * and was heard of longest ago, and of several of which nothing was heard one that is not
 * connected: the others may have ended because of that one. */
void mesh_watch_look(mesh *self, uint64_t now_ns);

/* ---- mesh_exchange.c ---- */

extern const exchange_methods mesh_exchange_methods;
void mesh_exchange_linked(mesh *self, mesh_member *member);
void mesh_exchange_lost(mesh *self, mesh_member *member, const char *why);
bool mesh_exchange_answer(mesh_link *link, const wire_answer *answer);
channel_verdict mesh_exchange_begin(mesh_link *link, const wire_piece *piece, void **place);
bool mesh_exchange_complete(mesh_link *link, const wire_piece *piece);
/* When mesh_exchange_look is to be called; TARRY_NEVER: need not be. */
uint64_t mesh_exchange_due_ns(const mesh *self);
/* A request of which nothing has moved for the silence limit fails: its source has not connected,
 * or sends nothing. */
void mesh_exchange_look(mesh *self, uint64_t now_ns);
void mesh_exchange_free(mesh *self);

/* ---- mesh_streams.c ---- */

bool mesh_streams_ask(mesh_link *link, const wire_ask *ask);
/* As an exchange's `hold` and `offer`. */
void mesh_streams_hold(mesh *self, const tarry_sum_id *sum, const float *numbers, size_t dimension);
void mesh_streams_offer(mesh *self, const mesh_copy *given);
/* When mesh_streams_look is to be called; TARRY_NEVER: need not be. */
uint64_t mesh_streams_due_ns(const mesh *self);
/* Tells those who wait for a state that it is not forgotten. */
void mesh_streams_look(mesh *self, uint64_t now_ns);
/* Closes the channel, and ends its streams. */
void mesh_streams_close(mesh_link *link);
void mesh_streams_free(mesh *self);

#endif
