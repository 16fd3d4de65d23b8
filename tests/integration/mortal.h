/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers as processes that are killed, stopped or cut off at places that a test names, where
 * everyone gets the sum. The places are passed in the library's own functions, which the linker
 * wraps. Each worker works out each sum serially before it steps on it, and holds its bits, and
 * those of its state, to what others had at that step; what differs is told as a complaint.
 *
 * A program that uses it hands its arguments to mortal_main first, and is linked with the
 * `mortal_wraps` of meson.build.
 */
#ifndef TEST_MORTAL_H
#define TEST_MORTAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarry/event.h>

enum { MORTAL_MOST = 8, MORTAL_STEPS = 1 << 15, MORTAL_TEXT = 160 };

/* Where it happens. */
typedef enum mortal_place {
    MORTAL_NOWHERE,
    MORTAL_PREPARES,  /* a job */
    MORTAL_COMPUTES,  /* a chunk */
    MORTAL_ENCODED,   /* its coded part, and begins a sum */
    MORTAL_PART,      /* in a sum: a block of a coded part comes in, over a connection */
    MORTAL_SUM,       /* in a sum: a block of another's share of it comes in, the same */
    MORTAL_SUMMED,    /* it has the whole sum, and nobody knows */
    MORTAL_HELD,      /* the server logs the sum that it holds */
    MORTAL_STEPS_NOW, /* COMMIT has come */
    MORTAL_STEPPED,   /* and nobody knows */
    MORTAL_FETCHES,   /* a piece of a sum that it had lost comes in */
    MORTAL_LENDS,     /* another asks for the sum that it holds */
    MORTAL_LOADS,     /* a piece of a state comes in */
    MORTAL_LOADED,    /* the state is whole, and put in the place of its own */
    MORTAL_SAVES,     /* its own state is copied for another */
    MORTAL_SENDS,     /* a piece of its sum or state goes out */
    MORTAL_PLACES,
} mortal_place;

extern const char *const mortal_place_names[MORTAL_PLACES];

typedef enum mortal_fate { MORTAL_DIES, MORTAL_STOPS, MORTAL_CUT, MORTAL_FATES } mortal_fate;

/* Of one worker. Both sides use it at any time. */
typedef struct mortal_slot {
    _Atomic uint32_t place;  /* it happens there, NOWHERE: nothing does, */
    _Atomic uint32_t passes; /* at this passage from now on, from 1 */
    _Atomic uint32_t fate;
    _Atomic uint32_t next;   /* CUT: where it dies then, NOWHERE: it lives */
    _Atomic uint32_t draw;   /* CUT: which of its connections */
    _Atomic uint32_t struck; /* the place at which something has happened last */
    _Atomic uint64_t step;   /* its state is after that */
    _Atomic uint64_t cuts;
} mortal_slot;

/* Memory of the test and all its workers. */
typedef struct mortal_area {
    uint32_t workers, chunks;
    uint64_t dimension;
    bool tls, shares;
    double rounding;               /* of a number on its way, as a share of the largest */
    char address[128], folder[64]; /* of the server; of the credentials */
    _Atomic int32_t licences;      /* so many may still die or stop: the first who come there */
    mortal_slot slots[MORTAL_MOST];
    _Atomic bool complained;
    char complaint[MORTAL_TEXT];
    struct {
        _Atomic uint64_t sum, state; /* digests; 0: nobody has been there yet */
    } steps[MORTAL_STEPS];
} mortal_area;

/* ---- the test's side ---- */

typedef struct mortals {
    mortal_area *area;
    int file;
    pid_t pids[MORTAL_MOST]; /* 0: it does not run */
    bool stopped[MORTAL_MOST];
} mortals;

/* Whether the own death or stop is the next one that may happen. */
bool mortal_is_licensed(mortal_area *area);
void mortals_begin(mortals *its, uint32_t workers, uint32_t chunks, uint64_t dimension);
/* Asserts that nobody has complained. */
void mortals_check(const mortals *its);
/* All that run have ended by themselves, with success; gives the memory back. */
void mortals_end(mortals *its);
void mortals_spawn(mortals *its, uint32_t worker);
/* What is to happen to a worker. */
typedef struct mortal_plan {
    mortal_place place;
    uint32_t passes;
    mortal_fate fate;
    mortal_place next;
    uint32_t draw;
} mortal_plan;

/* From now on. HELD is not for being cut. */
void mortals_arm(mortals *its, uint32_t worker, const mortal_plan *plan);
/* Nothing happens any more. */
void mortals_disarm(mortals *its, uint32_t worker);
/* For the server's log: a sum is in it; the step does not count any more, and may be taken anew. */
void mortals_log(mortals *its);
void mortals_forget(mortals *its, uint64_t step);
/* Whether the worker has ended since, or has been stopped; asserts that nothing else ended it than
 * SIGKILL. Does not wait. */
bool mortals_is_dead(mortals *its, uint32_t worker);
bool mortals_is_stopped(mortals *its, uint32_t worker);
void mortals_continue(mortals *its, uint32_t worker);
void mortals_kill(mortals *its, uint32_t worker);
/* Those that run, stopped ones too. */
uint32_t mortals_alive(const mortals *its);

/* ---- the program ---- */

/* A worker's process ends in here; the test's goes on. */
void mortal_main(int count, char **arguments);

#endif
