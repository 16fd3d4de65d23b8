/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay from within; all of it is one thread's.
 *   relay.c           creation, the run, its end
 *   relay_listen.c    listening sockets
 *   relay_child.c     a child's connection
 *   relay_lanes.c     which child has which lane
 *   relay_trunk.c     the connection upward, from an address to WELCOME, and to its end
 *   relay_up.c        what goes up
 *   relay_down.c      what comes down
 *   relay_round.c     the round's parameters
 *   relay_blobs.c     plan, job and data, on their way to children
 *   relay_gather.c    coded parts that are added up
 */
#ifndef TCP_RELAY_STATE_H
#define TCP_RELAY_STATE_H

#include <stdatomic.h>
#include <uv.h>

#include "coding/layout.h"
#include "compress/view.h"
#include "protocol/relay/gather.h"
#include "protocol/wire/wire_trunk.h"
#include "runtime/tcp/net/address.h"
#include "runtime/tcp/net/assembly.h"
#include "runtime/tcp/net/backoff.h"
#include "runtime/tcp/net/bucket.h"
#include "runtime/tcp/net/link_channel.h"
#include "runtime/tcp/net/listeners.h"
#include "runtime/tcp/net/outgoing.h"
#include "runtime/tcp/net/parents.h"
#include "runtime/tcp/relay/relay.h"
#include "runtime/tcp/trust/credential.h"

enum {
    RELAY_NEWCOMERS = 512, /* connections that have not said HELLO */
    RELAY_BLOB_REFS = 40,  /* blobs that one child waits for, or is being sent */
};

typedef struct relay_child relay_child;

/* ---- large things that children get ---- */

/* Plan, job or data of a chunk, as it comes down. The newest plan and job stay. */
typedef struct relay_blob {
    struct relay_blob *next;
    wire_lane_blob what; /* lane: unused */
    assembly bytes;
    bool complete;
    uint32_t users; /* children that wait for it, or are being sent it */
} relay_blob;

/* The parameters of one round, as far as they are there. */
typedef struct relay_round {
    float *numbers; /* as many as WELCOME says; NULL: not needed yet */
    view *seen;     /* the same of a view, where parameters come as one */
    uint64_t round, received;
} relay_round;

/* ---- what goes up ---- */

/* Numbers of a coded part, on their way from a child to the parent. */
typedef struct relay_buffer {
    struct relay_buffer *next;
    tcp_relay *relay;
    size_t room, size;                   /* bytes */
    uint8_t message[CODEC_HEADER_BYTES]; /* with which it goes up, unless it */
    bool gathers;                        /* is for a group */
    relay_child *child;                  /* while it is held for a group, */
    uint32_t contributor, stripe;        /* as whose part of what */
    float numbers[];
} relay_buffer;

/* The sum of a group's parts of one stripe: `length` numbers for each block. */
typedef struct relay_sum {
    struct relay_sum *next;
    tcp_relay *relay;
    wire_gathered words; /* but for part and count */
    layout cut;
    size_t length;
    uint32_t left; /* blocks that are on their way, and one while it is being sent */
    float numbers[];
} relay_sum;

/* Children whose coded parts are added up. */
typedef struct relay_group {
    struct relay_group *next;
    tcp_relay *relay;
    uint64_t round;
    uint32_t attempt, number;
    bool is_void; /* one of them is gone: what comes for it is dropped */
    gather *who;
    layout cut;
    relay_sum **sums;   /* per stripe; NULL: not begun, or complete */
    uint32_t open;      /* sums that are there */
    relay_buffer *held; /* parts that have come before their turn */
} relay_group;

/* Reports that wait for the end of the turn, in a frame already. */
typedef struct relay_batch {
    wire_batch head; /* count 0: none waits */
    uint8_t
        frame[WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES + WIRE_BATCH_MOST * WIRE_BATCH_LONGEST_BYTES];
} relay_batch;

/* ---- children ---- */

typedef enum child_state {
    CHILD_NEW,  /* has not said HELLO */
    CHILD_OPEN, /* has a lane */
    CHILD_OVER, /* the channel is closed; freed at the end of the turn */
} child_state;

struct relay_child {
    tcp_relay *relay;
    relay_child *before, *after; /* of its state */
    child_state state;
    channel *channel;
    bool trusted; /* it needs no certificate */
    bool welcome; /* it was let in: it gets heartbeats */
    bool waiting; /* its channel, until a coded part may go up */
    bool resumes; /* that is so: at the end of the turn */
    bool streams; /* is sent parameters, */
    bool pumps;   /* and may be sent more of them, or of blobs: at the end of the turn */
    uint32_t lane;
    uint32_t window;       /* coded parts that may go up without a TAKEN */
    uint64_t round;        /* whose parameters it is sent, */
    uint64_t sent_numbers; /* so many of them by now */
    uint64_t since_ns;     /* when it came */
    uint64_t sent_ns;      /* when bytes last went to it, */
    uint64_t sent_bytes;   /* as many by then */
    bucket heartbeats;
    relay_buffer *incoming; /* that it is sending */
    relay_group *into;      /* for which; NULL: it goes up as it is */
    uint32_t held;          /* its parts that groups hold */
    outgoing large;         /* and what it has of a view */
    relay_blob *blobs[RELAY_BLOB_REFS];
    uint32_t blob_count, blob_first; /* the first one that is not in `large` yet */
};

typedef struct child_list {
    relay_child *first, *last;
    uint32_t count;
} child_list;

/* A lane's number is free again when both sides have said LANE_END. */
typedef struct relay_lane {
    relay_child *child; /* NULL: none */
    bool ending;        /* the parent's LANE_END is to come */
} relay_lane;

/* ---- the trunk ---- */

typedef enum trunk_stage {
    TRUNK_APART,    /* no connection */
    TRUNK_GREETING, /* until WELCOME */
    TRUNK_UP,
} trunk_stage;

/* What a large frame's bytes are for. */
typedef enum trunk_intake { TRUNK_NOTHING, TRUNK_PARAMETERS, TRUNK_VIEW, TRUNK_BLOB } trunk_intake;

typedef struct relay_resolved {
    char name[PARENTS_TEXT_BYTES];
    address found[ADDRESS_MOST];
    uint32_t count;
    int error;
    tarry_diagnostic diagnostic;
} relay_resolved;

typedef struct relay_trunk {
    trunk_stage stage;
    parents parents;
    backoff backoff;
    uv_timer_t retry;
    uv_work_t resolve;
    relay_resolved resolved;
    bool resolving;
    address found[ADDRESS_MOST];
    uint32_t found_count, next_address;
    channel *channel;
    wire_welcome welcome; /* while it is up */
    uint64_t since_ns, heard_ns, sent_ns, sent_bytes;
    uint64_t apart_ns;  /* when it was last up, or the run began */
    uint64_t beaten_ns; /* when HEARD was sent last */
    char failure[256];  /* why there is none, or none any more */
    trunk_intake intake;
    relay_blob *intake_blob;
} relay_trunk;

struct tcp_relay {
    tarry_allocator allocator;
    tcp_relay_settings settings; /* without texts */
    char advertised[WIRE_TEXT_BYTES + 1];
    credential *credential; /* NULL: plain text */
    uint8_t instance[WIRE_ID_BYTES];
    uint8_t *read_buffer; /* CHANNEL_SHARED_BYTES */

    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t tick;
    uv_prepare_t turn_end;
    bool has_loop, has_handles;
    _Atomic bool leaving; /* asked for */
    bool stopping;        /* done */
    uint64_t now_ns;      /* of this turn; 0: not read yet */
    uint64_t tick_ms, ticked_ns;
    bool spared; /* the tick before was late, and judged nobody */
    int outcome;
    tarry_diagnostic why;
    tcp_relay_work work;
    uint64_t counted_received, counted_sent; /* of the connection upward, in `work` */

    listeners listeners;

    child_list newcomers, children;
    relay_child *over; /* to be freed */
    relay_lane *lanes;
    uint32_t lane_room, lane_next;
    uint8_t *heard; /* a bit per lane, WIRE_HEARD_BYTES */
    bool has_heard; /* any of them is set */
    bool has_tasks; /* a child resumes or pumps */

    relay_trunk trunk;
    relay_batch batch;
    relay_buffer *spare; /* buffers of coded parts */
    size_t spare_count;
    uint8_t *scratch; /* a frame that is put together */
    size_t scratch_room;
    relay_round round;
    relay_blob *blobs;
    relay_group *groups;
    relay_sum *sums;   /* complete, to be sent */
    uint32_t sums_out; /* sent, and not taken by the parent yet */
};

/* relay.c */
uint64_t relay_read_clock(tcp_relay *self);
static inline uint64_t relay_now(tcp_relay *self)
{
    return self->now_ns != 0 ? self->now_ns : relay_read_clock(self);
}
void relay_notify(tcp_relay *self, tarry_tcp_notice *notice);
/* Ends the run, with this result, unless it is ending. bye: the children's last word. */
__attribute__((format(printf, 4, 5))) void relay_end(tcp_relay *self, int outcome, wire_bye bye,
                                                     const char *format, ...);
/* Ticks go by the silence that the parent has told. */
void relay_set_tick(tcp_relay *self);

/* relay_listen.c */
int relay_listen(tcp_relay *self, const char *const *texts, uint32_t count,
                 tarry_diagnostic *diagnostic);
int relay_open_listeners(tcp_relay *self);
/* Takes connections from now on, or none. */
void relay_accept(tcp_relay *self, bool accepting);

/* relay_child.c */
/* Takes over a connection; member: over a Unix socket's file. */
int relay_child_open(tcp_relay *self, int fd, bool member);
/* It is ended: a last word if bye is not 0, or what waits for it, goes out if `gently`. The parent
 * hears of it, if it has a lane, with the reason. */
void relay_child_end(relay_child *child, wire_lane_reason reason, const char *why, bool gently);
void relay_child_farewell(relay_child *child, wire_bye bye);
/* All children go elsewhere; nothing is said upward. */
void relay_children_farewell(tcp_relay *self, wire_bye bye);
void relay_child_tick(relay_child *child, uint64_t now);
void relay_child_resume(relay_child *child);
void relay_child_pump(relay_child *child);
/* Does what was put off until the end of the turn. */
void relay_children_do_tasks(tcp_relay *self);
void relay_children_free(tcp_relay *self);
void relay_put(child_list *list, relay_child *child);
void relay_take(child_list *list, relay_child *child);

/* relay_lanes.c */
/* False: all are taken, or there is no memory. */
bool relay_lane_take(tcp_relay *self, relay_child *child);
/* The child of an open lane; NULL: there is none. */
relay_child *relay_lane_child(const tcp_relay *self, uint32_t lane);
/* The child is gone: the number is free when the parent has said so, too. */
void relay_lane_leave(tcp_relay *self, uint32_t lane);
/* The parent's LANE_END. False: there is no such lane. */
bool relay_lane_end(tcp_relay *self, uint32_t lane);
void relay_lanes_clear(tcp_relay *self);

/* relay_trunk.c */
void relay_trunk_connect(tcp_relay *self);
__attribute__((format(printf, 2, 3))) void relay_trunk_lose(tcp_relay *self, const char *format,
                                                            ...);
void relay_trunk_tick(tcp_relay *self, uint64_t now, bool late);
/* Closes it, with a last word. */
void relay_trunk_leave(tcp_relay *self);

/* relay_up.c: to the parent; nothing if there is none */
void relay_up_open(relay_child *child);
void relay_up_frame(relay_child *child, wire_kind kind, const uint8_t *body, uint32_t size);
void relay_up_report(relay_child *child, const tarry_message *report);
void relay_up_end(tcp_relay *self, uint32_t lane, wire_lane_reason reason, const char *why);
/* Takes the buffer over. */
void relay_up_part(relay_child *child, relay_buffer *buffer);
void relay_up_fetch(tcp_relay *self, wire_blob_kind kind, uint32_t index);
void relay_up_advertise(tcp_relay *self);
void relay_up_heard(tcp_relay *self);
/* Reports that wait go out. */
void relay_up_flush(tcp_relay *self);
relay_buffer *relay_buffer_take(tcp_relay *self, size_t bytes);
void relay_buffer_release(relay_buffer *buffer);
void relay_buffers_free(tcp_relay *self);

/* relay_down.c: frames of the parent once it has said WELCOME. NULL, or what is wrong with it. */
const char *relay_down_frame(tcp_relay *self, const wire_head *head, const uint8_t *body);
const char *relay_down_begin(tcp_relay *self, const wire_head *head, const uint8_t *fixed,
                             void **place);
const char *relay_down_complete(tcp_relay *self, const wire_head *head, const uint8_t *fixed);

/* relay_round.c */
/* The child was told of a round: its parameters follow. */
void relay_round_begin(relay_child *child, uint64_t round);
/* It is over for the child. */
void relay_round_stop(relay_child *child);
/* Numbers come down. NULL, with their place, or what is wrong. */
const char *relay_round_reserve(tcp_relay *self, const wire_parameters *parameters, void **place);
void relay_round_add(tcp_relay *self, const wire_parameters *parameters);
/* The same of a view; what is wrong with it may be found when it is there. */
const char *relay_round_reserve_view(tcp_relay *self, const view_piece *piece, void **place);
const char *relay_round_add_view(tcp_relay *self, const view_piece *piece);
/* Sends what is there, as far as the window goes. */
void relay_round_pump(relay_child *child);
void relay_round_clear(tcp_relay *self);

/* relay_blobs.c */
/* The child is to get it. NULL, or what is wrong. */
const char *relay_blob_want(relay_child *child, const wire_lane_blob *what);
const char *relay_blob_reserve(tcp_relay *self, const wire_blob *blob, void **place);
void relay_blob_add(tcp_relay *self, const wire_blob *blob);
/* What the child was sent, or waited for, may go. */
void relay_blob_let_go(relay_child *child);
void relay_blobs_clear(tcp_relay *self);

/* relay_gather.c */
/* The parent names children whose parts are added up. NULL, or what is wrong. */
const char *relay_gather_begin(tcp_relay *self, const wire_gather *words);
/* It has taken so many stripes. False: there were not as many. */
bool relay_gather_taken(tcp_relay *self, uint32_t count);
typedef enum relay_gather_verdict {
    RELAY_GATHER_NOT,  /* it is of no group */
    RELAY_GATHER_TAKE, /* to the child's `incoming` */
    RELAY_GATHER_WAIT,
    RELAY_GATHER_DROP,
    RELAY_GATHER_NO_MEMORY,
} relay_gather_verdict;
/* A coded part begins to come: its message, and the bytes of its numbers. */
relay_gather_verdict relay_gather_begin_part(relay_child *child, const uint8_t *fixed,
                                             size_t bytes);
/* The most bytes of a stripe's numbers in the run's form. */
size_t relay_stripe_bytes(const tcp_relay *self);
/* The child's `incoming` is there, for its `into`. */
void relay_gather_part(relay_child *child);
/* The child is gone. */
void relay_gather_lose(relay_child *child);
void relay_gather_clear(tcp_relay *self);

#endif
