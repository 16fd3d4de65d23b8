/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of a simulation, and what its files do for each other:
 *   world.c        defaults and checks
 *   sim.c          creation, the loop over events, rounds and another plan between two of them; and
 *                  workers: computing, falling silent, coming back, and what they do among
 *                  themselves where everyone gets the sum
 *   server_node.c  steps the server machine and carries its effects out
 *   links/, queue.c: arithmetic and containers that know nothing of the world
 *
 * Encoding and combining take no time. A worker hears the server at once, also in the middle of a
 * chunk, as it does in the local runtime. Events at the same time happen in the order in which they
 * were scheduled; the server's own time limits come after all that happens at their time.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <tarry/sim.h>
#include <tarry/worker.h>

#include "protocol/wire/codec.h"
#include "protocol/worker/worker_shared.h"
#include "sim/links/network.h"
#include "sim/queue.h"

/* What a worker holds where everyone gets the sum. */
typedef struct sim_replica {
    tarry_sum_id last, held;  /* as in TARRY_MESSAGE_STATE */
    uint32_t end;             /* the event that ends its sum, transfer or step; QUEUE_NONE */
    bool reduces;             /* its engine runs, */
    bool empty;               /* with zeros, */
    uint64_t begun_ns;        /* since then */
    uint64_t ends_ns;         /* when `end` comes */
    uint32_t from, from_life; /* whom it gets a sum or state from */
} sim_replica;

/* Those who make a sum, or made the last one. */
typedef struct sim_group {
    tarry_sum_id signalled; /* whose members lie in worker_shared_group */
    tarry_sum_id name;
    uint32_t *members; /* count, ascending */
    uint32_t count;
    uint32_t begun;  /* of them */
    bool broken;     /* not all of them go on */
    uint64_t *times; /* scratch: 2 per worker */
} sim_group;

typedef struct sim_worker {
    tarry_worker *machine; /* NULL for those that never answer */
    codec_shape shape;
    bool there;         /* not silent */
    uint32_t life;      /* counts its returns: what was sent to an earlier life is lost */
    uint64_t seen;      /* compress_down: 1 + the round whose view it was sent; 0: none */
    uint64_t silent_ns; /* when the life before ended */
    uint32_t busy;      /* the event that ends the computation, QUEUE_NONE if there is none */
    /* The last message before is at the server then (at its card, where that is modelled), and the
     * worker has what was sent to it: the next one comes behind it. */
    uint64_t said_ns, told_ns;
    sim_replica replica;

    /* what the round has in store for it */
    uint64_t fate_round; /* of the fate; TARRY_NEVER: none drawn yet */
    uint32_t dies_at;    /* position of its order, or its load; UINT32_MAX: it lives */
    uint32_t computed;   /* chunks in the round of the fate, in this life */
} sim_worker;

struct tarry_sim {
    tarry_allocator allocator;
    const tarry_plan *plan;
    tarry_sim_settings settings;
    tarry_matrix square; /* POWERSGD, where the settings have no matrices: what stands for them */
    uint32_t stripes;    /* of a part */
    uint64_t now;
    uint64_t events; /* carried out */
    queue queue;
    network network;
    tarry_server *server;
    worker_shared *shared; /* by the workers' machines */
    sim_worker *workers;
    sim_group group; /* its lists are NULL where sums are at the server */

    /* the round in progress */
    uint64_t round; /* that runs, or the next one */
    bool done;
    tarry_round_result result;
    uint64_t gradient_bytes;   /* that arrived with reports */
    uint64_t moved_bytes;      /* that workers sent to each other */
    uint64_t signalled_ns;     /* when the last signal was sent; TARRY_NEVER: none was */
    tarry_sim_traffic traffic; /* of the round before */
    uint64_t answers;          /* parts that no one sent, as they had come with reports */
};

/* ARGUMENT with a diagnostic, or OK. */
int settings_check(const tarry_plan *plan, const tarry_sim_settings *settings,
                   tarry_diagnostic *diagnostic);
int settings_check_costs(const tarry_plan *plan, const double *chunk_cost,
                         tarry_diagnostic *diagnostic);

/* Schedules at now or later; an event at TARRY_NEVER does not happen, and then its bits are freed
 * and *id is QUEUE_NONE. Takes the bits over, also on failure. Errors: NO_MEMORY. */
int sim_schedule(tarry_sim *sim, uint64_t time, const sim_event *event, uint32_t *id);
/* Whether workers upload with their reports, and the server answers its signals itself. */
static inline bool sim_uploads_at_once(const tarry_sim *sim)
{
    return sim->settings.upload != TARRY_SIM_UPLOAD_CODED;
}
/* Whether workers make the sum among themselves. */
static inline bool sim_sums_everywhere(const tarry_sim *sim)
{
    return sim->settings.way != TARRY_SIM_STAR;
}
/* sim.c: lets a round trip pass between two rounds: whoever was to say what it has, or to step, has
 * done so. Errors: as server_node_step. */
int sim_settle(tarry_sim *sim);
/* Tells the observer, if there is one. */
void sim_observe(const tarry_sim *sim, uint32_t node, const tarry_event *event,
                 const tarry_effects *effects);

/* server_node.c: errors are NO_MEMORY, NUMERICAL and those of tarry_server_step. */
int server_node_step(tarry_sim *sim, const tarry_event *event);
/* A message, or the end of a COMBINE, reaches the server. */
int server_node_take(tarry_sim *sim, const sim_event *event);

/* A sum, fetch or load among workers has ended: what the worker's machine is told. */
tarry_event group_end(tarry_sim *sim, const sim_event *event);

#endif
