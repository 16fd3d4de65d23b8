/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker, wherever its server is: a thread that talks (messages, encoding) and one that computes.
 * Both step the same worker machine under its lock; no computation and no encoding happens under
 * it. Messages come in as frames and go out by an uplink.
 *
 * With TARRY_KEEP_ALL a gradient that is there for these very parameters (snapshot.generation) is
 * not computed again: a server that lost the worker and sends the round anew hears at once of what
 * was finished.
 */
#ifndef RUNTIME_EXECUTOR_H
#define RUNTIME_EXECUTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tarry/compute.h>
#include <tarry/host.h>
#include <tarry/straggler.h>

#include "coding/kernel.h"
#include "coding/layout.h"
#include "runtime/worker/collective.h"
#include "runtime/worker/mailbox.h"
#include "runtime/worker/secure_sum.h"
#include "runtime/worker/worker_host.h"

/* A stripe of z, in the form that its PART names. */
typedef struct executor_stripe {
    size_t first, count; /* numbers of z, */
    const void *bytes;   /* where they lie, until they are claimed, */
    size_t size;         /* in so many bytes */
} executor_stripe;

/*
 * Where an executor's messages go. Its threads call these, never with its lock held; each may wait,
 * but must return soon once the uplink is closed, and none may call the executor to wait for it.
 */
typedef struct executor_uplink {
    /* A message without numbers, borrowed for the call; either thread. more: something is being
     * computed, of which a REPORT will follow unless it is cancelled. */
    void (*post)(void *user, const tarry_message *message, bool more);
    /* A PART; its stripe stays as it is until its numbers are claimed. The talking thread. */
    void (*post_part)(void *user, const tarry_message *message, const executor_stripe *stripe);
    /* Numbers first .. first + count - 1 of the slate's part are about to be overwritten, or freed:
     * whatever was posted of them is outdated, and nobody reads it any more once this returns. The
     * talking thread. NULL: the server has long stopped reading it, or reads copies. */
    void (*claim)(void *user, size_t first, size_t count);
    /* The worker can't go on: TARRY_OK: in this round, since its machine failed or a frame was
     * none; otherwise at all, for this reason, borrowed. The talking thread. */
    void (*give_up)(void *user, int error, const char *why);
    void *user;
    /* The executor leaves, and has become idle. NULL: nobody hears. */
    void (*changed)(void *user);
    /* A task is about to be given back, wanted or not; the thread that does. NULL: nobody hears. */
    void (*given)(void *user, const tarry_task *task, int result);
    /* What rounding lost of so many stripes was thrown away. The talking thread. NULL: nobody
     * hears.
     */
    void (*voided)(void *user, uint32_t stripes);
} executor_uplink;

/* What a worker sums with others by; borrowed, for longer than the executor. */
typedef struct executor_among {
    tarry_replica replica;
    tarry_sum_id last; /* that the replica has stepped on; step 0: it has the first state */
    tarry_engine *engine;
    exchange *exchange;
    /* As collective_settings.failed. */
    void (*failed)(void *user, const char *why);
    void *user;
} executor_among;

/* All that is pointed to is borrowed and must outlive the executor, unless something else is said.
 */
typedef struct executor_settings {
    uint32_t worker;
    const tarry_straggler *straggler; /* NULL for none */
    tarry_compute *compute;           /* NULL: tasks are taken by executor_take */
    void *user;                       /* of compute */
    size_t parameters;                /* numbers that a round begins with */
    snapshots *snapshots; /* of these, that it shares with other workers; NULL: it has its own */
    const executor_among *among; /* for executor_init; TARRY_SUM_EVERYWHERE, else NULL */
    tarry_vectors *vectors; /* that passed worker_vectors_check; NULL: host memory of its own */
    masking *masking;       /* NULL: sums are not secure; */
    ring grid;              /* else of the words that z is; */
    executor_uplink uplink;
} executor_settings;

/* A step that the replica's owner takes; one at a time. */
typedef struct executor_owed {
    enum {
        OWED_NOTHING,
        OWED_STEP,  /* to be taken */
        OWED_TAKEN, /* `call` is it */
        OWED_GIVEN, /* back; the talking thread's to conclude */
    } stage;
    tarry_sum_id sum;
    const float *numbers;
    bool digests;
    int result; /* GIVEN */
} executor_owed;

typedef struct executor_task {
    uint64_t ticket; /* 0: none */
    uint64_t round;
    uint32_t slot;
    uint32_t chunk;
    bool begun; /* it was handed out */
} executor_task;

/* A task that was handed out, to the computing thread or to a caller, and not given back yet. */
typedef struct executor_call {
    bool out;
    uint32_t slot;
    worker_slate *seat; /* that it was begun at */
    snapshot *held;     /* NULL: it is being given back, or a step */
    uint64_t generation;
    uint64_t start_ns;
    tarry_task task;
} executor_call;

/* Its fields are for its own files; others may read `slate` while the executor is not turning,
 * `talking` after executor_start, and busy_ns. */
typedef struct executor {
    tarry_allocator allocator;
    executor_settings settings;
    uint32_t pieces; /* of the plan */
    layout cut;
    const kernel *kernels;
    compress_form form;     /* in which z is sent, */
    uint64_t compress_seed; /* and what it is rounded by */
    tarry_sum_id last;
    worker_vectors vectors;
    /* It holds one at a time, that of a round before its ROUND comes. */
    snapshots *snapshots;
    snapshots own_snapshots;
    collective *collective; /* NULL: the server makes the sum */
    mailbox inbox;
    bool made, has_lock, has_change, has_inbox; /* to be destroyed */
    /*
     * What it has for the plan; the talking thread exchanges it, and others read it when that is
     * known to be done. A slate that was left while its task was out stays until that is back: the
     * task has its spans. Nothing is handed out until then, so that a place that is still written
     * to is nobody else's.
     */
    worker_slate *slate;
    worker_slate *next; /* to turn to; what it had before when it has turned */
    worker_slate *left;

    pthread_mutex_t lock;  /* over the machine, the task and what is written */
    pthread_cond_t change; /* the computing thread waits for it */
    executor_task task;    /* to be computed, or being computed */
    executor_call call;    /* one at a time */
    executor_owed owed;
    unsigned callers; /* threads that take a task or give one back just now */
    bool turning;     /* to `next` */
    bool abandoning;  /* what goes on among the workers may still read gradients */
    uint64_t tickets; /* given out so far */
    bool in_round;    /* a ROUND came, its FINISH did not */
    uint64_t told;    /* the round of the last one */
    bool leaving;
    uint64_t grace_until_ns; /* while leaving: when the chunk in progress is handed back */
    bool closing;

    /* Secure sums: what tasks of the last round that had any were bound to. */
    struct {
        bool any;
        uint64_t round;
        uint8_t state[TARRY_DIGEST_SIZE];
    } bound;

    bool refused; /* the talking thread's: a rule forbids to send anything any more */
    bool encoded; /* the talking thread's: an ENCODE is carried out, its event is due */
    tarry_event encoded_event;
    bool stepped; /* the same, of a STEP */
    tarry_event stepped_event;
    _Atomic bool answering; /* it encodes, or has more to encode at once */

    _Atomic uint64_t busy_ns; /* spent on chunks that were finished */
    bool talking, computing;  /* threads that were started */
    pthread_t talk_thread, compute_thread;
} executor;

/*
 * Makes a worker of `plan`, which its machine borrows, as is `server`, whose dimension is set, but
 * for the matrices of its form; starts nothing. With others among whom it sums, the replica's
 * parameters become the current snapshot. Errors: NO_MEMORY, SYSTEM, what the replica gave.
 * Destroy it in any case.
 */
int executor_init(executor *self, const executor_settings *settings, const tarry_plan *plan,
                  const tarry_server_settings *server, const tarry_allocator *allocator);
/* Starts the threads: one that talks and, with a compute function, one that computes; none of a
 * worker that never answers. Errors: SYSTEM. */
int executor_start(executor *self);
/* Puts a frame (protocol/codec.h) of size > 0 into the inbox. Any thread; never waits. Errors:
 * NO_MEMORY, also once it is closed. */
int executor_deliver(executor *self, const void *frame, size_t size);

/*
 * Where everyone gets the sum: the server is gone. What it said and is not read yet is dropped, a
 * FETCH or LOAD in progress ends, and a REDUCE goes on. In the thread that delivers.
 */
void executor_cut(executor *self);

/* Makes what the executor needs to go on with `next`, as executor_init has it. Nothing changes
 * before executor_turn. Errors: NO_MEMORY. */
int executor_prepare(executor *self, const tarry_plan *next, const tarry_server_settings *server);
/* Goes on with what was prepared, and waits until it does: it drops what it is at. Between rounds,
 * when all that was meant for the plan before has been delivered. Cannot fail. A compute function
 * in progress runs on. */
void executor_turn(executor *self);

/*
 * From now on no chunk is begun: each that the machine asks for is reported as failed at once. That
 * in progress may finish until grace_until_ns of the monotonic clock (TARRY_NEVER: no limit), and
 * is then handed back as failed; its compute function runs on, and its result is dropped. Signals
 * are still answered. A later call may change the time. Any thread.
 */
void executor_leave(executor *self, uint64_t grace_until_ns);
/* Whether no round is in progress as far as the executor has heard. Any thread. */
bool executor_idle(executor *self);

/*
 * The next task; waits until until_ns for it. *task is NULL when the executor is closing. Any
 * thread, where no computing thread was started. Errors: STATE (none came in time; or another one
 * is out).
 */
int executor_take(executor *self, uint64_t until_ns, const tarry_task **task);
/* The task that is out is not waited for any more, and must not be touched. */
void executor_abandon(executor *self);

/* Whether it is in the middle of encoding what it was asked for. Any thread. */
bool executor_answering(executor *self);

/* Asks both threads to end; executor_join waits for them, for the collective, and so for a compute
 * function in progress, or a task that was taken. */
void executor_close(executor *self);
void executor_join(executor *self);
/* Joins it first. Nobody may read the slate's part any more then. Of zeros: nothing happens. */
void executor_destroy(executor *self);

/* Numbers first .. first + count - 1 of the slate's part are about to be overwritten, or freed. The
 * talking thread. */
void executor_claim(executor *self, size_t first, size_t count);

/* ---- worker_host.c: the executor of a tarry_worker_host, for a runtime in this process ---- */

/*
 * As tarry_worker_host_create, of settings that were checked. `compute` may be NULL. Numbers of any
 * form go to `send`, where they lie, and stay there until the server has withdrawn their attempt or
 * ended the round. shared: the snapshots of the parameters, which the caller publishes; NULL: its
 * own. unchecked: as exchange_settings. Nothing is left to free on errors.
 */
int worker_host_create(const tarry_plan *plan, const tarry_worker_host_settings *settings,
                       snapshots *shared, bool unchecked, const tarry_allocator *allocator,
                       tarry_worker_host **worker);
executor *worker_host_executor(tarry_worker_host *worker);

/* Secure sums; the talking thread. The gradients at the first `count` of the slate's folds are
 * added to its sum, which the first of them may begin. */
void executor_fold_secure(executor *self, size_t count, bool begins);
/* Nothing is sent any more, and the worker is to end. */
void executor_refuse(executor *self, int error, const char *why);
/* Masks the stripe of an ENCODE, and sends it; or ends all, where that must not be. */
void executor_post_secure(executor *self, const tarry_effect *effect, const layout *cut);

#endif
