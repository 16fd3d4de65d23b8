/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's machine from within. */
#ifndef PROTOCOL_WORKER_STATE_H
#define PROTOCOL_WORKER_STATE_H

#include <tarry/worker.h>

#include "base/bitset.h"
#include "coding/coefficients.h"
#include "coding/layout.h"
#include "compress/compress.h"
#include "protocol/vote/vote.h"
#include "protocol/worker/worker.h"

struct tarry_worker {
    tarry_allocator allocator;
    const tarry_plan *plan;
    tarry_worker_settings settings;
    uint32_t load;
    uint32_t stripes; /* of a part */

    uint32_t epoch; /* of the last ROUND; 0: none came yet */
    uint64_t round;
    uint32_t attempt;
    uint32_t heard; /* the newest attempt whose signal, if there is one for this worker, came */
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
    float *coefficients; /* load x parts */
    struct coefficients *work;
    fates residuals; /* of its stripes; none without feedback */

    /* Secure sums; else NULL */
    uint32_t *holders; /* per chunk: as this attempt's signal says */
    uint32_t *lives;   /* per worker of the plan: the same; behind `holders` */
    bool refused;      /* the server has broken a rule: nothing is done any more */

    /* TARRY_SUM_EVERYWHERE */
    voter vote;
    bool arrived;     /* it was asked, and no ROUND came since */
    bool contributes; /* its part of this attempt is not zeros */
    uint64_t *group;  /* a bit per worker of the plan: those of this attempt */
    double scale;     /* of it */

    tarry_effect *items;
    size_t capacity;
    tarry_effects effects;
    struct worker_shared *own; /* has `items`, `group` and `work`; NULL: somebody else's has */
};

/* True if its coded part is sent in a form with feedback. */
static inline bool worker_feeds_back(const tarry_worker_settings *settings)
{
    return compress_feeds_back(settings->server.compress);
}

static inline bool worker_keeps_credited(const tarry_worker *worker)
{
    return worker->settings.server.keep == TARRY_KEEP_CREDITED;
}

static inline bool worker_sums_everywhere(const tarry_worker *worker)
{
    return worker->settings.server.sum == TARRY_SUM_EVERYWHERE;
}

static inline layout worker_cut(const tarry_worker *worker)
{
    return layout_make(worker->settings.server.dimension, worker->plan->parts,
                       worker->settings.server.stripe_length);
}

static inline bool worker_is_secure(const tarry_worker *worker)
{
    return worker->settings.server.secure != 0;
}

/* True while it steps on a sum, which nothing ends. */
static inline bool worker_steps(const tarry_worker *worker)
{
    return worker->vote.task == VOTER_STEPS;
}

#endif
