/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's process. Three kinds of threads:
 *   - that of tarry_tcp_worker_run prepares what the server offers: a job, or another plan for it;
 *   - the loop's has the connection, and hands on what comes and goes;
 *   - the executor's two compute, encode and talk to the machine (runtime/executor.h).
 * Each of the structures below says which threads may touch it.
 *   tcp_worker.c       creation, the run and the calls of other threads; what the executor puts
 *                      into the uplink, and reports that wait there; counts what is computed
 *   tcp_worker_job.c   from an offer to an executor that can take its rounds; the way to other
 *                      workers; rules and the own key of secure sums; tasks that the caller takes
 *   tcp_worker_link.c  the loop's thread: turns, timers, leaving; the connection, from an address
 *                      to WELCOME and READY, and to its end; what goes out of the uplink; what
 *                      comes from the server, or through it from other workers
 */
#ifndef RUNTIME_TCP_WORKER_H
#define RUNTIME_TCP_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include <tarry/tcp.h>

#include "base/digest.h"
#include "compress/view.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/wire.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/tcp/mesh/mesh.h"
#include "runtime/tcp/net/channel.h"
#include "runtime/tcp/net/channel_in.h"
#include "runtime/tcp/net/session.h"
#include "runtime/tcp/trust/credential.h"
#include "runtime/tcp/trust/roster_file.h"
#include "runtime/worker/executor.h"

/*
 * A worker whose pieces are short says several reports in one frame. A report waits for the next
 * ones of its round for a moment that is short beside the round so far, so that the server hears
 * of what is finished as early as makes a difference. Pure: time comes from the caller.
 */

/* The longest that a report waits. Pieces are short if at least four are finished in that time. */
#define REPORT_BATCH_NS UINT64_C(1000000)

enum {
    REPORT_BATCH_FRACTION = 8, /* a report waits for this fraction of the round so far at most */
    REPORT_BATCH_MOST = 128,   /* reports that wait */
    REPORT_BATCH_BYTES =
        WIRE_HEAD_BYTES + WIRE_BATCH_HEAD_BYTES + REPORT_BATCH_MOST * WIRE_BATCH_REPORT_BYTES,
};

/* All zeros: nothing waits. */
typedef struct report_batch {
    wire_batch held;   /* how many wait; they stand in `frame` */
    bool begun;        /* `round` is one */
    uint64_t round;    /* of the last report, */
    uint64_t began_ns; /* of which the first one came then, */
    uint64_t last_ns;  /* and the last one */
    uint64_t due_ns;   /* when those that wait are to go out */
    uint8_t frame[REPORT_BATCH_BYTES];
} report_batch;

/* What waits is dropped, and the next report is the first of its round. */
void report_batch_clear(report_batch *self);
/* Whether the message can stand in one frame with what waits. */
bool report_batch_fits(const report_batch *self, const tarry_message *message);
/* Takes a report that fits. more: another one of this round is to follow. Gives back whether all
 * that is there may wait for it; otherwise it is to be closed and sent now. */
bool report_batch_put(report_batch *self, const tarry_message *report, bool more, uint64_t now_ns);
/* Ends what waits, if anything does: `frame` is to be sent as it is. Gives back its bytes, 0:
 * nothing waited. */
size_t report_batch_close(report_batch *self);

/* ---- what the server offers ---- */

typedef struct worker_offer {
    uint64_t number; /* counts from 1 */
    wire_welcome welcome;
    bool claimed_job; /* the worker said that it has this job's bytes */
    /* Bytes, the receiver's to release; NULL: there are none, or the worker said it has them. */
    uint8_t *plan, *job;
    size_t plan_size, job_size;
    char local[ADDRESS_TEXT]; /* the own end of the connection, with port 0 */
} worker_offer;

/* Samples that a server ships. Complete ones don't change any more. */
typedef struct worker_chunk {
    struct worker_chunk *next; /* in the list of those that are wanted */
    uint32_t origin;
    bool wanted, asked, complete;
    assembly bytes; /* the loop's until it is complete */
} worker_chunk;

/* ---- what goes out ---- */

/* A PART whose numbers are being sent from where the slate has them. */
typedef struct worker_load {
    struct worker_load *next;
    tarry_tcp_worker *worker;
    uint32_t tag; /* never 0 */
    executor_stripe stripe;
    uint8_t prefix[WIRE_HEAD_BYTES + CODEC_HEADER_BYTES];
    bool handed_on; /* the channel has it */
} worker_load;

typedef struct worker_uplink {
    pthread_mutex_t lock; /* over all of this */
    pthread_cond_t released;
    bool has_lock, has_released;
    bool open;      /* the server has sent a message; until then those put here are dropped.
                       Written by the loop's thread, which may read it without the lock */
    channel *aside; /* messages may be written to it at once; NULL: not */
    bool lost;      /* the executor gave up, there was no memory, or a frame went out in part: the
                       connection is to end */
    uint8_t *bytes; /* frames without numbers that wait for the loop */
    size_t size, room;
    report_batch reports;          /* to follow them, once they are due */
    bool ticking;                  /* the loop looks for them each REPORT_BATCH_NS */
    worker_load *loads;            /* waiting, or with the channel; in their order */
    worker_load *spare;            /* to be used again */
    uint32_t tags;                 /* given out so far */
    bool claiming;                 /* the executor waits for these to be let go */
    size_t claim_first, claim_end; /* numbers of the part */
} worker_uplink;

/* ---- the connection ---- */

/* Why the connection is to be lost: what a function gives back that finds so. NULL: it goes on.
 * Only the link (tcp_worker_link.c) loses it. */
typedef const char *worker_fault;
#define WORKER_LINK_OVER "" /* nothing is to be lost: it has ended, or the worker has left */

typedef enum worker_stage {
    WORKER_APART,     /* no connection */
    WORKER_GREETING,  /* until WELCOME */
    WORKER_PREPARING, /* until READY */
    WORKER_READY,
    WORKER_OVER, /* the run has ended */
} worker_stage;

/* A round whose parameters have not all come; what follows it waits as well. */
typedef struct worker_waiting {
    bool active;
    uint64_t round;
    uint64_t received; /* numbers */
    float *place;      /* of snapshots_begin */
    digest *hashed;    /* secure sums: of what was received; else NULL */
    uint8_t *frames;   /* each behind its size, 4 bytes */
    size_t size, room;
} worker_waiting;

/* The view of the parameters, as far as it has come over this connection. */
typedef struct worker_view {
    view_intake intake;
    uint8_t *bytes;    /* of a piece; NULL: none came yet */
    uint64_t *digests; /* of the view's pieces */
    uint8_t *place;    /* of the bytes that come */
} worker_view;

/* What a large frame's bytes are for. */
typedef enum worker_intake {
    INTAKE_NOTHING,
    INTAKE_PARAMETERS,
    INTAKE_VIEW,
    INTAKE_BLOB
} worker_intake;

typedef struct worker_link {
    worker_stage stage;
    session *session;                        /* NULL: it has not begun, or is over */
    channel *channel;                        /* of the session, from HELLO on; or NULL */
    uint64_t counted_received, counted_sent; /* bytes of this connection that `work` knows of */
    uint64_t apart_ns;                       /* when it was last welcome, or the run began */
    bool seat_taken;                         /* the id that it had is not to be asked for again */
    uint32_t claimed_worker;                 /* in HELLO */
    uint8_t claimed_job[WIRE_ID_BYTES];      /* the same */
    wire_welcome welcome;                    /* from PREPARING on */
    bool key_said;                           /* over this connection */
    assembly plan, job;
    bool welcome_blobs; /* the offer of this WELCOME is not complete yet */
    uint64_t offered;   /* number of the last offer that came over this connection; 0: none */
    uint64_t answered;  /* number of that for which READY was sent */
    uint32_t turn;      /* of the plan that came last (wire_ready) */
    worker_waiting waiting;
    worker_view view;
    bool in_round;       /* the server began a round over this connection, and did not end it */
    bool signalled;      /* the last that the machine was told is to send what it has */
    uint64_t machine_ns; /* when it was last told something, or something of it went out */
    worker_intake intake;
    assembly *intake_blob;
} worker_link;

/* `begin`, to be called by the thread that takes tasks. */
typedef struct worker_begin {
    const tarry_tcp_job *job;
    uint8_t *data;
    tarry_diagnostic *diagnostic;
    bool called; /* it is in progress */
    int error;
} worker_begin;

/* Where tasks are taken, the run has a thread of its own. Under the worker's lock. */
typedef struct worker_pull {
    bool started, over;
    pthread_t thread;
    worker_begin *begin; /* NULL: it need not be called now */
    bool inside;         /* a call waits for a task of the executor */
    bool out;            /* a task was taken, and not given back */
    int result;          /* of the run, when it is over */
    tarry_diagnostic diagnostic;
} worker_pull;

/* ---- all together; `under the lock` means that of tarry_tcp_worker ---- */

/* How far the run is; under the lock. */
typedef struct worker_run {
    bool used;  /* it ran, or runs */
    bool ended; /* with `outcome` */
    int outcome;
    tarry_diagnostic why;
    bool leaving;
    bool leaving_news; /* the loop has not looked at it yet */
    uint64_t grace_until_ns;
} worker_run;

/* What the loop's thread hands to the running one; under the lock. */
typedef struct worker_offers {
    worker_offer waiting; /* to be taken; number 0: none */
    uint64_t made;        /* numbers given out */
    uint64_t prepared;    /* number of the last offer that was prepared, */
    uint64_t declined;    /* or of the last that did not fit what the worker has */
} worker_offers;

/* What HELLO and READY say that the worker has; under the lock. */
typedef struct worker_held {
    uint8_t job[WIRE_ID_BYTES];
    uint8_t plan[WIRE_DIGEST_BYTES];
    uint8_t data[WIRE_DIGEST_BYTES];
    uint64_t numerics;                 /* of the job; 0: not known */
    uint8_t engine[WIRE_ENGINE_BYTES]; /* how others reach its engine, */
    size_t engine_size;                /* or 0 */
    /* Secure sums: the terms that the worker agreed to for the job, and the KEY that goes before
     * READY; size 0: none does. */
    run_terms agreed;
    uint8_t key[WIRE_HEAD_BYTES + WIRE_KEY_FRAME_BYTES];
    size_t key_size;
} worker_held;

/* Samples that the server ships; under the lock. */
typedef struct worker_samples {
    bool open; /* for `of`, chunks are fetched and an executor is made, or is there */
    wire_welcome of;
    bool outdated;        /* the server has another job by now */
    worker_chunk *chunks; /* per origin of the job's plan */
    uint32_t count;
    worker_chunk *wanted; /* list */
} worker_samples;

enum { FAILURE_BYTES = 192 };

/* What the worker works for: the running thread's; the executor and its snapshots are the loop's,
 * too, while READY. */
typedef struct worker_job {
    bool there;
    worker_offer offer; /* its plan's bytes are gone */
    tarry_plan *plan;
    executor executor;
    bool executor_runs; /* under the lock: it can be told things */
    /* Where workers make the sum: what `begin` said, */
    bool has_replica;
    tarry_replica replica;
    tarry_sum_id last;
    /* and the way to the others, which is the loop's, too, while READY. */
    mesh *mesh;
    tarry_engine *engine;
    masking *masking; /* secure sums; the loop's, too, while READY; else NULL */
    /* Under the lock: the failure of a sum with them that was told last, and when. */
    char failure[FAILURE_BYTES];
    uint64_t failure_ns;
} worker_job;

/* Which spans were finished in this round; the computing thread's. */
typedef struct worker_tally {
    uint64_t round;
    tarry_span *spans;
    size_t count, room;
} worker_tally;

/* The loop and its thread; `listens` and `stopping` under the lock. */
typedef struct worker_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t tick;
    uv_timer_t reports; /* that wait */
    pthread_t thread;
    bool made, has_thread;
    bool listens;  /* `wake` may be used */
    bool stopping; /* it is to end */
    bool stopped;
} worker_loop;

struct tarry_tcp_worker {
    tarry_allocator allocator;
    tarry_tcp_worker_settings settings;
    char *connect;                          /* the server's address */
    char *listen, *advertise, *credentials; /* of connections among workers; NULL: as settings */
    credential *credential;
    roster_file *roster; /* secure sums; else NULL */
    uint8_t instance[WIRE_ID_BYTES];
    wire_rack rack;       /* "": it says none */
    uint8_t *read_buffer; /* CHANNEL_SHARED_BYTES */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_lock, has_changed;
    worker_run run;
    worker_offers offers;
    worker_held held;
    worker_samples samples;
    worker_pull pull;
    tarry_tcp_work work; /* under the lock; but for bytes of the connection in progress */

    worker_job job;
    worker_uplink uplink;
    worker_tally tally;
    worker_loop loop;

    /* the loop's thread's */
    backoff backoff;
    worker_link link;
};

/* tcp_worker.c */
/* Ends the run with this result, unless it has ended; the first one counts. Any thread, without the
 * lock. */
__attribute__((format(printf, 3, 4))) void tcp_worker_end(tarry_tcp_worker *worker, int outcome,
                                                          const char *format, ...);
/* tarry_tcp_worker_run, whoever computes. */
int tcp_worker_run(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic);
/* Makes the loop's thread look. With the lock held. */
void tcp_worker_wake(tarry_tcp_worker *worker);
/* Calls the observer with the notice, whose time and worker are set. The loop's thread. */
void tcp_worker_notify(tarry_tcp_worker *worker, tarry_tcp_notice *notice);

/* tcp_worker_job.c: the running thread's */
/* Prepares what is offered, and takes over its memory. Errors: what ends the run. */
int tcp_worker_prepare(tarry_tcp_worker *worker, worker_offer *offer, tarry_diagnostic *diagnostic);
/* Whether an executor that was made for the one can go on with the other, but for the plan. */
bool tcp_worker_is_same_job(const wire_welcome *one, const wire_welcome *other);
/* Frees all that was prepared; waits for a compute function in progress. */
void tcp_worker_drop_job(tarry_tcp_worker *worker);
void tcp_worker_release_offer(const tarry_tcp_worker *worker, worker_offer *offer);

/* tcp_worker_link.c */
int tcp_worker_start_loop(tarry_tcp_worker *worker);
/* Ends the thread and closes the loop, if they are there. Nothing is sent to the server by then. */
void tcp_worker_stop_loop(tarry_tcp_worker *worker);

/* tcp_worker_job.c */
#define RULES_CHANGED "it has changed the rules of secure sums within a job: "

static inline ring grid_of(const tarry_secure_rules *rules)
{
    return (ring){.bits = rules->bits, .fraction = rules->fraction, .bound = rules->bound};
}

/* tcp_worker.c */
executor_uplink tcp_worker_uplink(tarry_tcp_worker *worker);
/* With the uplink's lock held: what is said from now on comes behind the reports that wait. */
void tcp_worker_put_reports(tarry_tcp_worker *worker);
/* Whether the executor waits for this one to be let go. With the uplink's lock held. */
bool tcp_worker_is_claimed(const worker_uplink *up, const worker_load *load);

#endif
