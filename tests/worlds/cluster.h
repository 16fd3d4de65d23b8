/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world in virtual time: the real server and workers, and everything between them drawn
 * from a seed: delays, reordering, duplicates, messages that outlive their round or connection,
 * slow links and cut ones, workers that crash, come back, fall silent, pause and fail chunks, sums
 * carried out late, a server that is restarted from its checkpoint, plans that change between two
 * rounds. Instead of numbers, coded parts carry the coefficients they were encoded with, so that
 * the estimate's content is known as a matrix, of each unit of the data: GRAIN units are an
 * original chunk, however the plan cuts it.
 *
 *   cluster.c         time: what happens next
 *   cluster_setup.c   what a seed means
 *   cluster_links.c   messages on their way, over transport.h in memory
 *   cluster_worker.c  workers, and what befalls them
 *   cluster_server.c  the server and its restarts
 *   cluster_sum.c     the server's estimate
 *   cluster_plans.c   plans that follow each other, and what their chunks are made of
 *   cluster_replan.c  another plan between two rounds
 *   draws.c           everything random
 *   model/            what the server should do, which knows nothing of the worlds:
 *   model.c           the round and its attempts
 *   model_sample.c    what is sampled
 *   model_rank.c      what sets of workers can recover
 *   model_rule.c      the stop rule
 *   model_plan.c      what goes by the plan: bytes of messages, the next plan's server
 *   invariants.c      what must hold, checked at every step
 *   invariants_absence.c  the same of workers that are left out
 *   invariants_limit.c  the same of what workers encode with
 *   invariants_order.c  the same of dynamic orders
 *   invariants_sample.c  the same of what is sampled
 *   invariants_sum.c  the same of the estimate
 *   feedback.c        what rounding loses of coded parts
 *   seen.c            views of the parameters
 *   secure.c          secure sums: keys, rings and masks; and invariants_secure.c
 *   plants.c          the errors that can be planted
 *   everywhere.h      what there is more where everyone gets the sum
 *
 * A world has its own small queue, in memory that is taken once, which is looked through for sums
 * to be settled; messages are the network's, in one order with it.
 */
#ifndef WORLDS_CLUSTER_H
#define WORLDS_CLUSTER_H

#include <tarry/worker.h>

#include "protocol/wire/codec.h"
#include "worlds/draws.h"
#include "worlds/everywhere.h"
#include "worlds/memory_transport.h"
#include "worlds/model/model.h"
#include "worlds/secure.h"
#include "worlds/seen.h"

enum {
    MAX_ITEMS = 2048,
    MAX_RECORDS = 128,
    FRAME_BYTES = CODEC_HEADER_BYTES + CODEC_TERM_BYTES + CODEC_STATE_BYTES +
                  CODEC_STOOD_BYTES * (1 + MAX_STRIPES) + CODEC_SLOT_BYTES * MAX_CHUNKS +
                  (MAX_WORKERS * MAX_CHUNKS + 7) / 8 + 1 +
                  (MAX_CHUNKS + 7) / 8, /* psi, stripes, and a set of positions */
    FRAME_WORDS = (MAX_WORKERS * MAX_CHUNKS + 63) / 64 + 2 + 4 +
                  MAX_CHUNKS, /* psi, stripes, group, sets of positions; numbers of them */
    CHECKPOINT_BYTES = 2048,
    LINE_BYTES = 240,
    CLUSTER_PLAN_RUNS = 16,
    MAX_PLANS = 5, /* of a world */
    GRAIN = 8,     /* units of an original chunk: no plan cuts it finer */
    MAX_HELD = 6,  /* frames for a worker that turns to another plan */
};

/* Faults that no part of the system may have: planted to show that the invariants find them.
 * plants.c says what each is. */
typedef enum plant {
    PLANT_NONE,
    PLANT_SUM_TWICE,
    PLANT_SUM_STALE,
    PLANT_FORGET_CLEAR,
    PLANT_FORGE_EPOCH,
    PLANT_LOSE_REPORT,
    PLANT_REPEAT_UNNOTICED,
    PLANT_BEND_PART,
    PLANT_ENCODE_UNFINISHED,
    PLANT_BEND_RESULT,
    PLANT_SWALLOW_SIGNAL,
    PLANT_WAIT_FOR_THE_LOST,
    PLANT_OLD_CHECKPOINT,
    PLANT_ENCODE_TOO_OLD,
    PLANT_ENCODE_OTHER_ROUND,
    PLANT_FORGET_SCALE,
    PLANT_FOLD_TWICE,
    PLANT_FOLD_UNCREDITED,
    PLANT_RUN_TOO_FAR,
    PLANT_SWALLOW_NEWS,
    PLANT_KEEP_BARRED,
    PLANT_MUTE,
    PLANT_BAR_ALL,
    PLANT_OTHER_LIMIT,
    PLANT_KEEP_SPANS,
    PLANT_SUM_OTHER_PLAN,
    PLANT_OLD_ORDERS,
    PLANT_ANY_TURN,
    PLANT_SPOIL_CHECKPOINT,
    PLANT_JOIN_FIRST,
    PLANT_COMMIT_LATE,
    PLANT_COMMIT_NONE,
    PLANT_KEEP_UNKNOWN,
    PLANT_KEEP_UNDONE,
    PLANT_VOID_TOLD,
    PLANT_FORGET_CUT,
    PLANT_BEND_VIEW,
    PLANT_KEEP_VIEW,
    PLANT_FORGET_VIEW,
    PLANT_OTHER_SAMPLE,
    PLANT_ADD_ONCE,
    PLANT_OTHER_SEED,
    PLANT_NO_WEIGHTS,
    PLANT_COMMIT_FIRST,
    PLANT_ONE_HOLDER,
    PLANT_LOSE_HOLDER,
    PLANT_LATE_LOAD,
    PLANT_LATE_ENGINE,
    PLANT_SUM_IN_PLACE,
    PLANT_ANY_DIGEST,
    PLANT_NO_STATES,
    PLANT_NO_LIMIT,
    PLANT_NO_PAUSE,
    PLANT_KEEP_PART,
    PLANT_KEEP_EXACT,
    PLANT_SAME_TERM,
    PLANT_NO_GRACE,
    PLANT_KEEP_KAPPA,
    PLANT_MASK_AGAIN,
    PLANT_STALE_GROUP,
    PLANT_NAME_ANOTHER,
    PLANT_BEND_HOLDERS,
    PLANT_FORGET_STRIPE,
    PLANT_COUNT_STRIPES,
    PLANT_NO_KEY,
    PLANT_OTHER_KEY,
    PLANT_NO_BOUND,
    PLANT_OLD_FACTOR,
} plant;

/* One of the plans of a world, and what its chunks are made of. */
typedef struct cluster_plan {
    tarry_plan *plan;
    uint8_t units[MAX_CHUNKS][MAX_CHUNKS]; /* [chunk][original chunk]: its units, a bit each */
} cluster_plan;

typedef enum item_type {
    ITEM_COMPUTED,
    ITEM_ENCODED,
    ITEM_CLEAR,
    ITEM_COMBINE,
    ITEM_START,
    ITEM_JOIN,
    ITEM_SAVE,
    ITEM_REPLAN,  /* the server goes on with another plan, unless a round runs */
    ITEM_TURN,    /* a worker that heard of it has prepared itself */
    ITEM_REDUCED, /* these four: the end of a worker's task */
    ITEM_FETCHED,
    ITEM_LOADED,
    ITEM_STEPPED,
    ITEM_LOGGED, /* an entry of the server's log is written */
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
    ITEM_PART_WORKERS, /* two workers, for a while; where everyone gets the sum */
} item_type;

/* Something that happens at a time. */
typedef struct cluster_item {
    uint64_t time, sequence;
    item_type type;
    uint32_t worker;
    uint32_t connection, plan, turn; /* TURN: over which one it heard of the plan, and in which */
    uint64_t token;   /* COMPUTED: the computation; ENCODED: the worker's life; a task's end: it */
    tarry_sum_id sum; /* a task's end, LOGGED */
    uint32_t from;    /* REDUCED: whom the engine suspects; FETCHED, LOADED */
    uint32_t machine; /* ENCODED: which one of the worker's machines began it */
    uint64_t round;
    uint32_t attempt, stripe, slot;
    double scale; /* COMBINE */
    bool failed;
    random_stream details; /* of a fault */
    uint32_t size;
    uint8_t frame[FRAME_BYTES];
    coded part;
} cluster_item;

/* What travels with a frame as its body. One without a message says that the server goes on with
 * the plan, or that the worker has turned to it. */
typedef struct cargo {
    uint32_t plan;          /* the server's, or the one in question */
    uint32_t parameters;    /* the server's */
    uint32_t preparing;     /* of the plan: how long that takes */
    uint32_t turn;          /* of the plan: as in READY (wire.h) */
    union {                 /* as far as the body goes */
        coded part;         /* of a PART */
        seen_parcel parcel; /* of a ROUND that has one */
    };
} cargo;

/* The truth: chunks whose gradients a worker has really computed, by arrival, round and parameters.
 */
typedef struct cluster_record {
    uint32_t epoch;
    uint32_t parameters;
    uint32_t plan; /* the server's */
    uint64_t round;
    uint32_t made; /* chunks, a bit each */
} cluster_record;

/* What the server keeps for a worker that turns to another plan. */
typedef struct held_frame {
    uint32_t size;
    uint8_t bytes[FRAME_BYTES];
} held_frame;

typedef struct cluster_node {
    tarry_worker *machine; /* NULL: not running */
    uint32_t machines;     /* so far */
    uint32_t plan, cut;    /* of its machine; whose spans it goes by: the same */
    uint32_t holds;        /* its chunks by that plan, a bit each */
    bool preparing;        /* itself for the plan `next`, */
    uint32_t next, turn;   /* which it was told in this turn */
    codec_shape shape;     /* by the machine's plan */
    bool returning;        /* a JOIN is under way */
    uint64_t life;
    uint64_t token; /* of the computation in progress; 0: none */
    uint64_t paused_until, slow_until;
    uint64_t last_up, last_down; /* arrivals of the last messages, for links in order */
    uint32_t slowness;           /* times the time to compute, 1..10 */
    uint32_t
        open; /* TARRY_KEEP_CREDITED: finished, neither folded nor dropped; chunks, a bit each */
    double sum[MAX_CHUNKS];   /* the same: how often each chunk is in the running sum */
    double times[MAX_CHUNKS]; /* by the last ROUND: how often it is to be */
    cluster_record present;   /* what the last ROUND it accepted said, and what it made since */
    uint32_t failed, barred;  /* of that round: chunks, a bit each */
    uint32_t at;              /* the chunk in progress, as a bit; 0: none */
    bool encodes;             /* a stripe */
    bool computes;            /* may go on with open chunks: not told to stop */
    uint32_t heard;           /* the newest attempt of which it was told by more than news */
    bool turning;             /* to the server's plan, as far as the server knows */
    uint32_t turns;           /* plans that the server told it */
    uint32_t held_count;
    held_frame held[MAX_HELD];
    cluster_record records[MAX_RECORDS]; /* the latest, in a ring */
    uint32_t record_count;
    replica replica; /* where everyone gets the sum */
    feedback_stripe stripes[MAX_STRIPES];
    seen_node seen;
} cluster_node;

/* What happened in a world, or in several. All are counts, which add up, but for `longest`. */
typedef struct world_counts {
    uint64_t worlds, steps, faults, rounds, exact, failed;
    uint64_t attempts;                  /* after the first of a round */
    uint64_t late, silent;              /* workers passed over, and given up */
    uint64_t made_up, called_back;      /* late ones that others made up for; that returned */
    uint64_t restarts, replans, turned; /* of the server; of the plan; workers that turned */
    uint64_t evolved;                   /* rounds exact with a changed plan */
    uint64_t planned[MODEL_CODING + 1]; /* faults at a time, by the server's phase */
    uint64_t longest;                   /* round, in thousandths of its bound */
    uint64_t residuals, voids;          /* of parts that stood; thrown away */
    uint64_t changes, wholes, cuts, brought_up; /* of views */
    uint64_t secure, repeated, second_lives;    /* sums; of them, those of repeated attempts */
    uint64_t torn;                              /* those where one was told other terms */
    uint64_t commits, returns, fetches, loads, differing; /* where everyone gets the sum */
    uint64_t rounded; /* attempts in another form than float32 */
} world_counts;

typedef struct cluster_job {
    uint64_t seed;
    uint32_t run;
    tarry_sum_place sum;
    bool secure;               /* worlds whose sums are secure alone */
    const fault_list *allowed; /* NULL: all */
    plant planted;
    bool settles; /* after its rounds faults end, and everyone gets the last state */
    void (*trace)(void *user, const char *line);            /* NULL: none */
    void (*watch)(void *user, const struct cluster *world); /* after each event; NULL: none */
    void *user;
} cluster_job;

typedef struct cluster {
    /* kept from run to run */
    tarry_allocator allocator;
    memory_network *network;
    cluster_plan plans[MAX_PLANS]; /* of the worlds plan_seed, plan_group */
    uint32_t plan_count;           /* of these, made so far */
    bool last_plan;                /* nothing follows on them */
    uint64_t plan_seed;
    uint32_t plan_group;
    bool plan_secure;

    cluster_job job;
    const tarry_plan *plan; /* the server's */
    uint32_t number;        /* of that one */
    uint32_t newest;        /* that there was in this world */
    codec_shape shapes[MAX_WORKERS];
    draws draws;
    tarry_server_settings settings;
    uint32_t workers, rounds;
    uint32_t stripes; /* of a part */
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
    bool notices;        /* the server will, that a worker closes its connection */
    uint64_t disturbed;  /* until when the last fault lasted */
    uint32_t parted;     /* workers that the server gave up in this step, a bit each */
    uint64_t idle_since; /* somebody rested that had work to do; TARRY_NEVER: nobody did */
    uint64_t server_paused_until, last_sum;
    uint32_t rounds_done;
    uint64_t aborted; /* what rounds_done is while the round runs that is to be aborted */
    bool calm, over;  /* no fault strikes any more; the run has ended for good */
    uint64_t rest;    /* since when no round runs */
    size_t count;     /* of items */

    /* The server's: counts its lives, each of which has its own; where everyone gets the sum, the
     * number of the log's state. */
    uint32_t parameters;
    uint8_t checkpoint[CHECKPOINT_BYTES];
    size_t checkpoint_size;
    uint32_t saved_plan;
    uint64_t saved_round;
    uint32_t saved_epochs[MAX_WORKERS];

    coded inbox[MAX_WORKERS][MAX_STRIPES]; /* parts that the server took */
    double estimate[MAX_STRIPES][MAX_CHUNKS * GRAIN][MAX_PARTS][MAX_PARTS]; /* per unit */
    /* The same of the round before's gradients. */
    double filling[MAX_STRIPES][MAX_CHUNKS * GRAIN][MAX_PARTS][MAX_PARTS];
    uint32_t summed[MAX_STRIPES]; /* workers in the estimate since it was cleared */

    feedback_books feedback;
    seen_world seen;
    secure_world secure;

    /* where everyone gets the sum */
    bool everywhere;
    uint32_t transfer_time; /* the longest without a fault: of a sum, a fetch, a load, a step */
    double engine_faults, transfer_faults, flips;
    sum_log log;
    bool has_saved;
    history saved; /* the vectors' checkpoint */
    uint64_t parted_until[MAX_WORKERS][MAX_WORKERS];
    uint32_t attempt_count; /* of `attempts`, ever */
    ballots votes;

    /* the outcome */
    const char *broken; /* the invariant that does not hold; NULL: none */
    char why[LINE_BYTES];
    world_counts counts; /* but for worlds, faults and rounds */
    uint32_t wrong_sums; /* where everyone gets the sum; */
    uint32_t flipped;    /* and steps after which parameters were wrong */

    cluster_item items[MAX_ITEMS];      /* these last two are not cleared for a new world */
    sum_attempt attempts[MAX_ATTEMPTS]; /* the latest, in a ring */
} cluster;

/* Adds what happened in the world that was run last. */
void world_counts_add(world_counts *all, const cluster *world);

/* Room for one world at a time. Errors: NO_MEMORY. */
int cluster_create(const tarry_allocator *allocator, cluster **out);
void cluster_free(cluster *it); /* NULL is allowed */

/*
 * Runs one world to its end or to the first broken invariant, which `it` names afterwards, with the
 * faults that struck in it->draws.struck. Each CLUSTER_PLAN_RUNS neighbouring runs have one plan:
 * making it takes longer than they do. Errors: NO_MEMORY.
 */
int cluster_run(cluster *it, const cluster_job *job);

static inline bool cluster_samples(const cluster *it)
{
    return it->settings.sample_chunks > 0;
}

static inline bool cluster_planted(const cluster *it, plant wanted)
{
    return it->job.planted == wanted;
}

/* cluster.c. Adds an item; the caller fills in what its type needs. */
cluster_item *cluster_add(cluster *it, uint64_t time, item_type type, uint32_t worker);
void cluster_remove(cluster *it, size_t index);
void cluster_note(cluster *it, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A fault ends now or at a time to come: until then, and for a while after, rounds may last. */
/* No fault strikes from now on, everyone comes back, and a few more rounds follow. */
void cluster_calm_down(cluster *it);
void cluster_disturb(cluster *it, uint64_t until);

/* cluster_setup.c. Draws everything about a world, and plans its faults. Errors: NO_MEMORY. */
int cluster_set_up(cluster *it);
/* How long a round may last, with the present plan. */
void cluster_find_bound(cluster *it);

/* Units of all the data. */
static inline uint32_t cluster_units(const cluster *it)
{
    return tarry_plan_origins(it->plan) * GRAIN;
}

/* cluster_plans.c */
/* Sees to the first plan of the world's group. Errors: NO_MEMORY. */
int cluster_first_plan(cluster *it, const tarry_plan_settings *settings);
/* Sees to the plan of that number, which is at most one above those made; *there: whether there is
 * one. Errors: NO_MEMORY. */
int cluster_later_plan(cluster *it, uint32_t number, bool *there);
/* The plan is the server's from now on. */
void cluster_take_plan(cluster *it, uint32_t number);
void cluster_free_plans(cluster *it);
/* The plan of the worker's machine. */
static inline const tarry_plan *cluster_plan_of(const cluster *it, uint32_t worker)
{
    return it->plans[it->nodes[worker].plan].plan;
}

/* cluster_replan.c */
/* Between two rounds: perhaps the plan changes before the next one, which starts at `start`. */
void cluster_plan_change(cluster *it, uint64_t start);
/* Errors: NO_MEMORY. */
int cluster_replan(cluster *it, cluster_item *due);
void cluster_hear_plan(cluster *it, uint32_t worker, uint32_t connection, const cargo *told);
/* Errors: NO_MEMORY. */
int cluster_turn(cluster *it, const cluster_item *due);
void cluster_hear_ready(cluster *it, uint32_t worker, uint32_t connection, const cargo *told);
/* A worker that turns hears of a round once it has; of one that is over, nothing. */
void cluster_hold(cluster *it, uint32_t worker, const tarry_message *message);
/* A round is over: where its parameters come from the coordinator nobody hears of it any more. */
void cluster_drop_held(cluster *it);

/* cluster_links.c */
/* The shape of messages to the worker by the plan. */
codec_shape cluster_shape(const cluster *it, const tarry_plan *plan, uint32_t worker);
void cluster_note_message(cluster *it, const char *where, uint32_t worker,
                          const tarry_message *message);
/* memory_rules.carry and .notice; `user` is the cluster. */
void cluster_carry(void *user, uint32_t from, uint32_t to, const transport_frame *frame);
uint64_t cluster_notice(void *user, uint32_t from, uint32_t to);
/* Messages to the server, with the part if it is a PART, else NULL; and to a worker. */
void cluster_send_up(cluster *it, uint32_t worker, const tarry_message *message, const coded *part);
void cluster_send_down(cluster *it, uint32_t worker, const tarry_message *message);
/* Sends the cargo of a frame without a message, from TRANSPORT_COORDINATOR or a worker. */
void cluster_send_plan(cluster *it, uint32_t from, uint32_t to, const cargo *told);
/* The end of the event polls it: it happens. */
void cluster_poll(cluster *it, uint32_t to);
static inline bool cluster_connected(const cluster *it, uint32_t worker)
{
    return memory_network_connected(it->network, worker);
}
/* Whether what the event is about came over the worker's present connection. */
static inline bool cluster_is_present(const cluster *it, uint32_t worker, uint32_t connection)
{
    return cluster_connected(it, worker) &&
           memory_network_connection(it->network, worker) == connection;
}

/* cluster_worker.c */
/* `sent`: what came with a message, else NULL. */
void cluster_step_worker(cluster *it, uint32_t worker, const tarry_event *event, const cargo *sent);
void cluster_computed(cluster *it, const cluster_item *done);
void cluster_encoded(cluster *it, const cluster_item *done);
/* Whether a message says what to compute: news of a fate alone don't. */
static inline bool cluster_says_order(const cluster *it, const tarry_message *message)
{
    return message->type == TARRY_MESSAGE_ROUND || message->type == TARRY_MESSAGE_RESUME ||
           (message->type == TARRY_MESSAGE_NEWS &&
            (message->sequence != 0 || it->settings.pick == TARRY_PICK_PLAN));
}
/* A set of positions of the worker's order by the plan as chunks, a bit each; NULL is empty. */
uint32_t cluster_chunks_of(const tarry_plan *plan, uint32_t worker, const uint64_t *positions);
/* What `worker` has made in (epoch, round) with the parameters and the plan; chunks, a bit each. */
uint32_t cluster_made(const cluster *it, uint32_t worker, uint32_t epoch, uint64_t round,
                      uint32_t parameters, uint32_t plan);

void cluster_crash(cluster *it, uint32_t worker, bool noticed, random_stream *details);
void cluster_cut(cluster *it, uint32_t worker, bool noticed, random_stream *details);
/* The worker is connected; a machine is made for it if it has none of the server's plan. Errors:
 * NO_MEMORY. */
int cluster_connect(cluster *it, uint32_t worker);
/* Makes the worker's machine for the plan; the one before is no more. Errors: NO_MEMORY. */
int cluster_make_machine(cluster *it, uint32_t worker, uint32_t plan);
void cluster_disconnect(cluster *it, uint32_t worker, bool noticed);
/* Who knows that it was left out comes back. */
void cluster_come_back(cluster *it, uint32_t worker);
/* Comes back within `most`, if it is not about to. */
void cluster_return_later(cluster *it, uint32_t worker, uint32_t most, random_stream *details);

/* cluster_server.c */
int cluster_make_server(cluster *it);
/* `part` comes with a PART, else NULL. */
void cluster_step_server(cluster *it, const tarry_event *event, const coded *part);
void cluster_save(cluster *it);
/* Errors: NO_MEMORY; there is no server then. */
int cluster_restart_server(cluster *it, random_stream *details);

/* feedback.c; nothing but with feedback */
/* Whether this world has it. */
void feedback_draw(cluster *it);
/* The worker encodes a part of the stripe: its numbers. */
void feedback_encode(cluster *it, uint32_t worker, uint64_t round, uint32_t stripe, coded *part);
/* It hears of fates, or is no more. */
void feedback_settle(cluster *it, uint32_t worker, const tarry_effect *effect);
void feedback_forget(cluster *it, uint32_t worker);
void feedback_restart(cluster *it); /* of the server */
/* A part is added to the estimate; a stripe of it is zero; all of it is the round's sum. */
void feedback_add(cluster *it, uint32_t worker, uint32_t stripe, const coded *part);
void feedback_clear(cluster *it, uint32_t stripe);
void feedback_round_over(cluster *it);

/* seen.c; nothing in worlds without views */
/* Whether this world has them. Errors: NO_MEMORY. */
int seen_draw(cluster *it);
void seen_end(cluster *it);
/* The server's view is made before a round; what is on its way when it is over may be lost. */
void seen_begin_round(cluster *it);
void seen_end_round(cluster *it);
/* What goes with a ROUND. */
void seen_send(cluster *it, uint32_t worker, uint64_t round, seen_parcel *parcel);
/* A frame is there. Gives back whether its message is, too. */
bool seen_receive(cluster *it, uint32_t worker, const transport_event *sent);
/* The worker is no more. */
void seen_forget(cluster *it, uint32_t worker);
/* The worker encodes what it has computed in the round. */
void seen_check(cluster *it, uint32_t worker, uint64_t round);
void seen_save(cluster *it);
/* Errors: NO_MEMORY. */
int seen_restart(cluster *it);

/* secure.c; nothing where sums are not secure */
/* Whether this world's are, and what goes with that. */
void secure_draw(cluster *it);
void secure_end(cluster *it);
/* A number of the chunk's gradient, in the round, with the parameters and the plan of a record. */
float secure_number(const cluster *it, const cluster_record *of, uint32_t chunk, uint32_t index);
/* The worker's process has keys from now on. Errors: NO_MEMORY. */
int secure_connect(cluster *it, uint32_t worker);
/* It counts in this epoch, as the server says. */
void secure_arrive(cluster *it, uint32_t worker, uint32_t epoch);
/* The worker is about to hear the message, and hears the keys that it needs for it before. */
void secure_hear(cluster *it, uint32_t worker, const tarry_message *message);
/* It folds the chunk's gradient; it encodes a stripe. */
void secure_fold(cluster *it, uint32_t worker, uint32_t chunk, bool begins);
void secure_encode(cluster *it, uint32_t worker, const tarry_effect *effect, secure_part *part);
/* A part is added to the estimate; a stripe of it is zero; all of it is the round's sum. */
void secure_add(cluster *it, uint32_t worker, uint32_t stripe, const secure_part *part);
void secure_clear(cluster *it, uint32_t stripe);
void secure_round_over(cluster *it);

/* cluster_sum.c */
/* What a step's effects say of the estimate. */
void cluster_add_up(cluster *it, const tarry_effects *effects);
/* The coded part of `done`, of its attempt's scale, becomes part of its stripe. */
void cluster_add_part(cluster *it, const cluster_item *done);
void cluster_clear_estimate(cluster *it, uint32_t stripe);
void cluster_combine(cluster *it, const cluster_item *done);
/* What is not carried out yet never is. */
void cluster_drop_sums(cluster *it);

#endif
