/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: the same server and worker machines over modelled workers and links, in virtual
 * time. No gradient exists unless asked for: sizes and coefficients are enough. Everything is a
 * function of the settings and the seed.
 */
#ifndef TARRY_SIM_H
#define TARRY_SIM_H

#include <tarry/server.h>
#include <tarry/straggler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A worker's link. */
typedef struct tarry_sim_link {
    uint64_t latency_ns;        /* between any two nodes */
    double bytes_per_second;    /* > 0; INFINITY: sizes don't matter */
    double up_bytes_per_second; /* away from the worker; 0: the same */
    /* What a message of a sum among workers takes besides, of each of the two cards that it passes:
     * what many small ones cost. */
    uint64_t message_ns;
    /* What each message waits besides the latency, before it leaves: a lognormal time of this mean,
     * whose standard deviation is jitter_spread times that. Messages between the server and a
     * worker stay in their order. */
    uint64_t jitter_ns;
    double jitter_spread;
} tarry_sim_link;

/* Over which links a sum is made. */
typedef enum tarry_sim_way {
    TARRY_SIM_STAR, /* coded parts go to the server, and parameters come from it */
    /* Everyone gets the sum, and parameters never travel: by a ring all-reduce */
    TARRY_SIM_RING,
    /* or as Tarry's own engine does it (docs/collective.md): by direct reduce-scatter and
       all-gather */
    TARRY_SIM_DIRECT,
} tarry_sim_way;

/* How gradients travel. Encoding, combining and the decision to signal take no time. */
typedef enum tarry_sim_upload {
    TARRY_SIM_UPLOAD_CODED, /* one coded part per worker, after the signal */
    /*
     * Every finished gradient by itself, with its report, which counts when both have arrived
     * (multi-message): the round is over when the last copy that it needs is there. One part only.
     */
    TARRY_SIM_UPLOAD_EACH,
    /*
     * One vector of a part's length per worker, at once when it has finished all of its chunks,
     * with its last report, which counts when the vector has arrived: coefficients are known
     * beforehand, as in the original gradient coding (Tandon et al., ICML 2017; in parts Ye and
     * Abbe, ICML 2018) and in plain sums. Only where nothing of a worker counts before all of it
     * does: TARRY_CREDIT_WHOLE, or TARRY_STOP_EXACT with one copy of each chunk.
     */
    TARRY_SIM_UPLOAD_WHOLE,
} tarry_sim_upload;

/* One step of a machine, as it was taken. node: the worker, or TARRY_SIM_SERVER. */
#define TARRY_SIM_SERVER UINT32_MAX
typedef void tarry_sim_observer(void *user, uint64_t now, uint32_t node, const tarry_event *event,
                                const tarry_effects *effects);

typedef struct tarry_sim_settings {
    size_t size;                      /* of this structure: its init sets it */
    tarry_server_settings server;     /* its dimension is set from that below */
    const tarry_straggler *straggler; /* NULL for none; borrowed */
    /* The time of a whole chunk of cost 1 before stragglers add to it; a piece takes its share. */
    uint64_t chunk_ns;
    bool costs_known; /* the server is told chunk_cost before each round */
    /* The time that each chunk of the plan, which may be a piece, takes besides: more on a slow
     * worker, the same for a chunk of higher cost. */
    uint64_t overhead_ns;
    const double *chunk_cost; /* per chunk of the original plan, relative; a part of one has its
                                 share of it; NULL: all 1; borrowed */
    size_t dimension;         /* d >= 1: sets what parts weigh */
    size_t parameter_bytes;   /* sent to each worker with a round; 0: they don't count */
    tarry_sim_link link;      /* of every worker */
    /* How many times less than that each worker's link carries, above 0, by worker; NULL: all as
     * much; borrowed until the world is made. */
    const double *link_factor;
    /* Of the server's network card, shared by all links, each way; > 0, may be INFINITY. */
    double server_bytes_per_second;
    /* What the server sends to many at once shares its card, as connections do, and is there at the
     * same time; false: one after the other. */
    bool card_shared;
    tarry_sim_way way;
    uint64_t
        log_ns; /* where everyone gets the sum: until an entry of the server's log is durable */
    tarry_sim_upload upload;
    uint64_t seed;
    /* The straggler's draws of round t are those of its round first_round + t. */
    uint64_t first_round;
    tarry_sim_observer *observer; /* NULL for none */
    void *user;                   /* the observer's */
} tarry_sim_settings;

typedef struct tarry_sim tarry_sim;

/*
 * No straggler, chunks of 1 s, d = 1, links without latency and limit, coded uploads, no vectors,
 * seed 1, stripes as long as the longest part, so that each part is one message.
 */
#define tarry_sim_settings_init(settings)                                                          \
    tarry_sim_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_sim_settings_init_sized(tarry_sim_settings *settings, size_t size);

/* Makes a world for `plan`, which is borrowed; all workers have joined, at time 0, and where
 * everyone gets the sum they have said what they have, one round trip later. Errors: ARGUMENT,
 * NO_MEMORY. */
TARRY_API int tarry_sim_create(const tarry_plan *plan, const tarry_sim_settings *settings,
                               const tarry_allocator *allocator, tarry_sim **sim,
                               tarry_diagnostic *diagnostic);
TARRY_API void tarry_sim_free(tarry_sim *sim); /* NULL is allowed */

/*
 * Between two rounds: the costs of chunks from here on, as in the settings, also of those that a
 * worker begins before it has heard of the new round. Borrowed until the next call or the end of
 * the world; numbers that change in between are to be told by another call. Errors: ARGUMENT;
 * nothing changes then.
 */
TARRY_API int tarry_sim_costs(tarry_sim *sim, const double *chunk_cost,
                              tarry_diagnostic *diagnostic);

/*
 * Between two rounds: the world goes on with `next`, a plan of the same workers and parts that was
 * made from the same original one (tarry_plan_evolve); borrowed, like the one before, which is not
 * used any more. Time, links, fates, who is there and what the server has learned stay; moved data
 * takes no time. Estimate and truth of the last round are gone. Errors: ARGUMENT (plans that don't
 * belong together), NO_MEMORY; the world goes on with the plan before then.
 */
TARRY_API int tarry_sim_replan(tarry_sim *sim, const tarry_plan *next,
                               tarry_diagnostic *diagnostic);

/* The server, to look at between two rounds; borrowed until the next step or plan. */
TARRY_API const tarry_server *tarry_sim_server(const tarry_sim *sim);

/*
 * Runs one round; round t of one world is round t of every world of the same settings, whatever
 * else differs. A round that ends without an estimate is a result too: it gives TARRY_OK, and
 * result->error is TARRY_ERROR_COVERAGE. Where everyone gets the sum, upload_bytes are what workers
 * sent to each other. Errors: NO_MEMORY, NUMERICAL; then nothing but
 * tarry_sim_free may follow.
 */
TARRY_API int tarry_sim_round(tarry_sim *sim, tarry_round_result *result);

/* What passed cards in the last round, in bytes: those of the server and of the worker that carried
 * most; and what the sum took. Messages without numbers count only if they pass a modelled card
 * (docs/simulator.md). */
typedef struct tarry_sim_traffic {
    uint64_t root_in, root_out;
    uint64_t leaf_in, leaf_out;
    uint64_t sum_ns; /* from the last signal to the round's end; 0: there was none */
    /* Messages without numbers that came to the server, and their bytes. */
    uint64_t root_messages, root_control_bytes;
} tarry_sim_traffic;

TARRY_API tarry_sim_traffic tarry_sim_last_traffic(const tarry_sim *sim);

/*
 * The least times in which a round could have every chunk `copies` (>= 1) times, on the draws of
 * `round`, without links: balanced: total work over total speed, as if work could be given to
 * anyone in any portion; matched: each worker computing undivided chunks out of those the plan
 * gives it, in the best order (by maximum flow). Both are TARRY_NEVER if the workers that aren't
 * `dead` can't.
 *
 * Both hold overhead_ns for every chunk, so that they grow with the pieces of a plan: a time over
 * them does not show what pieces cost. Workers that die within the round count as if they lived to
 * its end, so that the bounds are lower there than what anyone could do. Neither holds links,
 * waiting, or copies beyond `copies`.
 *
 * matched is exact where each worker takes the same time for all of its chunks. Where chunks differ
 * it is a bound from below (the least time itself is NP-hard): a worker computes as many chunks as
 * its shortest times allow, and no more work than its best rate does. A worker's speed is that at
 * which it does its own chunks, all of them; where these differ by chance alone (terms that end in
 * '/chunk'), matched can be less than balanced, as it takes the quick ones. Errors: NO_MEMORY.
 */
typedef struct tarry_sim_bounds {
    uint64_t balanced_ns;
    uint64_t matched_ns;
} tarry_sim_bounds;

TARRY_API int tarry_sim_bound(const tarry_plan *plan, const tarry_sim_settings *settings,
                              uint64_t round, uint32_t copies, const tarry_allocator *allocator,
                              tarry_sim_bounds *bounds);

#ifdef __cplusplus
}
#endif

#endif
