/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic orders: which worker computes which chunk, which it computes next, and which workers the
 * server has to tell.
 * steering.c has, from callees to callers: how fast workers are, and what chunks cost; the books:
 * chunks in progress, chunks planned, and what is expected of them; with several parts, copies that
 * go well together; shares that should end at the same time; ROUND, RESUME and NEWS; creation, and
 * what becomes of the books when reports come in and workers come and go.
 *
 * A chunk is planned at a worker that is to compute it, and in progress at one that is at it. As
 * long as copies of a chunk are wanted, as many are in progress or planned, if any worker is left
 * to do it. A worker goes by what it was told last and by protocol/order.h, so that it never waits;
 * the server tells it more only when that would lead it to a chunk that isn't planned for it. The
 * server's view of the chunk in progress is a guess after each news, until the worker's next word.
 */
#ifndef PROTOCOL_STEERING_H
#define PROTOCOL_STEERING_H

#include <tarry/server.h>

#include "coding/coefficients.h"
#include "protocol/steering/pace.h"

/*
 * What chunks cost, relative to each other, learned from how long they took.
 *
 * Each finished copy gives one sample: its time over what its worker was expected to take for a
 * chunk of mean cost. A sample is the chunk's cost times noise: how fast the worker was just then.
 * How much of what chunks seem to differ is noise shows in how much samples of the same chunk
 * differ, and the costs are shrunk towards their mean accordingly (James and Stein, 1961, in its
 * empirical Bayes form): chunks whose costs are new in every round are left alike.
 */

typedef struct chunk_sample {
    double mean;   /* of the samples, the recent ones more than others */
    double weight; /* how many samples it stands for; 0: none yet */
} chunk_sample;

typedef struct chunk_costs {
    uint32_t chunks;
    chunk_sample *samples;
    double squares,
        differences; /* of samples from what was expected of their chunk, and how many */
} chunk_costs;

/* Nothing is known. Errors: NO_MEMORY. */
int chunk_costs_create(chunk_costs *costs, uint32_t chunks, const tarry_allocator *allocator);
void chunk_costs_destroy(chunk_costs *costs, const tarry_allocator *allocator);

/* A copy of `chunk` took `ratio` (>= 0) times as long as one of mean cost should have. */
void chunk_costs_add(chunk_costs *costs, uint32_t chunk, double ratio);
/* Writes the best guess at each chunk's cost to out[0..chunks-1], 1 on average and positive, and
 * lets what is old count less. Between rounds. */
void chunk_costs_settle(chunk_costs *costs, double *out);

typedef struct steering_worker {
    uint32_t current;  /* position in progress; its load: none */
    uint16_t sequence; /* of its newest word */
    uint16_t told;     /* of what it was told last */
    bool dirty;        /* may have to be told something */
    double since_ns;   /* when it began, from the round's start */
    double queue;      /* cost of all that is planned for it */
    pace pace;
} steering_worker;

typedef struct steering {
    steering_worker *workers;
    double *cost; /* per chunk; 1 on average */
    bool given;   /* told by tarry_server_costs, not learned */
    chunk_costs learned;
    uint32_t *by_cost;   /* chunks, the dearest first */
    uint32_t *by_end;    /* scratch: workers, the one that ends last first */
    uint32_t *planned;   /* per chunk: at how many workers */
    uint32_t *computing; /* per chunk: at how many workers it is in progress */
    /* Sets of one bit per position of a worker's order; each worker's begins at set_start[worker].
     */
    size_t *set_start; /* workers + 1 */
    uint64_t *closed;  /* finished or failed */
    uint64_t *plans;   /* planned at this worker */
    uint64_t *first;   /* as told last */
    uint64_t *barred;  /* as told last */
    /* Both as a ROUND and a RESUME of this step carry them, from 4 set_start[worker] on: the other
     * and NEWS may follow in the same step. */
    uint64_t *addressed;
    uint32_t *dirty;
    uint32_t dirty_count;
    double *values; /* scratch: per worker */
    /* scratch of the search for a way, per worker */
    uint32_t *way_queue;
    uint32_t *way_from; /* the worker before; UINT32_MAX: not reached */
    uint32_t *way_edge; /* the slot of the plan, of the worker before, whose chunk passes on */
    const coverage *supposed; /* in a question: what stands in for what is credited, without the
                                 overdue; else NULL */
    coefficients *suit;       /* NULL: any copies go together */
    uint64_t *suit_set;       /* scratch: a bit per holder of a chunk */
    double prior_ns;          /* the median pace; 0: nothing is known */
    uint32_t updates_seen;    /* since the prior was worked out */
    uint64_t tick_ns;         /* when to look at resting workers again; TARRY_NEVER: not at all */
} steering;

struct tarry_server;

/* Takes all memory if the server's settings ask for a dynamic order. Errors: NO_MEMORY. */
int steering_create(tarry_server *server);
void steering_free(tarry_server *server);
/* Takes over what `from`, the server of another plan, learned: paces, and what chunks cost. Errors:
 * NO_MEMORY; nothing changes then. */
int steering_adopt(tarry_server *server, const tarry_server *from);

/*
 * What the rest of the server reports; no-ops with TARRY_PICK_PLAN. `now` is the step's.
 */
/* A round begins; all that are there are enlisted, and nothing is sent yet. */
void steering_start(tarry_server *server);
/* `worker` has arrived anew, and counts its words from 1 again; whether it joins the round or not.
 */
void steering_arrived(tarry_server *server, uint32_t worker);
/* `worker` is there from now on; in the middle of a round it is enlisted already. */
void steering_joined(tarry_server *server, uint64_t now, uint32_t worker);
/* The round continues without `worker`; its copies are not credited any more. */
void steering_retired(tarry_server *server, uint64_t now, uint32_t worker);
/* `worker` finished or failed the chunk at message->slot; coverage knows. */
void steering_report(tarry_server *server, uint64_t now, uint32_t worker,
                     const tarry_message *message);
/* The copy of `worker` at `slot`, which it has dropped, is wanted after all, and whoever was
 * credited with another one retires in the same step; or it was not finished, or failed, after all.
 */
void steering_reopen(tarry_server *server, uint32_t worker, uint32_t slot);
/* `worker` says what it is at. */
void steering_word(tarry_server *server, uint64_t now, uint32_t worker,
                   const tarry_message *message);
/* All were told to stop; an attempt was withdrawn; the round is over. */
void steering_stopped(tarry_server *server, uint64_t now);
void steering_resumed(tarry_server *server, uint64_t now);
void steering_finished(tarry_server *server);
/* Time has passed. */
void steering_watch(tarry_server *server, uint64_t now);
/* Sends a worker news, to which the order is added. */
typedef tarry_message *steering_news(tarry_server *server, uint32_t worker);
/* Sends news to those that would go astray without, composed by `compose`. Comes last in a step. */
void steering_tell(tarry_server *server, uint64_t now, steering_news *compose);
/* Adds what the worker is to do to a ROUND or RESUME, and takes it for told. */
void steering_address(tarry_server *server, uint64_t now, uint32_t worker, tarry_message *message);
/* Adds what the worker is to do to news of a recall, and takes it for told. */
void steering_add(tarry_server *server, uint32_t worker, tarry_message *news);
/* When steering_watch has something to do. */
uint64_t steering_next_watch(const tarry_server *server);

/* ---- between the files of the steering ---- */
/* Copies of `chunk` that are wanted and not finished; of these, neither in progress nor planned. */
uint32_t steering_wanted(const tarry_server *server, uint32_t chunk);
uint32_t steering_missing(const tarry_server *server, uint32_t chunk);

/* steering.c. Plans all that is missing, from nothing. */
void share_all(tarry_server *server, double time);
/* How long the copies that would be missing if only `credited` were there would take those that
 * take part and are not overdue, by what is known; between the signal and a RESUME, when nothing is
 * planned. */
uint64_t steering_repeat_ns(tarry_server *server, uint64_t now, const coverage *credited);

#endif
