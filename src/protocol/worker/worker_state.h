/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker's machine share. */
#ifndef PROTOCOL_WORKER_STATE_H
#define PROTOCOL_WORKER_STATE_H

#include <tarry/worker.h>

#include "base/bitset.h"
#include "coding/coefficients.h"
#include "coding/layout.h"

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
    uint64_t *open;      /* a bit per position: finished, the fate is not known */
    uint64_t *folded;    /* a bit per position */
    uint64_t *done;      /* a bit per position */
    uint64_t *previous;  /* the same, of the round before; empty unless its gradients are kept */
    uint64_t *failed;    /* a bit per position */
    uint64_t *first;     /* a bit per position: to be computed before the others */
    uint64_t *barred;    /* a bit per position: no copy is wanted */
    uint64_t *pending;   /* a bit per stripe: to be encoded for this attempt */
    uint64_t *stale;     /* a bit per position: this attempt takes the gradient of the round before
                          */
    float *coefficients; /* load x parts of this attempt; room for the plan's */
    struct coefficients *work;

    tarry_effect *items;
    size_t capacity;
    tarry_effects effects;
};

static inline bool worker_keeps_credited(const tarry_worker *worker)
{
    return worker->settings.keep == TARRY_KEEP_CREDITED;
}

static inline uint32_t worker_stripes(const tarry_worker *worker, uint32_t parts)
{
    return layout_make(worker->settings.dimension, parts, worker->settings.stripe_length).stripes;
}

#endif
