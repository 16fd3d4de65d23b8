/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the worker's machine share:
 *   worker.c         rounds: what is computed, reported, encoded
 *   worker_vote.c    sums among workers
 *   worker_secure.c  what it refuses, where sums are secure
 *   worker_create.c  its memory
 */
#ifndef PROTOCOL_WORKER_STATE_H
#define PROTOCOL_WORKER_STATE_H

#include <tarry/worker.h>

#include "base/bitset.h"
#include "coding/coefficients.h"
#include "coding/layout.h"
#include "protocol/vote/member.h"
#include "protocol/worker/fates.h"

struct tarry_worker {
    tarry_allocator allocator;
    const tarry_plan *plan;
    tarry_worker_settings settings;
    uint32_t load;
    uint32_t stripes; /* of the least number of parts: the most */

    uint32_t epoch; /* of the last ROUND; 0: none came yet */
    uint64_t round;
    uint32_t attempt;
    uint32_t heard; /* the newest attempt whose signal, if there is one for this worker, came */
    uint32_t parts; /* of this attempt */
    bool active;    /* the round is not over */
    bool stopped;   /* signalled: no chunk is begun until RESUME or the next round */
    bool computing; /* a COMPUTE is in progress, of `slot` */
    bool encoding;  /* an ENCODE is in progress */
    bool outdated;  /* it was begun for another signal than the last one */
    uint32_t slot;
    uint16_t sequence;  /* counts what this arrival said of its chunk in progress */
    uint16_t told;      /* the sequence of what the server said last of `first` and `barred` */
    uint32_t term;      /* with TARRY_KEEP_CREDITED: signals and recalls heard of in this round */
    uint32_t most_open; /* copies whose fate is not known; no chunk is begun while so many are */
    uint32_t open_count;
    bool summing;        /* something is folded */
    uint64_t *done;      /* a bit per position; the other sets lie behind it */
    uint64_t *open;      /* a bit per position: finished, the fate is not known */
    uint64_t *folded;    /* a bit per position */
    uint64_t *previous;  /* the same, of the round before; empty unless its gradients are kept */
    uint64_t *failed;    /* a bit per position: impossible, or not sampled */
    uint64_t *first;     /* a bit per position: to be computed before the others */
    uint64_t *barred;    /* a bit per position: no copy is wanted */
    uint64_t *pending;   /* a bit per stripe: to be encoded for this attempt */
    uint64_t *stale;     /* a bit per position: this attempt takes the gradient of the round before
                          */
    float *weights;      /* per position: what the gradient counts with in this round's sum */
    bool weighted;       /* not all of them are 1 */
    float *coefficients; /* load x parts of this attempt; room for the plan's */
    struct coefficients *work;
    fates residuals; /* of its stripes; none without feedback */

    /* Secure sums; else NULL */
    uint32_t *holders; /* per chunk: as this attempt's signal says */
    uint32_t *lives;   /* per worker of the plan: the same; behind `holders` */
    bool refused;      /* the server has broken a rule: nothing is done any more */

    /* TARRY_SUM_EVERYWHERE */
    member vote;
    bool arrived;     /* it was asked, and no ROUND came since */
    bool contributes; /* its part of this attempt is not zeros */
    uint64_t *group;  /* a bit per worker of the plan: those of this attempt */
    double scale;     /* of it */
    tarry_shape shape;
    tarry_sum_id piece; /* that stands of its sum, as the signal says */
    uint64_t whole;
    uint32_t piece_from;

    tarry_effect *items;
    size_t capacity;
    tarry_effects effects;
    struct worker_shared *own; /* has `items`, `group` and `work`; NULL: somebody else's has */
};

static inline bool worker_keeps_credited(const tarry_worker *worker)
{
    return worker->settings.keep == TARRY_KEEP_CREDITED;
}

static inline bool worker_sums_everywhere(const tarry_worker *worker)
{
    return worker->settings.sum == TARRY_SUM_EVERYWHERE;
}

static inline uint32_t worker_stripes(const tarry_worker *worker, uint32_t parts)
{
    return layout_make(worker->settings.dimension, parts, worker->settings.stripe_length).stripes;
}

/* worker.c */
/* Adds an effect of the type, all else zero. */
tarry_effect *worker_emit(tarry_worker *worker, tarry_effect_type type);
int worker_reject(tarry_worker *worker, tarry_reject why);
/* Begins the next chunk, if there is one and nothing stands against it. */
void worker_compute_next(tarry_worker *worker);
/* Drops what is barred, begins what comes next, and tells the server if that changed anything:
 * what it knows of this worker may be older. */
void worker_go_on(tarry_worker *worker);
/* No chunk is begun until RESUME or the next round, and the one in progress is dropped. */
void worker_stop(tarry_worker *worker);
/* What the arrival before was told and has done is nothing to this one. */
void worker_arrive(tarry_worker *worker, uint32_t epoch);

/* worker_secure.c */
static inline bool worker_is_secure(const tarry_worker *worker)
{
    return worker->settings.secure != 0;
}
/* The rule that the signal breaks, or the round; a worker whose sums are not secure has one rule:
 * to be told nothing of holders. */
tarry_refusal worker_secure_judge(const tarry_worker *worker, const tarry_message *message);
/* Takes over whose copies are summed; nothing where sums are not secure. */
void worker_secure_take(tarry_worker *worker, const tarry_message *signal);
/* Ends all that is in progress, and says why. */
int worker_refuse(tarry_worker *worker, tarry_refusal refusal);

/* worker_vote.c */
/* ASK, BREAK, FETCH, LOAD, COMMIT. */
int worker_vote_order(tarry_worker *worker, const tarry_message *order);
/* REDUCED, FETCHED, LOADED, STEPPED. */
int worker_vote_ended(tarry_worker *worker, const tarry_event *event);
/* Whether the signal is one for a sum among workers that this one is among, or none for a sum at
 * the server, and may come now; what it ends is ended then. */
bool worker_vote_signalled(tarry_worker *worker, const tarry_message *signal, tarry_reject *why);
/* All is encoded: the sum begins, if it is made among workers. */
void worker_vote_reduce(tarry_worker *worker);
/* The attempt is over without this worker's sum. */
void worker_vote_end(tarry_worker *worker);
static inline bool worker_steps(const tarry_worker *worker)
{
    return worker->vote.task == MEMBER_STEPS;
}

#endif
