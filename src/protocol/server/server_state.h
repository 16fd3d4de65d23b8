/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's state, and what its files do for each other:
 *   server.c           creation, and which event goes where: it calls the others. Encode signals,
 *                      coded parts and the end of a round; what the server sends and tells; whose
 *                      copies a secure sum has; which coded parts stand in the sum, for forms with
 *                      feedback; sums among workers
 *   server_start.c     the beginning of a round, and the chunks that it samples; probes and time
 *                      limits; coded parts that are late; what stands in for the chunks that a stop
 *                      rule leaves missing; what a restarted server has to know
 *   server_progress.c  workers coming and going, reports, what is still possible; the stop rule;
 *                      the fates of copies that workers don't keep until the signal; what the
 *                      server of another plan takes over
 *   steering.h         dynamic orders, in a folder of their own
 * Handlers only change the state; server_advance then decides what follows from it.
 */
#ifndef PROTOCOL_SERVER_STATE_H
#define PROTOCOL_SERVER_STATE_H

#include <tarry/server.h>

#include "base/bitset.h"
#include "coding/coefficients.h"
#include "coding/layout.h"
#include "plan/plan.h"
#include "protocol/steering/estimate.h"
#include "protocol/steering/pace.h"
#include "protocol/steering/recent.h"
#include "protocol/steering/steering.h"
#include "protocol/vote/vote.h"
#include "protocol/wire/codec.h"

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
    layout cut;          /* of a gradient into parts */
    uint32_t stripes;    /* of a part */
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
    /* What stands in for these three in a question; server_start.c */
    coverage *supposed;
    coverage *supposed_stale;
    uint32_t *supposed_possible;
    uint32_t *recall_term; /* per slot: reports of it from before are old; NULL: all is kept */
    uint32_t *news;        /* the workers that news are due for */
    uint32_t news_count;
    uint64_t *hopeless;      /* a bit per chunk: can't be recovered any more */
    uint32_t hopeless_count; /* of these */
    uint32_t able;           /* workers that are present and not excluded */
    uint32_t busy;           /* of these, how many have chunks neither finished nor failed */
    uint32_t whole;          /* of these, how many have finished all their chunks */
    uint32_t capable;        /* of these, how many have failed no chunk */

    /* the attempt */
    bool broken;               /* a participant is gone before its parts were complete */
    double attempt_missing;    /* the error of psi without its fill, as stop rules see it */
    double attempt_left;       /* of it, what is not filled with stale gradients either */
    double attempt_error;      /* what psi and its fill promise */
    double attempt_filled;     /* the share that stale gradients fill */
    double attempt_scale;      /* the estimate's factor */
    bool attempt_exact;        /* the same: every chunk recovered */
    uint64_t attempt_start_ns; /* when the signal went out */
    uint64_t late_ns;          /* when to look for late workers; TARRY_NEVER: not at all */
    uint32_t asked;            /* stripes that the signal asked for */
    uint64_t first_stripe_ns;  /* when the first of anyone came in; TARRY_NEVER before */
    uint32_t delivered;        /* participants whose parts are complete */
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

/* Sends a message of this round; the caller adds what the type needs. */
tarry_effect *server_send(tarry_server *server, uint32_t worker, tarry_message_type type);
/* Says that the round goes on without the worker, before that is carried out. */
void server_left_out(tarry_server *server, uint32_t worker, tarry_absence reason,
                     uint64_t waited_ns, uint64_t limit_ns);
/* Ignores the event. Gives back TARRY_OK: a peer's fault is not the caller's. */
int server_reject(tarry_server *server, uint32_t worker, tarry_reject why);

/* What ROUND and FINISH say of the last round that is over. */
void server_stood_tell(const tarry_server *server, uint32_t worker, tarry_message *message);
/* What stands is what stood with the plan before, of which `from` is the server: a worker that was
 * away may know that plan alone, and come back when it is used again. NULL, or another number of
 * stripes: all that was given out before is of another life of the server. */
void server_stood_begin_life(tarry_server *server, const tarry_server *from);

/* server_progress.c */
/*
 * tarry_plan_evolve with what the server has learned between two rounds: paces, the median where a
 * worker's is not known, and costs; absent workers are gone. Paces and costs of `limits`
 * are not read. The caller owns *next. Errors: as tarry_plan_evolve.
 */
int server_evolve(const tarry_server *server, const tarry_plan_evolution *limits,
                  const tarry_allocator *allocator, tarry_plan **next, tarry_plan_changes *changes,
                  tarry_diagnostic *diagnostic);

/* server_start.c */
int server_start(tarry_server *server, uint64_t now);

/* server_progress.c */
/* The round can count on the worker from here on; it has nothing yet. */
void server_enlist(tarry_server *server, uint32_t worker);
/* Gives back the message, valid as long as the step's effects. */
tarry_message *server_send_round(tarry_server *server, uint64_t now, uint32_t worker);
/* A copy of `chunk` has come or gone, or can't come any more. */
void server_review_chunk(tarry_server *server, uint32_t chunk);
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

/* server_progress.c, for TARRY_KEEP_CREDITED */
static inline bool server_keeps_credited(const tarry_server *server)
{
    return server->settings.keep == TARRY_KEEP_CREDITED;
}

/* A round begins: sets who is behind. */
void server_vote_start(tarry_server *server);

/* server_start.c */
/*
 * Poisson sampling of chunks: before a round each chunk is drawn with the chance p, by itself, and
 * its gradient g_i counts 1/p times. The mean of the sum over draws is sum_i g_i, and its variance
 * (1/p - 1) sum_i |g_i|^2. True if the chunk is drawn in the round: a function of these and the
 * seed.
 */
bool sampling_draws(uint64_t seed, uint64_t round, uint32_t chunk, double chance);
int server_sample_allocate(tarry_server *server, const tarry_allocator *allocator);
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

/* The worker has arrived anew: nothing is left of what it had finished. */
void server_fill_forget(tarry_server *server, uint32_t worker);
/* The round can't count on the worker any more. */
int server_fill_retire(tarry_server *server, uint32_t worker);
/* What the attempt that begins now promises. */
void server_fill_attempt(tarry_server *server);
/* As coverage_view, with psi and, where there may be one, `stale` as in TARRY_MESSAGE_SIGNAL. */
bool server_fill_view(const tarry_server *server, uint32_t worker, uint64_t *psi, uint64_t *stale);

/* server_progress.c */
/* Whether the stop rule holds for what is credited, or says to go on with what there is. */
bool server_rule_holds(const tarry_server *server, const server_standing *stands, uint64_t now);
/* Whether server_advance would do nothing while workers compute, where that can be told at once;
 * false says nothing. */
bool server_only_waits(const tarry_server *server);

/* server_start.c */
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
/*
 * A worker that has been silent for a quarter of the limit is asked whether it is there; one that
 * does not answer within the limit is given up. Looking an eighth of the limit apart finds both
 * soon enough.
 */
enum { SERVER_QUIET_FRACTION = 4, SERVER_SWEEP_FRACTION = 8 };
/* Probes the silent, gives up those who did not answer,
 * and passes over late ones where that costs nothing. */
int server_watch(tarry_server *server, uint64_t now);

/* server_start.c */
/* Another part is complete: sets when to look for late ones. */
void server_await_parts(tarry_server *server, uint64_t now);
/* Whether the round can do without the worker and be as good. */
int server_late_can_spare(tarry_server *server, uint64_t now, uint32_t worker, bool *can);
/* This round continues without the worker, as late. */
int server_late_exclude(tarry_server *server, uint64_t now, uint32_t worker, uint64_t limit);
/* How long after the signal a worker may take, by what is known;
 * TARRY_NEVER if that is too little. */
uint64_t server_late_limit_ns(const tarry_server *server);

#endif
