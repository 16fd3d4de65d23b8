/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every runtime does alike at the server: it steps the machine, carries out its effects, and
 * sums what workers send. What differs between runtimes is a table of functions, the transport.
 *
 * A runtime tells the host who comes and goes (host_join, host_lose) and what comes in
 * (host_receive, or host_receive_frame where it does not read numbers into their place itself),
 * steps it with TIME at host_deadline, and calls host_turn once all that came at a time is handed
 * on. host_begin begins a round; `round.running` says when it is over; host_finish gives its
 * result.
 *
 * All calls are one thread's, but for host_finish, which may be another's while the first makes no
 * call; functions of the transport are called in that thread, but for `summed`, and call nothing
 * of the host but its reading functions, unless they say so.
 */
#ifndef RUNTIME_HOST_H
#define RUNTIME_HOST_H

#include <tarry/runtime.h>
#include <tarry/server.h>
#include <tarry/sum_log.h>

#include "coding/layout.h"
#include "compress/compress_lowrank.h"
#include "compress/view.h"
#include "privacy/secure/ring.h"
#include "protocol/wire/codec.h"
#include "runtime/sum/stripes.h"
#include "runtime/sum/summation.h"

typedef struct host_transport {
    void *user;
    /*
     * Sends the message to the worker, `size` bytes at `frame`, before which the settings'
     * head_bytes may be written to as well; both are borrowed for the call. With ROUND the round's
     * parameters go, if the sum is made at the server. A message to a worker that is not there is
     * dropped: TARRY_OK. An error ends the round with that error.
     */
    int (*send)(void *user, uint32_t worker, const tarry_message *message, uint8_t *frame,
                size_t size);
    /* Whether the worker is there for certain, so that the host answers a probe in its place. NULL:
     * no worker is. */
    bool (*is_there)(void *user, uint32_t worker);
    /* Nobody reads the stripe any more. One with an owner is the runtime's again; any other goes
     * back to the host's pool after this call. NULL: there are none with an owner. */
    void (*released)(void *user, stripe *item);
    /* The effect LEFT_OUT, borrowed. After SILENT the worker has to be joined anew: host_join.
     * NULL: nobody wants to know. */
    void (*left_out)(void *user, const tarry_effect *effect);
    /* `attempt` begins: its signals follow. The same. */
    void (*signalled)(void *user, uint64_t round, uint32_t attempt);
    /* The round is over: host->round is filled in, and nothing is sent or read of it any more. The
     * same. */
    void (*done)(void *user);
    /* Decode threads have something for host_collect; any thread, under a lock. May be NULL where
     * there are none. */
    void (*summed)(void *user);
    /* Nanoseconds of the monotonic clock; NULL: the host reads it. */
    uint64_t (*now)(void *user);
} host_transport;

typedef struct host_settings {
    const char *name;             /* of the runtime, for diagnostics: "local runtime" */
    tarry_server_settings server; /* `dimension` is set; stripe_length 0: chosen */
    const uint8_t *checkpoint;    /* to go on from, for the call of host_create; NULL: none */
    size_t checkpoint_size;
    ring grid;                 /* of masked parts (server.secure); bits 0: they are not */
    tarry_sum_log log;         /* TARRY_SUM_EVERYWHERE */
    size_t parameters;         /* numbers in them; with a view of them, */
    tarry_view seen;           /* the one to go on from, for the call of host_create */
    size_t head_bytes;         /* in front of a frame that is sent */
    size_t most_message_bytes; /* a plan that needs longer ones is refused; 0: any length */
    uint32_t decode_threads;   /* 0: host_turn sums in its caller's thread */
    host_transport transport;
} host_settings;

/* The signal that a worker answers: which coded parts can be wanted from it. */
typedef struct host_signal {
    bool open;
    uint64_t round;
    uint32_t attempt, epoch;
} host_signal;

typedef struct host_member {
    bool joined;  /* and neither lost nor given up since */
    bool vouched; /* it was probed, and is there: the machine is to hear of it next */
    host_signal signal;
    stripe *parked;  /* a list: received, to be summed once the others are there */
    uint64_t chunks; /* finished ones that were reported, over all rounds */
} host_member;

typedef struct host_round {
    bool running;
    uint64_t number;   /* of the last one that was sent to anybody, or of the first one to be */
    uint64_t start_ns; /* of the one that runs */
    int error;         /* of the last one that is over, with its result; and why, for COVERAGE */
    tarry_round_result result;
    tarry_diagnostic diagnostic;
} host_round;

/* To be read by the runtime; written by the host's own files. */
typedef struct host {
    tarry_allocator allocator;
    host_settings settings;
    const tarry_plan *plan;
    layout cut;
    tarry_server *machine;
    host_member *members;
    uint32_t present; /* members that have joined */
    host_round round;

    codec_shape *shapes; /* per worker */
    uint8_t *frame;      /* an outgoing one, behind its head */
    bool vouching;       /* for some member: `vouched` */
    bool rejected;       /* the event of the last step, for `reject` */
    tarry_reject reject;
    uint32_t attempt; /* the last that was signalled in this round */
    int failure;      /* why the round in progress is to be ended; TARRY_OK: it is not */
    bool logging;     /* `entry` is to be logged */
    tarry_sum_id entry;
    tarry_sum_id committed; /* the last in the log; step 0: none, or the run went back */
    int log_error;          /* of the log, which is not written to any more */
    summation *sums;        /* NULL where everyone gets the sum */
    /* What a round begins with: the parameters, and behind them, POWERSGD, its factor. */
    size_t numbers;
    view *seen;        /* what workers have of these; NULL: these themselves */
    factors *shared;   /* POWERSGD, else NULL */
    float *joined;     /* parameters with a factor behind them; NULL where there are no factors */
    const float *sent; /* with factors: what the round that was seen last began with, */
    float *sum;        /* and where its sum goes */
    stripes pool;
    stripe *arrived;        /* the coded part that is being stepped with; NULL: none */
    stripe_queue combining; /* to be summed at the end of the turn at the latest */
    uint32_t combining_count;
} host;

/* The plan is borrowed, and must outlive the host or its next plan. Nobody has joined. Errors:
 * ARGUMENT, NO_MEMORY, SYSTEM, FORMAT (a checkpoint that is none, or of another plan or settings).
 */
int host_create(const tarry_plan *plan, const host_settings *settings,
                const tarry_allocator *allocator, host **made, tarry_diagnostic *diagnostic);
/* Between rounds. NULL is allowed. */
void host_free(host *self);

/* Whether the host may go on with `next` in place of its plan. Errors: ARGUMENT. */
int host_check_plan(const host *self, const tarry_plan *next, tarry_diagnostic *diagnostic);
/* Between rounds: goes on with `next`, as tarry_server_adopt says; nothing changes on errors:
 * ARGUMENT, NO_MEMORY. */
int host_replan(host *self, const tarry_plan *next, tarry_diagnostic *diagnostic);

/* ---- steps ----
 * What can't be carried out ends the round with its error, in host_turn. */

/* When TIME is due, or TARRY_NEVER. */
uint64_t host_deadline(const host *self);
/* Steps the machine and carries out what it says. Gives back why it rejected the event, valid until
 * the next step; NULL: it did not. Never called from within a step. */
const tarry_reject *host_step(host *self, const tarry_event *event);
/* The worker is there, or is there anew. Gives back as host_step. */
const tarry_reject *host_join(host *self, uint32_t worker);
/* It is gone. Nothing happens if it had not joined, or was given up. */
void host_lose(host *self, uint32_t worker);
/* Between rounds, right before host_begin: what workers are to compute with in the round that
 * begins, `numbers` of them, borrowed until the next one. It may be another thread's call than
 * those that step. */
const float *host_see(host *self, const float *parameters);
/* Begins a round: `sum` (d numbers) is written until host_finish; NULL where everyone gets it. */
void host_begin(host *self, float *sum);
/* Ends the round in progress with this error, in host_turn; the first one counts. */
void host_fail(host *self, int error);
/* All that came in is handed on: what waits is summed, and a round that failed is ended. */
void host_turn(host *self);
/* Takes from the decode threads what they are done with, and tells the machine. */
void host_collect(host *self);
/* The round is over: completes the sum, and sets *result on success and for COVERAGE. Errors: the
 * round's, with a diagnostic. */
int host_finish(host *self, tarry_round_result *result, tarry_diagnostic *diagnostic);

/* ---- what workers send: host.c ---- */

/* Reads a message of a worker. False: the bytes are none. */
bool host_decode(const uint8_t *frame, size_t size, tarry_message *message);
/*
 * The message came from the worker. numbers: those of a PART, a stripe that host_take_room or the
 * runtime made, labelled by host_label; NULL: the runtime did not keep them, and the part is
 * counted but never summed. It comes back by transport.released. Gives back as host_step.
 */
const tarry_reject *host_receive(host *self, uint32_t worker, tarry_message *message,
                                 stripe *numbers);
/* The same of a whole frame, whose numbers are copied where they are wanted. Errors: FORMAT (no
 * message of a worker, or a PART with too many or too few numbers); nothing happens then. */
int host_receive_frame(host *self, uint32_t worker, const uint8_t *frame, size_t size,
                       const float *numbers, size_t count);

/* How the gradient is cut for a PART. False: it can't be cut so, or its numbers have another form
 * than this run's. */
bool host_find_cut(const host *self, const tarry_message *message, layout *cut);
/* The bytes of the numbers of a PART, whose cut was found. */
size_t host_part_bytes(const host *self, const layout *cut, const tarry_message *message);
/* Whether the machine can want the PART; what it does want it says itself once it is there. */
bool host_wants(const host *self, uint32_t worker, const tarry_message *message);
/* A stripe of the pool, with room for the longest; NULL: there is no memory, and the round fails.
 */
stripe *host_take_room(host *self);
/* Says which part the stripe is of. */
void host_label(stripe *item, uint32_t worker, const tarry_message *message);
/* Gives a stripe back that was not received after all. */
void host_release(host *self, stripe *item);

/* Hands on what is to be summed: to the decode threads, or in this thread if there are none. */
void host_sum(host *self);

#endif
