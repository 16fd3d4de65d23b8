/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world in virtual time: the real server and workers, and everything between them drawn
 * from a seed: delays, reordering, duplicates, messages that outlive their round or connection,
 * workers that crash, restart, fall silent, pause and fail chunks, sums carried out late. Instead
 * of numbers, coded parts carry the coefficients they were encoded with, so that the estimate's
 * content is known as a matrix.
 *
 *   cluster.c        time, links, machines and faults
 *   cluster_setup.c  what a seed means
 *   estimate.c       what the server's sums contain
 *   invariants.c     what must hold, checked at every step
 *   model.c          what the server should do
 */
#ifndef SCENARIO_CLUSTER_H
#define SCENARIO_CLUSTER_H

#include <stdio.h>

#include <tarry/worker.h>

#include "base/random.h"
#include "model.h"
#include "protocol/codec.h"

enum {
    MAX_ITEMS = 4096,
    MAX_EPOCHS = 64,
    MAX_ROUNDS = 4,
    FRAME_BYTES = CODEC_HEADER_BYTES + (MAX_WORKERS * MAX_CHUNKS + 7) / 8 + 1,
    FRAME_WORDS = 4,
};

/* Faults that no part of the system may have: planted to show that the invariants find them. */
typedef enum plant {
    PLANT_NONE,
    PLANT_SUM_TWICE,         /* a coded part is added twice */
    PLANT_SUM_STALE,         /* a part that was rejected as stale is combined all the same */
    PLANT_FORGET_CLEAR,      /* the estimate is not zeroed */
    PLANT_FORGE_EPOCH,       /* messages of earlier arrivals pass as present ones */
    PLANT_LOSE_REPORT,       /* a report is lost although its connection stands */
    PLANT_REPEAT_UNNOTICED,  /* a message comes in twice, and only the server knows */
    PLANT_BEND_PART,         /* a coefficient is wrong by half */
    PLANT_ENCODE_UNFINISHED, /* a coded part contains a chunk that was never computed */
    PLANT_BEND_RESULT,       /* the result claims a smaller error */
    PLANT_SWALLOW_SIGNAL,    /* signals don't arrive */
} plant;

typedef struct coded {
    double u[MAX_CHUNKS][MAX_PARTS];
} coded;

typedef enum item_type {
    ITEM_TO_SERVER,
    ITEM_TO_WORKER,
    ITEM_COMPUTED,
    ITEM_ENCODED,
    ITEM_CLEAR,
    ITEM_COMBINE,
    ITEM_START,
    ITEM_ABORT,
    ITEM_JOIN,
    ITEM_LOST,
    ITEM_CRASH, /* noticed: LOST follows */
    ITEM_CRASH_SILENTLY,
    ITEM_DISCONNECT, /* the worker lives on and comes back */
    ITEM_RECONNECT,  /* the same, before the server noticed */
    ITEM_PAUSE,
    ITEM_PAUSE_SERVER,
} item_type;

/* Something that happens at a time. */
typedef struct cluster_item {
    uint64_t time, sequence;
    item_type type;
    uint32_t worker;
    uint32_t connection; /* messages, LOST */
    uint64_t token;      /* COMPUTED: the computation; ENCODED: the worker's life */
    uint64_t round;
    uint32_t attempt, stripe, slot;
    bool failed;
    uint32_t size;
    uint8_t frame[FRAME_BYTES];
    coded part;
} cluster_item;

typedef struct cluster_node {
    tarry_worker *machine; /* NULL: not running */
    codec_shape shape;
    uint32_t connection;
    bool connected;
    bool returning; /* a JOIN is under way */
    uint64_t life;
    uint64_t token; /* of the computation in progress; 0: none */
    uint64_t paused_until;
    uint64_t last_up, last_down; /* arrivals of the last messages, for links in order */
    double speed;
    /* What the last ROUND it accepted said. */
    uint64_t round;
    uint32_t epoch;
    /* The truth: chunks whose gradients it has really computed, by its arrival and round. */
    uint32_t made[MAX_EPOCHS][MAX_ROUNDS];
} cluster_node;

/* Plans take longer to make than worlds to run: this many runs in a row share one. */
enum { RUNS_PER_PLAN = 16 };

typedef struct cluster {
    /* kept from run to run: the plan of (plan_seed, plan_group) */
    tarry_plan *plan;
    uint64_t plan_seed;
    uint32_t plan_group;

    /* the draw */
    random_stream random;
    plant planted;
    FILE *trace; /* NULL: none */
    tarry_server_settings settings;
    uint32_t workers, stripes, rounds;
    bool reorder_up, reorder_down;
    double duplicates, failures, crashes_while_encoding, strays;
    uint32_t delay, compute_time, encode_time, sum_time;
    uint32_t encoding_crashes_left;

    tarry_server *server;
    server_model model;
    cluster_node nodes[MAX_WORKERS];
    uint64_t now, sequence, token, round_start;
    uint64_t server_paused_until, last_sum;
    uint32_t rounds_done;
    cluster_item items[MAX_ITEMS];
    size_t count;

    coded inbox[MAX_WORKERS][MAX_STRIPES]; /* parts that the server took */
    double estimate[MAX_STRIPES][MAX_CHUNKS][MAX_PARTS][MAX_PARTS];
    uint32_t summed[MAX_STRIPES]; /* workers in the estimate since it was cleared */

    /* the outcome */
    const char *broken; /* the invariant that does not hold; NULL: none */
    char why[240];
    uint64_t steps;
    uint32_t exact_rounds, failed_rounds, extra_attempts, passed_over, given_up;
} cluster;

/* Room for worlds, one after the other; aborts the test without memory. */
cluster *cluster_create(void);
void cluster_free(cluster *it);

/* Runs one world to its end or to the first broken invariant, which `it` names afterwards. */
void cluster_run(cluster *it, uint64_t seed, uint32_t run, plant planted, FILE *trace);

/* cluster_setup.c: draws everything about a world, and plans its faults. */
void cluster_set_up(cluster *it, uint64_t seed, uint32_t run);

/* Adds an item; the caller fills in what its type needs. */
cluster_item *cluster_add(cluster *it, uint64_t time, item_type type, uint32_t worker);
/* 0..most */
uint64_t cluster_draw_time(cluster *it, uint32_t most);
bool cluster_chance(cluster *it, double probability);
void cluster_note(cluster *it, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
