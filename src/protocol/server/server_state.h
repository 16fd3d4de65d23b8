/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's state, and what its files do for each other:
 *   server_effects.c   what the server sends and tells, and what of it counts
 *   server_progress.c  workers coming and going, reports, what is still possible
 *   server_start.c     the beginning of a round
 *   server_attempt.c   encode signals, coded parts, the end of a round
 *   server_keep.c      the fates of copies that workers don't keep until the signal
 *   server_sample.c    the chunks that a round samples
 *   server_secure.c    whose copies a secure sum has
 *   server_limit.c     the conditioning limit of one signal
 *   server_fill.c      what stands in for the chunks that a stop rule leaves missing
 *   server_liveness.c  probes and time limits
 *   server_late.c      coded parts that are late
 *   server_vote.c      sums among workers
 *   server_stood.c     which coded parts stand in the sum, for forms with feedback
 *   server_parts.c     the stop rule, and the number of parts with which it is met best
 *   steering.h         dynamic orders, in files of their own
 *   checkpoint.c       what a restarted server has to know
 *   adopt.c            what the server of another plan takes over
 *   server.c           creation, and which event goes where: it calls all of these
 * Handlers only change the state; server_advance then decides what follows from it.
 */
#ifndef PROTOCOL_SERVER_STATE_H
#define PROTOCOL_SERVER_STATE_H

#include <tarry/server.h>

#include "base/bitset.h"
#include "coding/coverage.h"
#include "coding/layout.h"
#include "plan/plan.h"
#include "protocol/server/choose_parts.h"
#include "protocol/steering/estimate.h"
#include "protocol/steering/pace.h"
#include "protocol/steering/recent.h"
#include "protocol/steering/steering.h"
#include "protocol/upload.h"
#include "protocol/vote/vote.h"
#include "protocol/wire/codec.h"
#include "route/route_learn.h"

typedef enum server_phase {
    SERVER_IDLE,      /* between rounds */
    SERVER_COMPUTING, /* workers compute, the stop rule does not hold yet */
    SERVER_CODING,    /* signalled: coded parts are coming in */
} server_phase;

/* What the server knows of one worker. */
typedef struct server_member {
    bool present;  /* joined and not lost */
    bool excluded; /* this round's sums do without it: too late, or can't earn whole credit any more
                    */
    bool behind;   /* TARRY_SUM_EVERYWHERE: it is not enlisted, as it has not the last state */
    bool stopped;  /* told not to compute: by SIGNAL or FINISH, since the last ROUND or RESUME */
    bool reported; /* has finished a chunk in this round, perhaps in an earlier epoch */
    bool overdue;  /* of this attempt's parts: its would be there later than another attempt's */
    bool late;     /* was left out of this round as late, perhaps in an earlier epoch */
    bool put_off;  /* excluded for that alone: it is called back before the round is given up */
    bool participant;     /* has copies in the attempt's psi */
    bool overheard;       /* a probe was settled without an answer, which may still come */
    uint32_t epoch;       /* counts its arrivals */
    uint32_t epoch_end;   /* the last epoch that the newest stored checkpoint reserved;
                             UINT32_MAX: none was stored */
    uint32_t finished;    /* chunks reported as finished in this round, and those not sampled: */
    uint32_t spared;      /* so many */
    uint32_t failed;      /* chunks reported as impossible in this round */
    uint32_t parts_due;   /* stripes of this attempt that have not come in */
    uint32_t term;        /* signals and recalls sent in this round */
    uint32_t signal_term; /* reports from before this one are void */
    bool news_due;
    bool recalled;   /* a dropped copy is wanted after all: the next news say so */
    bool reordered;  /* was told what to compute first in this round: all further news repeat it */
    tarry_fate fate; /* of the copy at fate_slot, to be told */
    uint32_t fate_slot;
    uint64_t begun_ns;  /* when this round was sent to it */
    uint64_t first_ns;  /* when its first report of this round came in */
    uint64_t ended_ns;  /* when its last one did; begun_ns before that */
    uint64_t since_ns;  /* when it began what it is at; TARRY_NEVER: it has nothing left to do */
    pace pace;          /* per chunk; TARRY_PICK_PLAN, else the steering knows it */
    uint64_t heard_ns;  /* when it last sent anything */
    uint64_t signal_ns; /* when this attempt's signal went to it */
    uint64_t stripe_ns; /* when a stripe of its part last came in, in this attempt */
    uint64_t probe_ns;  /* when the unanswered probe was sent; TARRY_NEVER if there is none */
} server_member;

/* What the stop rule goes by: the round as it stands, or as it would stand without some workers. */
typedef struct server_standing {
    const coverage *credited;
    const coverage *stale; /* NULL without TARRY_FILL_STALE */
    const uint32_t *possible;
    uint32_t busy, whole;
} server_standing;

/* What chunks count with in this round, 0: not sampled; NULL without sample_chunks. */
typedef struct server_sample {
    float *weights;      /* per chunk */
    float *slot_weights; /* the same per slot */
} server_sample;

struct tarry_server {
    tarry_allocator allocator;
    const tarry_plan *plan;
    tarry_server_settings settings;
    uint32_t stripes;    /* of the plan's least number of parts: the most */
    codec_shape *shapes; /* per worker */

    bool restored; /* from a checkpoint, and no new one was taken */
    server_phase phase;
    uint64_t round; /* that runs, or the next one when idle */
    uint32_t attempt;
    server_member *members;
    recent *answers;    /* per worker: times from a probe to the answer */
    uint64_t *done;     /* a bit per slot: reported as finished */
    uint64_t *failed;   /* a bit per slot: reported as impossible */
    coverage *credited; /* copies that count: psi, as it would be if the signal went out now */
    uint64_t *previous; /* TARRY_FILL_STALE, else NULL: a bit per slot: finished in the round
                           before, by a worker that is there since */
    coverage *stale;    /* the same copies */
    uint32_t *possible; /* per chunk: copies that are there or may still come */
    /* What stands in for these three in a question; server_late.c */
    coverage *supposed;
    coverage *supposed_stale;
    uint32_t *supposed_possible;
    uint32_t *recall_term; /* per slot: reports of it from before are old; NULL: all is kept */
    uint32_t *news;        /* the workers that news are due for */
    uint32_t news_count;
    uint64_t *hopeless;      /* a bit per chunk: can't be recovered any more */
    uint32_t hopeless_count; /* of these */
    uint64_t *ill;           /* a bit per chunk: all copies are in, and a raised limit alone makes
                                their rank full */
    uint32_t ill_count;      /* of these */
    uint32_t able;           /* workers that are present and not excluded */
    uint32_t busy;           /* of these, how many have chunks neither finished nor failed */
    uint32_t whole;          /* of these, how many have finished all their chunks */
    uint32_t capable;        /* of these, how many have failed no chunk */

    /* the choice of parts, server_parts.c */
    upload_line upload;    /* how long attempts took, that began from scratch */
    estimate cover_time;   /* from a round's start to its first signal, less way_time, by its number
                              of parts */
    estimate way_time;     /* what a round's announcement and a first report take to come */
    uint32_t aim;          /* copies of each chunk that this round is likely to need */
    uint64_t ready_ns;     /* when the stop rule was first met in this round; or TARRY_NEVER */
    uint32_t ready_parts;  /* with how many parts then */
    uint64_t look_ns;      /* if the server waits for more parts: when to look again, */
    uint32_t looked_parts; /* and with how many the rule was met at the last look; 0: none */
    double *foreseen_ns;   /* chunks x parts: when the next copies are likely to come */
    parts_prospect *prospects; /* one per number of parts */

    /* the attempt */
    layout cut;                  /* into the parts of the attempt */
    bool from_scratch;           /* no stripe was complete when it began */
    bool broken;                 /* a participant is gone before its parts were complete */
    double attempt_missing;      /* the error of psi without its fill, as stop rules see it */
    double attempt_left;         /* of it, what is not filled with stale gradients either */
    double attempt_error;        /* what psi and its fill promise */
    double attempt_filled;       /* the share that stale gradients fill */
    double attempt_scale;        /* the estimate's factor */
    tarry_shape attempt_shape;   /* of the sum among workers */
    route_learner routes;        /* what the sums before say of the next one's */
    bool attempt_exact;          /* the same: every chunk recovered */
    bool attempt_raised;         /* the signal's limit was raised: */
    double attempt_conditioning; /* largest 1/sigma_min of a chunk then, else 0 */
    double attempt_bound;        /* of the rounding error, as in tarry_round_result; the same */
    uint64_t attempt_start_ns;   /* when the signal went out */
    uint64_t late_ns;            /* when to look for late workers; TARRY_NEVER: not at all */
    uint32_t asked;              /* stripes that the signal asked for */
    uint64_t first_stripe_ns;    /* when the first of anyone came in; TARRY_NEVER before */
    uint32_t delivered;          /* participants whose parts are complete */
    uint32_t participants;
    estimate part_time; /* from the signal to a worker's last stripe */
    uint64_t *received; /* a bit per (worker, stripe) */
    uint32_t *awaited;  /* per stripe: parts to come */
    uint32_t *unsummed; /* per stripe: parts to come or to be combined */
    /* With feedback, else NULL; per worker and stripe: the epoch in which the part was sent that
     * has come in in the attempt, or stands in the stripe if that is complete; 0: none. */
    uint32_t *given;
    uint32_t *stood;   /* the same of the round before; zeros where there was none with this plan */
    uint32_t *life;    /* per worker: its first epoch in this life of the server, or one before */
    uint32_t *holders; /* of secure sums, else NULL: per chunk, as this attempt's signals say */
    uint32_t *lives;   /* the same: per worker */
    uint64_t *complete; /* a bit per stripe: its estimate stands */
    uint32_t complete_count;

    uint64_t *bits;      /* bit sets of outgoing messages: per worker its own region */
    size_t *bits_offset; /* workers + 1, in words: psi, and three sets of positions */

    server_sample sample;
    steering *steering; /* NULL with TARRY_PICK_PLAN */
    vote *vote;         /* NULL with TARRY_SUM_SERVER */
    bool vote_due;      /* who takes part in the round may have changed */
    uint64_t now_ns;    /* of the last step */
    bool vote_waits;    /* adopted: workers are asked when the next round begins */

    uint64_t sweep_ns;  /* next look at silent workers */
    bool spared_silent; /* the last look at them came too late to judge */
    bool spared_late;   /* the same for late ones */
    uint64_t idle_ns;   /* when the last round ended */
    double error_sum;   /* of complete stripes: expected error times numbers */
    double filled_sum;  /* of complete stripes: filled share times numbers */
    bool all_exact;     /* of complete stripes */
    tarry_round_result result;

    tarry_effect *items;
    size_t capacity;
    tarry_effects effects;
};

static inline bool member_able(const server_member *member)
{
    return member->present && !member->excluded && !member->behind;
}

static inline server_standing server_stands(const tarry_server *server)
{
    return (server_standing){
        .credited = server->credited,
        .stale = server->stale,
        .possible = server->possible,
        .busy = server->busy,
        .whole = server->whole,
    };
}

/* Nobody has joined, and no round has begun. */
bool server_is_fresh(const tarry_server *server);

/* Numbers in `stripe` of a coded part of this attempt. */
static inline uint64_t server_stripe_numbers(const tarry_server *server, uint32_t stripe)
{
    return layout_stripe_length(&server->cut, stripe);
}

/* server_effects.c */
/* Adds an effect of the type for the worker, all else zero. */
tarry_effect *server_emit(tarry_server *server, tarry_effect_type type, uint32_t worker);
/* Sends a message of this round; the caller adds what the type needs. */
tarry_effect *server_send(tarry_server *server, uint32_t worker, tarry_message_type type);
/* Says that the round goes on without the worker, before that is carried out. */
void server_left_out(tarry_server *server, uint32_t worker, tarry_absence reason,
                     uint64_t waited_ns, uint64_t limit_ns);
/* Ignores the event. Gives back TARRY_OK: a peer's fault is not the caller's. */
int server_reject(tarry_server *server, uint32_t worker, tarry_reject why);
/* Counts the step's messages: their sets are known now, and FINISH belongs to the round that it
 * ends. */
void server_count_sent(tarry_server *server);

/* server_stood.c; nothing but with feedback */
int server_stood_allocate(tarry_server *server, const tarry_allocator *allocator);
/* What came in of stripes that are not complete is void. */
void server_stood_open(tarry_server *server);
/* The part of the open attempt that the worker sent in `epoch` has come in. */
void server_stood_take(tarry_server *server, uint32_t worker, uint32_t stripe, uint32_t epoch);
/* The round is over, with a sum or without one. */
void server_stood_finish(tarry_server *server, bool good);
/* What ROUND and FINISH say of the last round that is over. */
void server_stood_tell(const tarry_server *server, uint32_t worker, tarry_message *message);
/* All that was given out before is of another life of the server, or, with the next plan, what
 * `from` says; NULL: a restart. */
void server_stood_begin_life(tarry_server *server, const tarry_server *from);

/* server_start.c */
int server_start(tarry_server *server, uint64_t now);

/* server_progress.c */
/* The round can count on the worker from here on; it has nothing yet. */
void server_enlist(tarry_server *server, uint32_t worker);
/* Gives back the message, valid as long as the step's effects. */
tarry_message *server_send_round(tarry_server *server, uint64_t now, uint32_t worker);
/* A copy of `chunk` has come or gone, or can't come any more. */
void server_review_chunk(tarry_server *server, uint32_t chunk);
int server_joined(tarry_server *server, uint64_t now, uint32_t worker);
int server_lost(tarry_server *server, uint64_t now, uint32_t worker);
/* The worker stays connected; this round continues without it. */
int server_exclude(tarry_server *server, uint64_t now, uint32_t worker);
int server_report(tarry_server *server, uint64_t now, uint32_t worker,
                  const tarry_message *message);

static inline uint32_t server_load(const tarry_server *server, uint32_t worker)
{
    return server->plan->worker_offset[worker + 1] - server->plan->worker_offset[worker];
}
static inline bool server_has_work(const tarry_server *server, uint32_t worker)
{
    const server_member *member = &server->members[worker];
    return member->finished + member->failed < server_load(server, worker);
}

/* server_keep.c, for TARRY_KEEP_CREDITED */
static inline bool server_keeps_credited(const tarry_server *server)
{
    return server->settings.keep == TARRY_KEEP_CREDITED;
}
/* Whether a report of a finished chunk is of a copy that the worker has dropped since by itself:
 * void, as if it had not been computed. The worker may not send it again. */
bool server_voids(tarry_server *server, uint32_t worker, const tarry_message *report);
/* Decides on the copy at `slot` of a worker that this round counts on. */
int server_settle(tarry_server *server, uint32_t worker, uint32_t slot);
/* Tells the other holders of the chunk at `slot` that dropped their copies to compute it again: the
 * worker's own is gone, and nobody is credited with it. */
void server_recall(tarry_server *server, uint32_t worker, uint32_t slot);

/* server_news.c: the one place in which NEWS and RESUME are composed. */
/* News are due for the worker: before it is sent anything else, or at the end of the step. */
void server_news_due(tarry_server *server, uint32_t worker);
/* Sends the news that are due. */
void server_send_news(tarry_server *server);
/* Sends the worker news, with all that is due but what a dynamic order has to say, which the caller
 * adds. */
tarry_message *server_news(tarry_server *server, uint32_t worker);
/* Tells the worker to go on, what is missing first. */
void server_send_resume(tarry_server *server, uint64_t now, uint32_t worker);

/* server_attempt.c */
int server_part(tarry_server *server, uint64_t now, uint32_t worker, const tarry_message *message);
int server_combined(tarry_server *server, const tarry_event *event);
/* Carries out what follows from the state: signal, new attempt, end of the round. */
int server_advance(tarry_server *server, uint64_t now);
/* Complete stripes don't stand any more: another number of parts is chosen. */
void server_give_up_stripes(tarry_server *server);
/* Ends the round, with TARRY_OK or why there is no estimate. */
void server_finish(tarry_server *server, uint64_t now, int error);

/* All stripes are there, as the attempt promised. */
void server_complete(tarry_server *server);

/* server_vote.c: TARRY_SUM_EVERYWHERE; without it these do nothing */
int server_vote_create(tarry_server *server, const tarry_allocator *allocator);
/* A round begins: sets who is behind. */
void server_vote_start(tarry_server *server);
/* STATE, HELD, FAILED; LOGGED. */
int server_vote_say(tarry_server *server, uint64_t now, uint32_t worker,
                    const tarry_message *message);
int server_vote_logged(tarry_server *server, const tarry_event *event);
/* Carries out what follows for the vote, before server_advance does for the round. */
int server_vote_follow(tarry_server *server, uint64_t now);
/* And after it: asks those whom it has let in again. */
void server_vote_give_due(tarry_server *server);
/* Whether an attempt may begin now. */
bool server_vote_may_begin(const tarry_server *server);
/* Whether somebody may still be enlisted without a new arrival. */
bool server_vote_waits_for_more(const tarry_server *server);
/* Opens the vote of an attempt, of those who are ready; only with a vote. */
void server_vote_open(tarry_server *server);
/* Whether the attempt's signal goes to the worker, as one that votes. */
bool server_vote_signals(const tarry_server *server, uint32_t worker);
/* What a voter's signal says of the sum. */
void server_vote_tell(const tarry_server *server, tarry_message *signal);
/* How long after its signals an attempt to sum among workers may take at all; TARRY_NEVER. */
uint64_t server_vote_limit_ns(const tarry_server *server);
int server_vote_pass_over_late(tarry_server *server, uint64_t now);

/* server_limit.c */
/* A copy of `chunk` has come or gone, or can't come any more. */
void server_review_limit(tarry_server *server, uint32_t chunk);
/* TARRY_STOP_EXACT: whether nothing can come any more that is wanted, and a raised limit gives all
 * chunks. */
bool server_must_raise(const tarry_server *server);
/* How many parts to signal with then: those of the stripes that are complete, else the fewest,
 * whose copies go together best; 0: it must not. */
uint32_t server_raised_parts(tarry_server *server);
/* What the attempt that begins now promises: its limit, then as server_fill_attempt. Errors:
 * NUMERICAL. */
int server_limit_attempt(tarry_server *server);
/* `limit` of the attempt's signals. */
double server_signal_limit(const tarry_server *server);

/* server_sample.c */
int server_sample_allocate(tarry_server *server, const tarry_allocator *allocator);
void server_sample_free(tarry_server *server);
/* A round begins, and nothing is credited yet: draws its chunks. */
void server_sample_start(tarry_server *server);
/* The worker has finished, for all that comes, what was not sampled of its chunks: so many. */
uint32_t server_sample_spare(tarry_server *server, uint32_t worker);
/* What ROUND says of the worker's positions. */
const float *server_sample_weights(const tarry_server *server, uint32_t worker);
static inline float server_weight(const tarry_server *server, uint32_t chunk)
{
    return server->sample.weights != NULL ? server->sample.weights[chunk] : 1;
}
/* Whether the chunk is one of those of the round. */
static inline bool server_takes_part(const tarry_server *server, uint32_t chunk)
{
    return server_weight(server, chunk) > 0;
}

/* server_fill.c */
int server_fill_allocate(tarry_server *server, const tarry_allocator *allocator);
/* A round begins, and the last one's `done` still stands. */
int server_fill_start(tarry_server *server);
/* The worker has arrived anew: nothing is left of what it had finished. */
void server_fill_forget(tarry_server *server, uint32_t worker);
/* The round can't count on the worker any more. */
int server_fill_retire(tarry_server *server, uint32_t worker);
/* Takes a worker's stale copies out of `stale`, which is the server's or stands in for it. */
int server_fill_remove(const tarry_server *server, coverage *stale, uint32_t worker);
/* The share of the sum that is neither recovered nor filled with stale gradients, if the limit is
 * not raised. */
double server_fill_left(const tarry_server *server, const server_standing *stands);
/* What the attempt that begins now promises, its limit being known. */
void server_fill_attempt(tarry_server *server);
/* The copies that the attempt takes `chunk` from: this round's or those of the one before. */
const coverage *server_fill_source(const tarry_server *server, uint32_t chunk);
/* As coverage_view, with psi and, where there may be one, `stale` as in TARRY_MESSAGE_SIGNAL. */
bool server_fill_view(const tarry_server *server, uint32_t worker, uint64_t *psi, uint64_t *stale);

static inline uint32_t server_ended(const server_member *member)
{
    return member->finished + member->failed - member->spared;
}

/* server_parts.c */
layout server_layout(const tarry_server *server, uint32_t parts);
/* The largest number of parts with which the stop rule holds for what is credited now, or that of
 * the least expected error if it holds with whatever there is; 0 if it does not hold. */
uint32_t server_pick_parts(const tarry_server *server, const server_standing *stands, uint64_t now);
/* Whether server_advance would do nothing while workers compute, where that can be told at once;
 * false says nothing. */
bool server_only_waits(const tarry_server *server);
/* How many parts to signal with, given what server_pick_parts gave; 0: waiting is better. */
uint32_t server_settle_parts(tarry_server *server, uint64_t now, uint32_t parts);
/* When to look again whether to go on waiting. */
uint64_t server_next_look(const tarry_server *server);
/* The round's first signal goes out; its last attempt is complete: what is learned of it. */
void server_learn_cover(tarry_server *server, uint64_t now);
void server_learn_upload(tarry_server *server, uint64_t now);
/* A round begins: sets what server_wanted_copies gives. */
void server_aim_parts(tarry_server *server);
/* How many copies of each chunk this round is likely to need, by what was learned, if every further
 * copy takes all workers as long as the first: for orders in which no copy is made unasked. It does
 * not change within a round. */
uint32_t server_wanted_copies(const tarry_server *server);

/* server_liveness.c */
/* A message of the worker's came in; or bytes of it, which are no answer to a probe. */
static inline void server_heard(tarry_server *server, uint64_t now, uint32_t worker)
{
    server_member *member = &server->members[worker];
    member->heard_ns = now;
    if (member->probe_ns != TARRY_NEVER) {
        if (!member->overheard)
            recent_add(&server->answers[worker], now - member->probe_ns);
        member->probe_ns = TARRY_NEVER;
    }
    member->overheard = false;
}
void server_overheard(tarry_server *server, uint64_t now, uint32_t worker);
/* The time between two rounds counts for nobody's silence. */
void server_wake(tarry_server *server, uint64_t now);
/*
 * A worker that has been silent for a quarter of the limit is asked whether it is there; one that
 * does not answer within the limit is given up. Looking an eighth of the limit apart finds both
 * soon enough.
 */
enum { SERVER_QUIET_FRACTION = 4, SERVER_SWEEP_FRACTION = 8 };
/* Probes the silent, gives up those who did not answer,
 * and passes over late ones where that costs nothing. */
int server_watch(tarry_server *server, uint64_t now);
uint64_t server_next_watch(const tarry_server *server);
/* Whether to hear what has come in first, since the look is later than it was due. */
bool server_hears_first(const tarry_server *server, uint64_t now, uint64_t due, bool *spared);

/* server_late.c */
/* Another part is complete: sets when to look for late ones. */
void server_await_parts(tarry_server *server, uint64_t now);
int server_pass_over_late(tarry_server *server, uint64_t now);
/* Workers that this round excluded as late, and that are present, join it as new arrivals. */
int server_call_back_late(tarry_server *server, uint64_t now);
/* Whether the round can do without the worker and be as good. */
int server_late_can_spare(tarry_server *server, uint64_t now, uint32_t worker, bool *can);
/* This round continues without the worker, as late. */
int server_late_exclude(tarry_server *server, uint64_t now, uint32_t worker, uint64_t limit);
/* How long after the signal a worker may take, by what is known;
 * TARRY_NEVER if that is too little. */
uint64_t server_late_limit_ns(const tarry_server *server);

#endif
