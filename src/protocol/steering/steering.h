/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic orders: which worker computes which chunk, which it computes next, and which workers the
 * server has to tell.
 *
 *   steering_books.c   the books: chunks in progress, chunks planned, and what is expected of them
 *   steering_learn.c   how fast workers are, and what chunks cost
 *   steering_suit.c    with several parts: copies that go well together
 *   steering_share.c   shares that should end at the same time
 *   steering.c         creation; what becomes of the books when reports come in and workers come
 *                      and go
 *   steering_tell.c    ROUND, RESUME and NEWS
 *
 * Each calls only those above it.
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

#include "base/bitset.h"
#include "coding/coefficients.h"
#include "coding/coverage.h"
#include "protocol/chunk_costs.h"
#include "protocol/steering/pace.h"

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

/* Nanoseconds from the round's start. */
double steering_time(const tarry_server *server, uint64_t now);
/* The ns per cost that `worker` is expected to take, 1 if nothing is known of anybody. */
double steering_pace(const tarry_server *server, uint32_t worker, double time);
/*
 * How long it should still be at its chunk in progress, and until all planned for it is done. One
 * that is overdue may take as long again as it is overdue (so that help comes once waiting has cost
 * as much as help costs); one that has never finished anything, as long as it has been at it.
 */
double steering_rest_ns(const tarry_server *server, uint32_t worker, double time);
double steering_end_ns(const tarry_server *server, uint32_t worker, double time);
/* Both of what these are made of, in one look. */
typedef struct steering_outlook {
    double pace_ns; /* steering_pace */
    double rest_ns; /* steering_rest_ns */
} steering_outlook;
steering_outlook steering_look(const tarry_server *server, uint32_t worker, double time);
/* The copies that count. */
const coverage *steering_credited(const tarry_server *server);
/* Copies of `chunk` that are wanted and not finished; of these, neither in progress nor planned. */
uint32_t steering_wanted(const tarry_server *server, uint32_t chunk);
uint32_t steering_missing(const tarry_server *server, uint32_t chunk);
/* Whether `worker` takes part, has not closed the position, is not at it, and it isn't planned. */
bool steering_is_free(const tarry_server *server, uint32_t worker, uint32_t slot);
void steering_plan(tarry_server *server, uint32_t worker, uint32_t slot);
void steering_unplan(tarry_server *server, uint32_t worker, uint32_t slot);
void steering_unplan_worker(tarry_server *server, uint32_t worker);
void steering_unplan_all(tarry_server *server);
static inline bool steering_is_planned(const steering *it, uint32_t worker, uint32_t slot)
{
    return bitset_test(it->plans + it->set_start[worker], slot);
}
/* The worker may have to be told something. */
void steering_mark_dirty(tarry_server *server, uint32_t worker);
/* All have been told. */
void steering_clear_dirty(steering *it);
/* What the worker turns to after `current` (its load: at once) by what it was told last. */
uint32_t steering_told_next(const tarry_server *server, uint32_t worker, uint32_t current);
void steering_set_current(tarry_server *server, double time, uint32_t worker, uint32_t slot);

/* The chunk at `slot` of the worker's order. */
uint32_t steering_chunk(const tarry_server *server, uint32_t worker, uint32_t slot);

/* steering_learn.c. What was learned so far holds for a round that begins; what it showed is kept.
 */
void learn_begin_round(tarry_server *server);
void learn_end_round(tarry_server *server);
/* A chunk that took `ns` says something of its worker's pace, and with that of its own cost. */
void learn_time(tarry_server *server, uint32_t worker, uint32_t chunk, double ns);
/* `worker` leaves its chunk in progress without having finished it, nor any other in this round: it
 * takes at least as long as it has been at it. Not while no pace is known: all others would seem to
 * be quicker than it. */
void learn_unfinished(tarry_server *server, uint32_t worker, double time);
/* The same of one that is stopped, as all are: whatever is known. */
void learn_least(tarry_server *server, uint32_t worker, double time);
/* Works out the median pace; a worker that has never finished anything takes at least as long as it
 * has been at its chunk. */
void learn_prior(tarry_server *server, double time);

/* The first `count` numbers that `order` is to have, those of the largest values first; of equal
 * ones the lower first. */
void steering_sort(const double *values, uint32_t *order, uint32_t count);

/* steering_suit.c */
int suit_create(tarry_server *server);
void suit_destroy(tarry_server *server);
/*
 * Whether the copies of `chunk` that are there or coming would span the parts well, if the holder
 * `joins` made one too and the holder `leaves` none (indices among all holders, as in the plan's
 * chunk_offset; UINT32_MAX: nobody). True where there are fewer than parts, and with one part.
 */
bool steering_suits(const tarry_server *server, uint32_t chunk, uint32_t joins, uint32_t leaves);

/* steering_share.c. Plans all that is missing, from nothing. */
void share_all(tarry_server *server, double time);
/* Plans copies of `chunk` that are missing. */
void share_cover(tarry_server *server, double time, uint32_t chunk);
/* How long the copies that would be missing if only `credited` were there would take those that
 * take part and are not overdue, by what is known; between the signal and a RESUME, when nothing is
 * planned. */
uint64_t steering_repeat_ns(tarry_server *server, uint64_t now, const coverage *credited);
/* Shares that are too long pass chunks on along ways of any length. Looks at all workers: from time
 * to time. */
void share_relieve(tarry_server *server, double time);
/* `worker` takes over what it would end sooner than others, and passes on what others would. */
void share_balance(tarry_server *server, double time, uint32_t worker);

#endif
