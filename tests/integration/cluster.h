/* SPDX-License-Identifier: Apache-2.0 */
/* A network server and its workers as threads of this process: sums of seeded normal vectors, one
 * per original chunk, and the same sums worked out serially. */
#ifndef TEST_CLUSTER_H
#define TEST_CLUSTER_H

#include <pthread.h>

#include <tarry/tcp.h>

#include "key_folder.h"
#include "proxy.h"

enum { CLUSTER_MOST_WORKERS = 16, CLUSTER_ADDRESS = 64 };

typedef struct cluster cluster;

typedef struct cluster_member {
    cluster *cluster;
    tarry_tcp_worker_settings settings;
    const tarry_allocator *allocator; /* NULL: the C library's */
    tarry_tcp_worker *worker;
    pthread_t thread;
    bool started, joined;
    int result; /* of tarry_tcp_worker_run */
    tarry_diagnostic diagnostic;
    char credentials[160];
    _Atomic uint32_t begun; /* calls of `begin` */
    /* Under the cluster's lock. */
    char job[32];               /* what `begin` was given last; its beginning */
    char seen[CLUSTER_ADDRESS]; /* where the server sees it; empty: it is not there */
    tarry_secure_member member; /* secure sums: but for `required` */
    uint64_t numerics;          /* that it states */
    uint32_t connections;       /* of this run */
    bool ended;                 /* the run */
    uint64_t wait_ns;           /* until it tries to connect again, as it said last */
    uint32_t free;              /* computations before it is held up */
    bool held;                  /* in the middle of one */
} cluster_member;

struct cluster {
    tarry_plan_settings plan_settings;
    tarry_tcp_server_settings settings; /* listen, parameters and dimension are set by _begin */
    const tarry_allocator *allocator;   /* the server's; NULL: the C library's */
    uint32_t workers;                   /* that are started: those of the plan */
    size_t dimension, parameter_count;
    uint64_t seed;
    bool tls;
    /* Secure sums (settings.secure has their rules): TLS, and a roster of all workers. */
    bool secure;
    bool ships;         /* workers fetch 8 bytes per chunk, and compute with them */
    const char *socket; /* "unix:PATH": listened on, too; workers use it alone if `near` */
    bool near;
    const char *straggler_spec;
    char connect[160]; /* of the workers; the server's if it is empty */

    key_folder keys; /* if `tls`, once it has begun */
    tarry_plan *plan;
    tarry_straggler *straggler;
    tarry_runtime *server;
    char address[160];
    cluster_member members[CLUSTER_MOST_WORKERS];
    float *sum, *parameters;
    double *truth;
    uint64_t shipped[256];

    pthread_mutex_t lock;
    pthread_cond_t changed; /* what workers say and do, and what the server says of them */
};

/* 6 workers, 6 chunks, replication 3, 1 part, 1,000 numbers in stripes of 96, plain text; nobody is
 * silent before a stall of the machine could have ended. */
void cluster_init(cluster *its);
/* Makes the plan and the server, starts the workers and waits for them; asserts that it worked. */
void cluster_begin(cluster *its);
/* Tells the workers that the run is over; asserts that all took it well. */
void cluster_end(cluster *its);
/* A case with one (test.h). */
#define CLUSTER(name) TEST_OF(name, cluster, its, cluster_end)
/* What cluster_begin consists of. */
void cluster_begin_server(cluster *its);
void cluster_start(cluster *its, uint32_t worker);
void cluster_wait(cluster *its, uint32_t workers);
/* Waits until all of them are there over connections that are whole: `between` knows. */
void cluster_wait_whole(cluster *its, proxy *between);
/* Goes on with that plan, which the cluster owns from now on. */
void cluster_replan(cluster *its, tarry_plan *next);
/* Waits for the worker's run to end. */
void cluster_join(cluster *its, uint32_t worker);

/* Waits for a change, with the lock held; asserts that one comes. */
void cluster_await_change(cluster *its);
/* From now on the worker finishes so many computations, and is held up in the next one. */
void cluster_hold(cluster *its, uint32_t worker, uint32_t after);
bool cluster_is_held(cluster *its, uint32_t worker);
/* Waits until it is. */
void cluster_await_held(cluster *its, uint32_t worker);
/* Nobody is held up any more. */
void cluster_release(cluster *its);

/* Runs a round; its sum is in its->sum, the true one in its->truth. */
int cluster_round(cluster *its, tarry_round_result *result, tarry_diagnostic *diagnostic);
/* The same by a thread of its own: what is to happen meanwhile does, and then its end is awaited.
 */
typedef struct cluster_call {
    cluster *its;
    pthread_t thread;
    int error;
    tarry_round_result result;
    tarry_diagnostic diagnostic;
} cluster_call;

void cluster_begin_round(cluster *its, cluster_call *call);
void cluster_end_round(cluster_call *call);
/* A round, asserting that it went well and that an exact sum is right; gives back the result. */
tarry_round_result cluster_good_round(cluster *its);
/* So many, asserting that each is exact. */
void cluster_exact_rounds(cluster *its, uint32_t rounds);
/* What a worker computes for a chunk of the plan in the round that was run last, number for number.
 */
void cluster_gradient(const cluster *its, uint64_t round, uint32_t chunk, float *gradient);
/* max |sum - truth| / max |truth| */
double cluster_error(const cluster *its);
/* What rounding may make of that, with the workers that condition the plan worst: whose parts are
 * summed is a matter of time. */
double cluster_tolerance(const cluster *its);

#endif
