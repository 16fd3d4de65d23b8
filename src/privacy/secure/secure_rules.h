/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of an encode signal before a worker masks anything for it. */
#ifndef PRIVACY_SECURE_SECURE_RULES_H
#define PRIVACY_SECURE_SECURE_RULES_H

#include <stdbool.h>
#include <stdint.h>

/* A signal, as the worker `id` got it. Arrays are borrowed. */
typedef struct secure_signal {
    uint32_t workers, chunks;
    const uint32_t *holders; /* pi: per chunk, the worker that it is taken from */
    const uint32_t *lives;   /* per worker: its epoch; 0: not in S */
    /* The plan's views of who holds what (plan.h): holder_worker[chunk_offset[i]] ..
     * [chunk_offset[i + 1] - 1] are the holders of chunk i, slot_chunk[worker_offset[j]] ..
     * [worker_offset[j + 1] - 1] the chunks of worker j. */
    const uint32_t *chunk_offset, *holder_worker, *worker_offset, *slot_chunk;
    uint32_t id, epoch; /* the worker itself, in its present life */
    /* Whether it has the chunk's gradient of this round in its sum. */
    bool (*has)(const void *user, uint32_t chunk);
    const void *user;
} secure_signal;

/* Which rule a signal breaks: the first of these. */
typedef enum secure_rule {
    SECURE_RULE_NONE,
    SECURE_RULE_HOLDER,   /* a chunk is taken from a worker that does not hold it */
    SECURE_RULE_AWAY,     /* a chunk is taken from a worker that is not in S */
    SECURE_RULE_IDLE,     /* a member of S is taken no chunk from */
    SECURE_RULE_LIFE,     /* the worker itself is in S with another life */
    SECURE_RULE_MISSING,  /* the worker is said to have a chunk that is not in its sum */
    SECURE_RULE_LEFT_OUT, /* the worker has a chunk in its sum that is taken from another one */
} secure_rule;

/* Takes time as the edges of the plan. A worker that is not in S has nothing to send. */
secure_rule secure_rules_check(const secure_signal *signal);

/* One sentence on the rule, without a full stop; static. */
const char *secure_rule_text(secure_rule rule);

#endif
