/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network server on loopback, with what its observer heard, and a crew of scripted workers
 * (script.h) in threads of their own.
 */
#ifndef TEST_SERVER_BENCH_H
#define TEST_SERVER_BENCH_H

#include <pthread.h>

#include "script.h"
#include "test.h"

enum { WORKERS = 6, CHUNKS = 6, DIMENSION = 1000, STRIPE = 96, PARAMETERS = 40000 };

/* Longer than any stall of the machine: what takes longer hangs, and nobody is silent before. */
enum { PATIENCE_SECONDS = 60 };
#define PATIENCE_NS (PATIENCE_SECONDS * UINT64_C(1000000000))

/* A server, and what its observer heard. */
/* Scripted workers in threads of their own. */
typedef struct crew {
    script workers[WORKERS];
    pthread_t threads[WORKERS];
    bool works[WORKERS]; /* has a thread */
    uint32_t count;
} crew;

typedef struct bench {
    tarry_plan *plan;
    tarry_tcp_server_settings settings;
    tarry_runtime *server;
    const char *address;
    uint32_t chunks; /* of the plan in force: each has a gradient by its number */
    float parameters[PARAMETERS];
    float sum[DIMENSION];
    tarry_round_result result;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t joined, refused, left_out, left, revocations;
    uint32_t gone;       /* of those left out */
    char told[64 << 10]; /* why somebody was refused, or a list was not taken: a line each */
    size_t told_size;
    crew crew;
} bench;

/* Settings to change before it begins. */
void bench_init(bench *its);
/* A plan of WORKERS workers, each chunk on three. */
tarry_plan *bench_plan(uint32_t parts);
/* Makes the server, on a port of its own if no address is set; it lets others in unless it has a
 * checkpoint. */
void bench_begin(bench *its, uint32_t parts);
/* Both. */
void bench_open(bench *its, uint32_t parts);
/* The server ends, and then its crew does. */
void bench_end(bench *its);
OWNED_STRUCT_BY(bench, bench_end)
/* A case with one (test.h). */
#define BENCH(name) TEST_OF(name, bench, its, bench_end)

/* Wait for what the observer hears: so many of a kind, or these words. */
void bench_await_count(bench *its, const uint32_t *count, uint32_t wanted);
void bench_await_told(bench *its, const char *words);

/* A round with this last parameter; its error. */
int bench_round(bench *its, float parameter);
/* The last sum is that of all gradients. */
void assert_true_sum(const bench *its, float parameter);

/* A round, asserting that it went well and that its sum is true. */
void bench_good_round(bench *its, float parameter);

/* So many of its crew join; the server has them all. */
void crew_hire(bench *its, uint32_t count);
/* A server for plans of one part, with a crew that takes part in rounds: all, or all but the first,
 * which has joined. */
void bench_open_crewed(bench *its);
void bench_open_crewed_but_one(bench *its);
/* They take part in rounds, as threads: all of them, or one, by crew_work or in another way. */
void crew_start(bench *its);
void crew_begin(bench *its, uint32_t worker, void *work(void *));
void *crew_work(void *argument);

#endif
