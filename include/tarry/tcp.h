/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network runtime: the server's machine in one process, every worker's in another, on other
 * machines or the same one. Connections are TLS 1.3 with both sides authenticated; see
 * docs/security.md for what that protects, and docs/wire.md for what travels.
 */
#ifndef TARRY_TCP_H
#define TARRY_TCP_H

#include <tarry/compute.h>
#include <tarry/engine.h>
#include <tarry/replica.h>
#include <tarry/runtime.h>
#include <tarry/secure.h>
#include <tarry/straggler.h>
#include <tarry/sum_log.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARRY_TCP_NO_WORKER UINT32_MAX

/* How a side proves who it is, and whom it trusts. */
typedef struct tarry_tcp_security {
    /* A folder that `tarry keys` made for this member: ca.pem, cert.pem, key.pem and, for a server,
     * revoked.pem. Read at creation. */
    const char *credentials;
    bool insecure; /* plain text in its place; only on loopback addresses and Unix sockets */
    bool force;    /* insecure: anywhere; everybody who can connect can take part */
} tarry_tcp_security;

/* ---- what happened, for logs ---- */

typedef enum tarry_tcp_notice_type {
    TARRY_TCP_LISTENING,  /* peer: where */
    TARRY_TCP_JOINED,     /* `worker` is there; `arrival` */
    TARRY_TCP_LEFT_OUT,   /* the server continues without `worker`, for `absence`; waited_ns,
                             limit_ns; text: what became of its connection, if that is gone */
    TARRY_TCP_LEFT,       /* `worker` took its leave */
    TARRY_TCP_REFUSED,    /* a connection was turned away; text says why, peer who */
    TARRY_TCP_SIGNAL,     /* encode and transmit, `attempt` */
    TARRY_TCP_ROUND,      /* the round is over; `result` */
    TARRY_TCP_CONNECTED,  /* worker: to the server, peer says which */
    TARRY_TCP_LOST,       /* worker: the connection; text says why */
    TARRY_TCP_WAITING,    /* worker: waited_ns until it tries to connect again; server: for more
                             workers, or for them to reach each other, for up to waited_ns, since
                             the round `result` came to nothing; text says why */
    TARRY_TCP_OTHERS,     /* worker: nothing came of a sum with other workers, of what one was to
                             send, or of a connection to it; text says which one, and why; told again
                             when that changes, and now and then */
    TARRY_TCP_REVOCATION, /* the list of revoked certificates has changed; text: "in force", or why
                             the last good one stays so */
    TARRY_TCP_SUM_FAILED, /* server: `worker` has not made the sum `sum`; from: because of whom, as
                             it says */
    TARRY_TCP_FETCH,      /* server: `worker` is to get the sum `sum`, from another one */
    TARRY_TCP_LOAD,       /* the same of the state after it; from: no worker for the server's */
} tarry_tcp_notice_type;

/* How a worker comes. */
typedef enum tarry_arrival {
    TARRY_ARRIVAL_FIRST,
    TARRY_ARRIVAL_AGAIN,     /* the same process, over another connection */
    TARRY_ARRIVAL_RESTARTED, /* another process in its place */
} tarry_arrival;

typedef struct tarry_tcp_notice {
    tarry_tcp_notice_type type;
    uint64_t now_ns; /* of the monotonic clock */
    uint64_t round;
    uint32_t worker; /* TARRY_TCP_NO_WORKER: none, or not known */
    uint32_t attempt;
    tarry_absence absence;
    tarry_arrival arrival;
    uint64_t waited_ns, limit_ns;
    const char *peer; /* an address; "" if there is none */
    const char *text;
    const char *rack;  /* JOINED: that the worker says it is in; "" if it says none */
    uint64_t numerics; /* JOINED: as tarry_tcp_worker_numerics has it */
    const tarry_round_result *result; /* ROUND, a server's WAITING; else NULL */
    const tarry_sum_id *sum;          /* SUM_FAILED, FETCH, LOAD; else NULL */
    uint32_t from;                    /* the same: another worker; TARRY_TCP_NO_WORKER: none */
} tarry_tcp_notice;

/* Called on the runtime's own thread (a server's WAITING: in that of the round; a worker's OTHERS:
 * in one more); must return soon. Of the runtime it may call tarry_runtime_status, _worker and
 * _note of a server, and nothing else. The notice and its texts are borrowed. */
typedef void tarry_tcp_observe(void *user, const tarry_tcp_notice *notice);

/* ---- the server ---- */

/* Bytes of a chunk's samples, at most: a worker takes no more. */
#define TARRY_TCP_SHIP_MOST (UINT64_C(1) << 30)

/* Gives the samples of original chunk `origin` as bytes, as a worker's `tarry_tcp_worker_fetch`
 * gets them, TARRY_TCP_SHIP_MOST of them at most; valid until the server is freed. Called on the
 * runtime's own thread. Not 0: it can't, and a worker that asks for them is refused. */
typedef int tarry_tcp_ship(void *user, uint32_t origin, const void **bytes, size_t *size);

typedef struct tarry_tcp_server_settings {
    size_t size;               /* of this structure: its init sets it */
    const char *const *listen; /* "HOST:PORT", "[HOST]:PORT", ":PORT" (any address), "unix:PATH" */
    uint32_t listen_count;
    tarry_tcp_security security;
    size_t parameters, dimension; /* of the vectors: >= 1 numbers each */
    tarry_server_settings
        server;      /* its dimension is set from that above; stripe_length 0: chosen */
    const void *job; /* the workers' job; copied, handed to their `begin` */
    size_t job_size;
    uint8_t job_id[TARRY_JOB_ID_SIZE]; /* zeros: drawn. A resumed job keeps its own */
    /* SHA-256 of the data of the job: the server refuses a worker that has other data. Zeros: not
     * checked. */
    uint8_t data[TARRY_DIGEST_SIZE];
    tarry_tcp_ship *ship; /* NULL: workers have the data */
    void *ship_user;
    const uint8_t *checkpoint; /* of the server's machine, to go on from; NULL: a new job */
    size_t checkpoint_size;
    tarry_sum_log log;       /* server.sum TARRY_SUM_EVERYWHERE */
    uint32_t decode_threads; /* 0: chosen */
    /* For how long _round goes on after the first round for which too few workers were left, or who
     * did not reach each other, with another one when workers have come; 0: it ends at once. */
    uint64_t patience_ns;
    size_t most_peer_bytes; /* of messages that wait to be sent to one peer */
    uint32_t most_connections;
    uint32_t most_newcomers; /* of these, that have not said who they are; the oldest makes room for
                                the next. 0: one per worker and 512; never more than a quarter of
                                the files that the process may open */
    tarry_tcp_observe *observe; /* NULL: nobody */
    void *observe_user;
    /* Called about once a second within tarry_runtime_wait and _round, in their thread, for what
     * can't wait until they return: it may call _visit, _checkpoint, _stored and _worker, and a
     * checkpoint that is taken here begins the round in progress anew. NULL: nobody. */
    void (*attend)(void *user);
    void *attend_user;
    /* With server.compress_down, and a checkpoint: what tarry_runtime_view gave then; borrowed for
     * the call. numbers NULL: workers begin with the parameters as they are. */
    tarry_view view;
    /* Secure sums: its bits are server.secure. The server needs credentials, its workers'
     * certificates name them, and no memory is shared. bits 0: sums are not secure. */
    tarry_secure_rules secure;
} tarry_tcp_server_settings;

/* Memory is shared, 4 MiB may wait for a peer, 65,536 connections; everything else 0 or as
 * tarry_server_settings_init has it. */
#define tarry_tcp_server_settings_init(settings)                                                   \
    tarry_tcp_server_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_tcp_server_settings_init_sized(tarry_tcp_server_settings *settings,
                                                    size_t size);

/*
 * Listens, and starts the runtime's threads; peers are let in from the first tarry_runtime_open,
 * _wait or _round on. `plan` is borrowed and must outlive the server. Memory: four stripes for each
 * worker that sends one, and what TLS takes per connection (docs/network.md has figures); d / l
 * numbers for each worker on this machine with which memory is shared. tarry_runtime_free tells all
 * peers that the run is over or to be resumed, and waits a second at most until they have heard.
 * Errors: ARGUMENT, NO_MEMORY, SYSTEM (an address that can't be listened on), FILE and FORMAT
 * (credentials, a checkpoint that is not of this job).
 */
TARRY_API int tarry_tcp_server_create(const tarry_plan *plan,
                                      const tarry_tcp_server_settings *settings,
                                      const tarry_allocator *allocator, tarry_runtime **server,
                                      tarry_diagnostic *diagnostic);

/* ---- a worker ---- */

typedef struct tarry_tcp_worker tarry_tcp_worker;

/* What the server told a worker; borrowed for the call. */
typedef struct tarry_tcp_job {
    uint32_t worker, workers;
    const tarry_plan *plan;
    size_t parameters, dimension;
    const void *job; /* as in the server's settings */
    size_t job_size;
    bool ships;          /* tarry_tcp_worker_fetch gets the data */
    tarry_sum_place sum; /* EVERYWHERE: `begin` has to call tarry_tcp_worker_replica */
} tarry_tcp_job;

/*
 * Prepares for a job: reads or fetches the data, and says what data they are (zeros: it does not
 * know). Called in the thread of tarry_tcp_worker_run, while the connection is kept up; once for a
 * job, again when the server was started anew with another one, or gave the worker another id. Not
 * TARRY_OK: the worker ends with this error and diagnostic.
 */
typedef int tarry_tcp_begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job,
                            uint8_t data[TARRY_DIGEST_SIZE], tarry_diagnostic *diagnostic);

typedef struct tarry_tcp_worker_settings {
    size_t size;         /* of this structure: its init sets it */
    const char *connect; /* the server's address, as its `listen` */
    tarry_tcp_security security;
    uint32_t worker; /* the id to ask for; TARRY_TCP_NO_WORKER: that of the credential, or any */
    /* The rack or host that it says it is in, for the plans to come: up to TARRY_RACK_BYTES bytes,
     * each from '!' to '~'; for the call. NULL or "": it says none. */
    const char *rack;
    tarry_tcp_begin *begin;           /* NULL: nothing to prepare */
    tarry_compute *compute;           /* NULL: tasks are taken (tarry_tcp_worker_take) */
    void *user;                       /* of begin and compute */
    const tarry_straggler *straggler; /* NULL for none; borrowed */
    bool share;           /* memory with other workers on this machine, with TARRY_SUM_EVERYWHERE */
    uint64_t patience_ns; /* ends with SYSTEM when it could not connect for so long; TARRY_NEVER:
                             tries on for ever */
    uint64_t seed;        /* of the jitter between attempts to connect */
    /*
     * Where workers make the sum they connect to each other, by TLS as to the server, or in plain
     * text as the security allows: HOST:PORT to listen on, port 0: any, no host: all addresses,
     * NULL: the one that the worker has towards the server; and what others are told, port 0: that
     * which is listened on, NULL: that address, or the one towards the server. For the call.
     */
    const char *listen, *advertise;
    /*
     * By which the sum is made there, the same one at all workers, by its name: 1..32 bytes, each
     * from '!' to '~'; the server refuses one that differs from those who are there. It is
     * borrowed, and freed by the caller after the worker. Threads of the worker call it, one at a
     * time but for `wake`, and none between jobs, when nothing runs. Its address has at most
     * TARRY_TCP_ENGINE_ADDRESS_MOST bytes. Connections carry what workers missed all the same.
     * NULL: `direct` (tarry/direct.h).
     */
    tarry_engine *engine;
    tarry_tcp_observe *observe; /* NULL: nobody */
    void *observe_user;
    tarry_secure_member secure; /* secure sums: needs a credential that names the worker */
    /* The owner of its vectors; borrowed, must outlive the worker. A job whose vectors it cannot
     * have ends the worker. NULL: host memory. */
    tarry_vectors *vectors;
} tarry_tcp_worker_settings;

#define TARRY_TCP_ENGINE_ADDRESS_MOST 200 /* bytes */

/* Memory is shared, patience 5 minutes, no worker's id; everything else 0. */
#define tarry_tcp_worker_settings_init(settings)                                                   \
    tarry_tcp_worker_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_tcp_worker_settings_init_sized(tarry_tcp_worker_settings *settings,
                                                    size_t size);

/* Nothing is connected yet. The allocator is called from threads of the worker, too. Errors:
 * ARGUMENT, NO_MEMORY, FILE, FORMAT (credentials), SYSTEM. */
TARRY_API int tarry_tcp_worker_create(const tarry_tcp_worker_settings *settings,
                                      const tarry_allocator *allocator, tarry_tcp_worker **worker,
                                      tarry_diagnostic *diagnostic);
/* Waits until a compute function in progress has returned; a task that was taken and not given back
 * is void then. NULL is allowed. */
TARRY_API void tarry_tcp_worker_free(tarry_tcp_worker *worker);

/*
 * Connects, works until the server says that the run is over or tarry_tcp_worker_leave is done, and
 * reconnects, with growing pauses, whenever the connection is lost; the worker then does not
 * compute again what it has finished of a round. A compute function that nobody waits for may run
 * on after it returned. Once for each worker. Errors: SYSTEM (patience is at its end), STATE
 * (refused for good: diagnostic says why; or it ran before), ARGUMENT (plain text, or no
 * credentials, for an address that needs TLS), FORMAT (what the server sent is no plan), what
 * `begin` gave, NO_MEMORY.
 */
TARRY_API int tarry_tcp_worker_run(tarry_tcp_worker *worker, tarry_diagnostic *diagnostic);
/*
 * Without a compute function, in place of tarry_tcp_worker_run: the next task, and all that leads
 * to it. Connects at the first call, calls `begin` in the thread that calls, and waits; one thread
 * at a time. The connection is kept up between the calls. *task is NULL when the run is over.
 * Errors: STATE (none came within wait_ns, TARRY_NEVER: no limit, with an empty diagnostic; or the
 * task before was not given back), and those of tarry_tcp_worker_run, after which there are no
 * tasks.
 */
TARRY_API int tarry_tcp_worker_take(tarry_tcp_worker *worker, uint64_t wait_ns,
                                    const tarry_task **task, tarry_diagnostic *diagnostic);
/*
 * Takes leave: the worker may finish the chunk in progress within `grace_ns`, sends what is
 * finished if the server asks for it by the end of the round or of that time, and
 * tarry_tcp_worker_run returns. Any thread; again with 0: at once.
 */
TARRY_API void tarry_tcp_worker_leave(tarry_tcp_worker *worker, uint64_t grace_ns);
/* From within `begin`: injects stragglers from now on, in place of those of the settings; borrowed.
 * For callers that need to know the number of workers first. */
TARRY_API void tarry_tcp_worker_straggle(tarry_tcp_worker *worker,
                                         const tarry_straggler *straggler);
/*
 * From within `begin`: a fingerprint of how this worker computes, for instance a digest of a small
 * gradient by the same code; the worker tells it to the server. Workers with the same fingerprint
 * work out the same bits for a chunk; where fingerprints differ, parts that are coded of different
 * copies do not quite go together (docs/conditioning.md). 0, as without a call: not known.
 */
TARRY_API void tarry_tcp_worker_numerics(tarry_tcp_worker *worker, uint64_t fingerprint);
/*
 * From within `begin`, where workers make the sum (job->sum): what this worker steps, called by its
 * threads until another job begins or the worker is freed, and the sum that it has stepped on last;
 * NULL: it has the first state.
 */
TARRY_API void tarry_tcp_worker_replica(tarry_tcp_worker *worker, const tarry_replica *replica,
                                        const tarry_sum_id *last);
/* From within `begin` or `compute`: the samples of original chunk `origin`, kept by the worker from
 * the first time on, valid until it is freed or another job begins. Errors: INTERRUPTED (the worker
 * has to end), STATE (the server ships none), NO_MEMORY. */
TARRY_API int tarry_tcp_worker_fetch(tarry_tcp_worker *worker, uint32_t origin, const void **bytes,
                                     size_t *size);

/* What the worker did so far; any thread. */
typedef struct tarry_tcp_work {
    uint32_t worker;                        /* TARRY_TCP_NO_WORKER: not told yet */
    uint64_t round, chunks, computed_again; /* chunks finished; of these, once more in a round */
    uint64_t received, sent;
    uint32_t connections;
    uint64_t voided_residuals; /* of stripes: thrown away, as their fate was not known, or with the
                                  plan (docs/compression.md) */
} tarry_tcp_work;

TARRY_API tarry_tcp_work tarry_tcp_worker_work(const tarry_tcp_worker *worker);

#ifdef __cplusplus
}
#endif

#endif
