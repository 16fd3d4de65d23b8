/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything random in a world. Each kind of draw has its own stream at each worker, and each
 * chance for a fault one of its own, so that a world without one of its faults is the same world
 * otherwise, as far as that fault did not change it: a failure can be shrunk by leaving faults out.
 * Whole numbers and comparisons alone: a seed means the same on every machine.
 */
#ifndef WORLDS_DRAWS_H
#define WORLDS_DRAWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/random.h"
#include "worlds/model/model.h"

typedef enum draw_kind {
    DRAW_SETUP,
    DRAW_DELAY_UP,
    DRAW_DELAY_DOWN,
    DRAW_COMPUTE,
    DRAW_ENCODE,
    DRAW_SUM,
    DRAW_BREAK,   /* between rounds */
    DRAW_NOTICE,  /* until a broken connection is noticed */
    DRAW_HEARD,   /* bytes of a message that come before it */
    DRAW_ENGINE,  /* sums, fetches, loads, steps and the log, where everyone gets the sum */
    DRAW_TROUBLE, /* what becomes of a sum when somebody who makes it is gone */
    DRAW_SEEN = DRAW_TROUBLE + 2, /* views of the parameters; the number between was another's */
    DRAW_KINDS,
} draw_kind;

typedef enum fault_kind {
    FAULT_PLANNED,   /* at a time: crashes, cuts, pauses, restarts of the server ... */
    FAULT_ABSENT,    /* the worker never comes, or late */
    FAULT_DUPLICATE, /* a message comes in again, perhaps much later */
    FAULT_OVERTAKE,  /* a message overtakes another one */
    FAULT_STRAY,     /* a message of a connection that is gone comes in all the same */
    FAULT_FAILURE,   /* a chunk can't be computed */
    FAULT_HOLD,      /* a stripe is held up while it is encoded and sent */
    FAULT_ENCODING,  /* while it is, the worker crashes, is cut off, or the server restarts */
    FAULT_REPLAN,    /* the plan changes between two rounds */
    FAULT_ENGINE,    /* a sum among workers fails, hangs, or has other bits at one of them */
    FAULT_TRANSFER,  /* a fetch or a load does */
    FAULT_FLIP,      /* a bit of a worker's parameters changes as it steps */
    FAULT_KINDS,
} fault_kind;

/* The ordinal-th chance for a fault of the kind at the worker. */
typedef struct fault {
    fault_kind kind;
    uint32_t worker;
    uint32_t ordinal;
} fault;

enum { MAX_FAULTS = 1024 };

typedef struct fault_list {
    fault items[MAX_FAULTS];
    size_t count;
} fault_list;

typedef struct draws {
    uint64_t seed;
    uint32_t run;
    random_stream streams[DRAW_KINDS][MAX_WORKERS];
    uint32_t chances[FAULT_KINDS][MAX_WORKERS]; /* so far */
    const fault_list *allowed;                  /* NULL: all faults */
    fault_list struck;                          /* as far as it has room */
} draws;

/* The draws of the run-th world of `seed`, in which no faults but the allowed ones strike; NULL
 * allows all. */
void draws_init(draws *it, uint64_t seed, uint32_t run, const fault_list *allowed);

/* What a group of worlds has in common; and how its plan changes for the index-th time. */
random_stream draws_of_group(uint64_t seed, uint32_t group);
random_stream draws_of_change(uint64_t seed, uint32_t group, uint32_t index);

/* Uniform in least..most. */
uint32_t draws_between(draws *it, draw_kind kind, uint32_t worker, uint32_t least, uint32_t most);
bool draws_chance(draws *it, draw_kind kind, uint32_t worker, double probability);

/* Whether a fault strikes here; *details is then the stream of what it is like. */
bool draws_fault(draws *it, fault_kind kind, uint32_t worker, double probability,
                 random_stream *details);

/* The same of a stream. */
uint32_t stream_between(random_stream *stream, uint32_t least, uint32_t most);
bool stream_chance(random_stream *stream, double probability);

#endif
