/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world in virtual time: the real server and workers, and everything between them drawn
 * from a seed: delays, reordering, duplicates, messages that outlive their round or connection,
 * slow links and cut ones, workers that crash, come back, fall silent, pause and fail chunks, sums
 * carried out late, a server that is restarted from its checkpoint. Instead of numbers, coded parts
 * carry the coefficients they were encoded with, so that the estimate's content is known as a
 * matrix.
 *
 *   cluster.c         time: what happens next
 *   cluster_setup.c   what a seed means
 *   cluster_links.c   messages on their way
 *   cluster_worker.c  workers, and what befalls them
 *   cluster_server.c  the server, its sums, its restarts
 *   draws.c           everything random
 *   model.c           what the server should do
 *   invariants.c      what must hold, checked at every step
 *   invariants_absence.c  the same of workers that are done without
 *   invariants_order.c  the same of dynamic orders
 *   shrink.c          the fewest faults that still break an invariant
 *
 * A world has its own small queue, in memory that is taken once: messages with their frames and
 * coded parts are its entries, and are looked through for duplicates and for sums to be settled.
 */
#ifndef SIM_FAULTS_CLUSTER_H
#define SIM_FAULTS_CLUSTER_H

#include <tarry/worker.h>

#include "protocol/codec.h"
#include "sim/faults/draws.h"
#include "sim/faults/model.h"

enum {
    MAX_ITEMS = 2048,
    MAX_RECORDS = 128,
    FRAME_BYTES = CODEC_HEADER_BYTES + CODEC_TERM_BYTES + (MAX_WORKERS * MAX_CHUNKS + 7) / 8 + 1 +
                  (MAX_CHUNKS + 7) / 8, /* psi, stripes, and a set of positions */
    FRAME_WORDS =
        (MAX_WORKERS * MAX_CHUNKS + 63) / 64 + 1 + 4, /* psi, stripes, and sets of positions */
    CHECKPOINT_BYTES = 2048,
    LINE_BYTES = 240,
    CLUSTER_PLAN_RUNS = 16,
};

/*
 * Faults that no part of the system may have: planted to show that the invariants find them. Only
 * a build with -DTARRY_PLANTS can have them.
 */
typedef enum plant {
    PLANT_NONE,
    PLANT_SUM_TWICE,          /* a coded part is added twice */
    PLANT_SUM_STALE,          /* a part that was rejected as stale is combined all the same */
    PLANT_FORGET_CLEAR,       /* the estimate is not zeroed */
    PLANT_FORGE_EPOCH,        /* messages of earlier arrivals pass as present ones */
    PLANT_LOSE_REPORT,        /* a report is lost although its connection stands */
    PLANT_REPEAT_UNNOTICED,   /* a message comes in twice, and only the server knows */
    PLANT_BEND_PART,          /* a coefficient is wrong by half */
    PLANT_ENCODE_UNFINISHED,  /* a coded part contains a chunk that was never computed */
    PLANT_BEND_RESULT,        /* the result claims a smaller error */
    PLANT_SWALLOW_SIGNAL,     /* signals don't arrive */
    PLANT_WAIT_FOR_THE_LOST,  /* a lost worker counts as present */
    PLANT_OLD_CHECKPOINT,     /* a second restart is from the first one's checkpoint */
    PLANT_ENCODE_TOO_OLD,     /* what fills a chunk is of two rounds ago */
    PLANT_ENCODE_OTHER_ROUND, /* a copy of the round before is encoded where psi names a fresh one
                               */
    PLANT_FORGET_SCALE,       /* parts are added without the attempt's factor */
    PLANT_FOLD_TWICE,         /* a gradient is added to the running sum twice */
    PLANT_FOLD_UNCREDITED,    /* a gradient that is to be dropped is folded */
    PLANT_RUN_TOO_FAR,        /* a worker computes into the place of a gradient that waits */
    PLANT_SWALLOW_NEWS,       /* news don't arrive */
    PLANT_KEEP_BARRED,        /* what was barred once stays barred for the round */
    PLANT_MUTE,               /* what workers say that they are at does not count */
    PLANT_BAR_ALL,            /* a worker is told that nothing is wanted of it */
} plant;

/* What a coded part is made of: u[chunk][part], of this round or of `before`, and whose parameters
 * its gradients belong to. */
typedef struct coded {
    double u[MAX_CHUNKS][MAX_PARTS];
    uint32_t parameters;
    uint32_t stale;  /* chunks whose gradient is that of `before`, a bit each */
    uint64_t before; /* a round */
} coded;

typedef enum item_type {
    ITEM_TO_SERVER,
    ITEM_TO_WORKER,
    ITEM_COMPUTED,
    ITEM_ENCODED,
    ITEM_CLEAR,
    ITEM_COMBINE,
    ITEM_START,
    ITEM_JOIN,
    ITEM_LOST,
    ITEM_HEARD,
    ITEM_SAVE,
    /* faults */
    ITEM_ABORT,
    ITEM_CRASH, /* noticed: LOST follows */
    ITEM_CRASH_SILENTLY,
    ITEM_CUT, /* the connection; the worker lives on and comes back */
    ITEM_CUT_UNNOTICED,
    ITEM_PAUSE,
    ITEM_SLOW_LINK,
    ITEM_PAUSE_SERVER,
    ITEM_RESTART_SERVER,
} item_type;

/* Something that happens at a time. */
typedef struct cluster_item {
    uint64_t time, sequence;
    item_type type;
    uint32_t worker;
    uint32_t connection; /* messages, HEARD, LOST */
    uint32_t parameters; /* ROUND: which parameters travel with it */
    uint64_t token;      /* COMPUTED: the computation; ENCODED: the worker's life */
    uint64_t round;
    uint32_t attempt, parts, stripe, slot;
    double scale; /* COMBINE */
    bool failed;
    random_stream details; /* of a fault */
    uint32_t size;
    uint8_t frame[FRAME_BYTES];
    coded part;
} cluster_item;

/* The truth: chunks whose gradients a worker has really computed, by arrival, round and parameters.
 */
typedef struct cluster_record {
    uint32_t epoch;
    uint32_t parameters;
    uint64_t round;
    uint32_t made; /* chunks, a bit each */
} cluster_record;

typedef struct cluster_node {
    tarry_worker *machine; /* NULL: not running */
    codec_shape shape;
    uint32_t connection;
    bool connected;
    bool returning; /* a JOIN is under way */
    uint64_t life;
    uint64_t token; /* of the computation in progress; 0: none */
    uint64_t paused_until, slow_until;
    uint64_t last_up, last_down; /* arrivals of the last messages, for links in order */
    uint32_t slowness;           /* times the time to compute, 1..10 */
    uint32_t
        open; /* TARRY_KEEP_CREDITED: finished, neither folded nor dropped; chunks, a bit each */
    double sum[MAX_CHUNKS];  /* the same: how often each chunk is in the running sum */
    cluster_record present;  /* what the last ROUND it accepted said, and what it made since */
    uint32_t failed, barred; /* of that round: chunks, a bit each */
    uint32_t at;             /* the chunk in progress, as a bit; 0: none */
    bool computes;           /* may go on with open chunks: not told to stop */
    uint32_t heard;          /* the newest attempt of which it was told by more than news */
    cluster_record records[MAX_RECORDS]; /* the latest, in a ring */
    uint32_t record_count;
} cluster_node;

typedef struct cluster_job {
    uint64_t seed;
    uint32_t run;
    const fault_list *allowed; /* NULL: all */
    plant planted;
    void (*trace)(void *user, const char *line); /* NULL: none */
    void *user;
} cluster_job;

typedef struct cluster {
    /* kept from run to run */
    tarry_allocator allocator;
    tarry_plan *plan; /* of the worlds plan_seed, plan_group; NULL: none yet */
    uint64_t plan_seed;
    uint32_t plan_group;

    cluster_job job;
    draws draws;
    tarry_server_settings settings;
    uint32_t workers, rounds;
    uint32_t stripes; /* of the least number of parts */
    bool reorder_up, reorder_down;
    double duplicates, failures, strays, holds, breaks_while_encoding;
    uint32_t delay, compute_time, encode_time, sum_time;
    uint32_t encoding_breaks_left;
    uint64_t patience; /* with somebody who rests although there is work */
    uint64_t bound;    /* of a round, from its start or the last fault on */

    tarry_server *server;
    uint64_t allocations; /* of all servers */
    server_model model;
    cluster_node nodes[MAX_WORKERS];
    uint64_t now, sequence, token, round_start;
    uint64_t disturbed;  /* until when the last fault lasted */
    uint32_t parted;     /* workers that the server gave up in this step, a bit each */
    uint64_t idle_since; /* somebody rested that had work to do; TARRY_NEVER: nobody did */
    uint64_t server_paused_until, last_sum;
    uint32_t rounds_done;
    size_t count; /* of items */

    uint32_t parameters; /* counts the server's lives: each has its own */
    uint8_t checkpoint[CHECKPOINT_BYTES];
    size_t checkpoint_size;
    uint64_t saved_round;
    uint32_t saved_epochs[MAX_WORKERS];

    coded inbox[MAX_WORKERS][MAX_STRIPES]; /* parts that the server took */
    double estimate[MAX_STRIPES][MAX_CHUNKS][MAX_PARTS][MAX_PARTS];
    /* The same of the round before's gradients. */
    double filling[MAX_STRIPES][MAX_CHUNKS][MAX_PARTS][MAX_PARTS];
    uint32_t summed[MAX_STRIPES]; /* workers in the estimate since it was cleared */

    /* the outcome */
    const char *broken; /* the invariant that does not hold; NULL: none */
    char why[LINE_BYTES];
    uint64_t steps;
    uint64_t longest; /* of a round, from its start or the last fault on, in thousandths of bound */
    uint32_t exact_rounds, failed_rounds, extra_attempts, passed_over, made_up, called_back,
        given_up, restarts;
    uint32_t parted_rounds; /* with more parts than the plan's least */
    uint32_t changed_parts; /* attempts with another number of parts than the one before */
    uint64_t waits;         /* steps in which the signal was put off for more parts */
    uint32_t planned[MODEL_CODING + 1]; /* faults that struck, by the phase that they struck in */

    cluster_item items[MAX_ITEMS]; /* the last of all: not cleared for a new world */
} cluster;

/* Room for one world at a time. Errors: NO_MEMORY. */
int cluster_create(const tarry_allocator *allocator, cluster **out);
void cluster_free(cluster *it); /* NULL is allowed */

/*
 * Runs one world to its end or to the first broken invariant, which `it` names afterwards, with the
 * faults that struck in it->draws.struck. Each CLUSTER_PLAN_RUNS neighbouring runs have one plan:
 * making it takes longer than they do. Errors: NO_MEMORY.
 */
int cluster_run(cluster *it, const cluster_job *job);

static inline bool cluster_planted(const cluster *it, plant wanted)
{
#ifdef TARRY_PLANTS
    return it->job.planted == wanted;
#else
    (void)it;
    (void)wanted;
    return false;
#endif
}

/* cluster.c. Adds an item; the caller fills in what its type needs. */
cluster_item *cluster_add(cluster *it, uint64_t time, item_type type, uint32_t worker);
void cluster_remove(cluster *it, size_t index);
void cluster_note(cluster *it, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A fault ends now or at a time to come: until then, and for a while after, rounds may last. */
void cluster_disturb(cluster *it, uint64_t until);

/* cluster_setup.c. Draws everything about a world, and plans its faults. Errors: NO_MEMORY. */
int cluster_set_up(cluster *it);

/* cluster_links.c */
void cluster_note_message(cluster *it, const char *where, uint32_t worker,
                          const tarry_message *message);
/* Puts a message on the link of `worker`, perhaps twice. `part` belongs to a PART, else NULL. */
void cluster_transmit(cluster *it, item_type direction, uint32_t worker,
                      const tarry_message *message, const coded *part);
void cluster_deliver_to_server(cluster *it, cluster_item *sent);
void cluster_deliver_to_worker(cluster *it, const cluster_item *sent);

/* cluster_worker.c */
/* `parameters` comes with a ROUND. */
void cluster_step_worker(cluster *it, uint32_t worker, const tarry_event *event,
                         uint32_t parameters);
void cluster_computed(cluster *it, const cluster_item *done);
void cluster_encoded(cluster *it, const cluster_item *done);
/* Whether a message says what to compute: news of a fate alone don't. */
static inline bool cluster_says_order(const cluster *it, const tarry_message *message)
{
    return message->type == TARRY_MESSAGE_ROUND || message->type == TARRY_MESSAGE_RESUME ||
           (message->type == TARRY_MESSAGE_NEWS &&
            (message->turn != 0 || it->settings.pick == TARRY_PICK_PLAN));
}
/* A set of positions of the worker's order as chunks, a bit each; NULL is empty. */
uint32_t cluster_chunks_of(const cluster *it, uint32_t worker, const uint64_t *positions);
/* What `worker` has made in (epoch, round) with the parameters; chunks, a bit each. */
uint32_t cluster_made(const cluster *it, uint32_t worker, uint32_t epoch, uint64_t round,
                      uint32_t parameters);
void cluster_crash(cluster *it, uint32_t worker, bool noticed, random_stream *details);
void cluster_cut(cluster *it, uint32_t worker, bool noticed, random_stream *details);
/* The worker is connected; a machine is made for it if it has none. Errors: NO_MEMORY. */
int cluster_connect(cluster *it, uint32_t worker);
void cluster_disconnect(cluster *it, uint32_t worker, bool noticed);
/* Comes back within `most`, if it is not about to. */
void cluster_return_later(cluster *it, uint32_t worker, uint32_t most, random_stream *details);

/* cluster_server.c */
int cluster_make_server(cluster *it);
/* `part` comes with a PART, else NULL. */
void cluster_step_server(cluster *it, const tarry_event *event, const coded *part);
void cluster_clear_estimate(cluster *it, uint32_t stripe);
void cluster_combine(cluster *it, const cluster_item *done);
void cluster_save(cluster *it);
/* Errors: NO_MEMORY; there is no server then. */
int cluster_restart_server(cluster *it, random_stream *details);

#endif
