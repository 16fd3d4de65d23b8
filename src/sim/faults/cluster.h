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
 *   cluster_links.c   messages on their way
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
 *   model_rule.c      the stop rule, and limits that are raised
 *   model_plan.c      what goes by the plan: bytes of messages, the next plan's server
 *   invariants.c      what must hold, checked at every step
 *   invariants_absence.c  the same of workers that are left out
 *   invariants_limit.c  the same of limits that are raised
 *   invariants_order.c  the same of dynamic orders
 *   invariants_sample.c  the same of what is sampled
 *   invariants_sum.c  the same of the estimate
 *   feedback.c        what rounding loses of coded parts
 *   seen.c            views of the parameters
 *   secure.c          secure sums: keys, rings and masks; and invariants_secure.c
 *   everywhere.h      what there is more where everyone gets the sum
 *
 * A world has its own small queue, in memory that is taken once: messages with their frames and
 * coded parts are its entries, and are looked through for duplicates and for sums to be settled.
 */
#ifndef SIM_FAULTS_CLUSTER_H
#define SIM_FAULTS_CLUSTER_H

#include <tarry/worker.h>

#include "protocol/wire/codec.h"
#include "protocol/wire/codec_round.h"
#include "sim/faults/draws.h"
#include "sim/faults/everywhere.h"
#include "sim/faults/model/model.h"
#include "sim/faults/secure.h"
#include "sim/faults/seen.h"

enum {
    MAX_ITEMS = 2048,
    MAX_RECORDS = 128,
    FRAME_BYTES = CODEC_HEADER_BYTES + CODEC_TERM_BYTES + CODEC_LIMIT_BYTES + CODEC_STATE_BYTES +
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
    PLANT_USUAL_LIMIT,        /* a worker encodes with the usual limit, whatever the signal says */
    PLANT_KEEP_SPANS,         /* a worker's chunks stay what they were in the first plan */
    PLANT_SUM_OTHER_PLAN,     /* what came in under the plan before is summed in a part's place */
    PLANT_OLD_ORDERS,         /* what was said under the plan before reaches who has turned */
    /* in forms of coded parts with feedback: */
    PLANT_COMMIT_LATE,  /* a worker takes each of its parts for one that stands */
    PLANT_COMMIT_NONE,  /* a worker takes none of its parts for one that stands */
    PLANT_KEEP_UNKNOWN, /* a residual whose fate nobody tells is kept */
    PLANT_KEEP_UNDONE,  /* residuals outlive the server */
    PLANT_VOID_TOLD,    /* what stands is thrown away */
    /* with views of the parameters: */
    PLANT_FORGET_CUT,  /* what was cut off passes as received */
    PLANT_BEND_VIEW,   /* a bit of a change is wrong at a worker */
    PLANT_KEEP_VIEW,   /* a worker computes with the view before */
    PLANT_FORGET_VIEW, /* a restarted server begins a new view */
    /* where chunks are sampled: */
    PLANT_OTHER_SAMPLE, /* a worker takes another chunk for sampled */
    PLANT_ADD_ONCE,     /* what was sampled counts once, whatever its chance was */
    /* where everyone gets the sum: */
    PLANT_COMMIT_FIRST, /* the server hears that an entry of its log is written before it is */
    PLANT_ONE_HOLDER,   /* who failed to get the sum passes as one that holds it */
    PLANT_LOSE_HOLDER,  /* who holds it passes as one that failed */
    PLANT_LATE_LOAD,    /* what a load brings comes again, later */
    PLANT_LATE_ENGINE,  /* a sum that was abandoned ends all the same */
    PLANT_SUM_IN_PLACE, /* a sum that failed leaves its numbers in the coded part */
    PLANT_ANY_DIGEST,   /* sums with other bits pass as the same */
    PLANT_SUM_AGAIN,    /* what stands of a sum is summed again */
    PLANT_TELL_MORE,    /* the server hears of more that stands than is there */
    PLANT_NO_STATES,    /* nobody hears of the workers' parameters */
    PLANT_NO_LIMIT,     /* an attempt that nobody answers goes on */
    PLANT_NO_PAUSE,     /* attempts that fail follow each other at once, and without a bound */
    PLANT_KEEP_PART,    /* another attempt sums what was encoded for the one before */
    PLANT_OTHER_SHAPE,  /* a worker sums in another shape than the others */
    PLANT_KEEP_EXACT,   /* who sums a share keeps it as it was before it was rounded for others */
    PLANT_ROUND_HOPS,   /* numbers that are rounded are summed in a tree */
    /* where sums are secure: */
    PLANT_KEEP_KAPPA,    /* a second life has the keys of the first, and masks are for the round */
    PLANT_MASK_AGAIN,    /* a part is encoded again with another content, for the same kappa */
    PLANT_STALE_GROUP,   /* a worker masks for what the signal before named */
    PLANT_NAME_ANOTHER,  /* the server names another holder of a chunk than it credits */
    PLANT_BEND_HOLDERS,  /* a worker hears of another holder than the server said */
    PLANT_FORGET_STRIPE, /* masks don't depend on the length of stripes */
    PLANT_COUNT_STRIPES, /* each stripe counts its own clamped numbers */
    /* in the form whose factor all share: */
    PLANT_OLD_FACTOR, /* a worker encodes with the factor of the round before */
} plant;

/* One of the plans of a world, and what its chunks are made of. */
typedef struct cluster_plan {
    tarry_plan *plan;
    uint8_t units[MAX_CHUNKS][MAX_CHUNKS]; /* [chunk][original chunk]: its units, a bit each */
} cluster_plan;

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
    ITEM_REPLAN,  /* the server goes on with another plan, unless a round runs */
    ITEM_PLAN,    /* a worker hears of it */
    ITEM_TURN,    /* it has prepared itself */
    ITEM_READY,   /* the server hears that it has turned */
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
    uint32_t connection; /* messages, HEARD, LOST, PLAN, TURN, READY */
    uint32_t parameters; /* ROUND: which parameters travel with it */
    uint32_t plan;       /* TO_WORKER: the server's; PLAN, TURN, READY: the one in question */
    uint32_t preparing;  /* PLAN: how long that takes */
    uint64_t token;   /* COMPUTED: the computation; ENCODED: the worker's life; a task's end: it */
    tarry_sum_id sum; /* a task's end, LOGGED */
    uint32_t from;    /* REDUCED: whom the engine suspects; FETCHED, LOADED */
    uint32_t machine; /* ENCODED: which one of the worker's machines began it */
    uint64_t round;
    uint32_t attempt, parts, stripe, slot;
    double scale; /* COMBINE */
    bool failed;
    random_stream details; /* of a fault */
    uint32_t size;
    uint8_t frame[FRAME_BYTES];
    coded part;
    seen_parcel parcel; /* TO_WORKER */
} cluster_item;

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
    bool preparing;        /* itself for the plan `next` */
    uint32_t next;
    codec_shape shape; /* by the machine's plan */
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
    double sum[MAX_CHUNKS];   /* the same: how often each chunk is in the running sum */
    double times[MAX_CHUNKS]; /* by the last ROUND: how often it is to be */
    cluster_record present;   /* what the last ROUND it accepted said, and what it made since */
    uint32_t failed, barred;  /* of that round: chunks, a bit each */
    uint32_t at;              /* the chunk in progress, as a bit; 0: none */
    bool computes;            /* may go on with open chunks: not told to stop */
    uint32_t heard;           /* the newest attempt of which it was told by more than news */
    bool turning;             /* to the server's plan, as far as the server knows */
    uint32_t held_count;
    held_frame held[MAX_HELD];
    cluster_record records[MAX_RECORDS]; /* the latest, in a ring */
    uint32_t record_count;
    replica replica; /* where everyone gets the sum */
    feedback_stripe stripes[MAX_STRIPES];
    seen_node seen;
} cluster_node;

typedef struct cluster_job {
    uint64_t seed;
    uint32_t run;
    tarry_sum_place sum;
    bool secure;               /* worlds whose sums are secure alone */
    const fault_list *allowed; /* NULL: all */
    plant planted;
    void (*trace)(void *user, const char *line); /* NULL: none */
    void *user;
} cluster_job;

typedef struct cluster {
    /* kept from run to run */
    tarry_allocator allocator;
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
    uint64_t steps;
    uint64_t longest; /* of a round, from its start or the last fault on, in thousandths of bound */
    uint32_t commits, returns, loads, fetches, wrong_sums; /* where everyone gets the sum */
    uint32_t pieces;                                       /* attempts of which something stood */
    uint32_t rounded_sums;                                 /* whose numbers are rounded */
    uint32_t flipped,
        differing; /* steps after which parameters were wrong; workers found to differ */
    uint32_t exact_rounds, failed_rounds, extra_attempts, passed_over, made_up, called_back,
        given_up, restarts;
    uint32_t raised_rounds;   /* whose estimate has stripes of a raised limit */
    uint32_t parted_rounds;   /* with more parts than the plan's least */
    uint32_t changed_parts;   /* attempts with another number of parts than the one before */
    uint64_t waits;           /* steps in which the signal was put off for more parts */
    uint32_t replans, turned; /* changes of the plan; workers that turned where they were */
    uint32_t evolved_exact;   /* exact rounds with chunks that are not the original ones */
    uint32_t planned[MODEL_CODING + 1]; /* faults that struck, by the phase that they struck in */

    cluster_item items[MAX_ITEMS];      /* these last two are not cleared for a new world */
    sum_attempt attempts[MAX_ATTEMPTS]; /* the latest, in a ring */
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

static inline bool cluster_samples(const cluster *it)
{
    return it->settings.sample_chunks > 0;
}

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
void cluster_hear_plan(cluster *it, const cluster_item *due);
/* Errors: NO_MEMORY. */
int cluster_turn(cluster *it, const cluster_item *due);
void cluster_hear_ready(cluster *it, const cluster_item *due);
/* A worker that turns hears of a round once it has; of one that is over, nothing. */
void cluster_hold(cluster *it, uint32_t worker, const tarry_message *message);

/* cluster_links.c */
/* The shape of messages to the worker by the plan. */
codec_shape cluster_shape(const cluster *it, const tarry_plan *plan, uint32_t worker);
void cluster_note_message(cluster *it, const char *where, uint32_t worker,
                          const tarry_message *message);
/* Puts a message on the link of `worker`, perhaps twice. `part` belongs to a PART, else NULL. */
void cluster_transmit(cluster *it, item_type direction, uint32_t worker,
                      const tarry_message *message, const coded *part);
/* When what is sent now arrives. reorder: it may overtake what was sent before. */
uint64_t cluster_arrival(cluster *it, item_type direction, uint32_t worker, bool reorder);
void cluster_deliver_to_server(cluster *it, cluster_item *sent);
void cluster_deliver_to_worker(cluster *it, const cluster_item *sent);

/* cluster_worker.c */
/* `sent`: with a message, what brought it, else NULL. */
void cluster_step_worker(cluster *it, uint32_t worker, const tarry_event *event,
                         const cluster_item *sent);
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
/* It is there. Gives back whether its message is, too. */
bool seen_receive(cluster *it, const cluster_item *sent);
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
/* The coded part of `done`, of its attempt's parts and scale, becomes part of its stripe. */
void cluster_add_part(cluster *it, const cluster_item *done);
void cluster_clear_estimate(cluster *it, uint32_t stripe);
void cluster_combine(cluster *it, const cluster_item *done);
/* What is not carried out yet never is. */
void cluster_drop_sums(cluster *it);

#endif
