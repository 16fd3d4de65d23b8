/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's state machine: it follows what workers have finished, decides when to signal 'encode
 * and transmit', and which coded parts count (Ramamoorthy et al., arXiv 2405.19509, section 3, with
 * attempts on top).
 */
#ifndef TARRY_SERVER_H
#define TARRY_SERVER_H

#include <tarry/compress.h>
#include <tarry/event.h>
#include <tarry/plan.h>
#include <tarry/vectors.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tarry_stop {
    TARRY_STOP_EXACT, /* when every chunk can be recovered; fails when that has become impossible */
    TARRY_STOP_DEADLINE, /* deadline_ns after the round's start, or when all can be recovered, with
                            what there is */
    TARRY_STOP_ERROR, /* when the expected error is at most error_limit, or nothing more can come */
    TARRY_STOP_WORKERS, /* when workers_needed workers have finished all their chunks; fails when
                           too few are left */
} tarry_stop;

typedef enum tarry_credit {
    TARRY_CREDIT_CHUNK, /* every finished chunk counts (partial stragglers' work is used) */
    TARRY_CREDIT_WHOLE, /* a worker counts once it has finished all its chunks (the original
                           gradient coding) */
} tarry_credit;

/*
 * Which chunk a worker computes next. With TARRY_PICK_SHARE the order is dynamic: the server
 * follows which worker computes which chunk, learns how fast workers are, and tells a worker (NEWS)
 * when its next chunk should be another one. Not with TARRY_CREDIT_WHOLE, TARRY_STOP_WORKERS or
 * `reproducible`, which want all chunks of a worker finished.
 */
typedef enum tarry_pick {
    TARRY_PICK_PLAN,  /* the next one of the plan's order, whatever others do */
    TARRY_PICK_SHARE, /* from a share of its own, such that all workers should end at the same
                         time; shares pass from one to another as speeds show */
} tarry_pick;

/*
 * What stands in for the chunks that a stop rule leaves missing. The stop rule itself always uses
 * the error without a fill. Below, k = sum_i w_i rank_i / l is the share that psi recovers, where
 * chunk i is the share w_i of the data: 1 / N, but in a plan that changed between rounds.
 */
typedef enum tarry_fill {
    TARRY_FILL_NONE, /* they are left out of the sum; expected_error is 1 - k */
    /*
     * The estimate is multiplied by 1/k, as if the missing were like the average of the recovered:
     * unbiased if chance decides which are missing. expected_error is (1 - k)/k, of independent
     * gradients without a common mean. Their common mean comes without error if every chunk is
     * recovered or missing as a whole, so always with one part; chunks that are recovered in part
     * mix its parts (docs/fill.md).
     */
    TARRY_FILL_SCALE,
    /*
     * A chunk takes the gradient that it had in the round before, where workers that are there
     * finished it then and give a higher rank than this round's copies. expected_error counts these
     * chunks as missing; if a chunk's gradient has changed by rho = |g_t - g_(t-1)|^2 / |g_t|^2,
     * the expected error is expected_error - (1 - rho) filled_share. Runtimes keep the gradients of
     * two rounds for it.
     */
    TARRY_FILL_STALE,
} tarry_fill;

typedef struct tarry_server_settings {
    size_t size; /* of this structure: its init sets it */
    tarry_stop stop;
    uint64_t deadline_ns;    /* TARRY_STOP_DEADLINE, > 0 */
    double error_limit;      /* TARRY_STOP_ERROR, 0..1 */
    uint32_t workers_needed; /* TARRY_STOP_WORKERS, 1..workers */
    tarry_credit credit;
    tarry_pick pick;
    bool learn_costs; /* of chunks, over the rounds, for dynamic orders; unless they are given */
    tarry_keep keep;  /* TARRY_KEEP_CREDITED: with one part, credit by chunk, not reproducible, no
                         stale fill */
    uint32_t ahead;   /* TARRY_KEEP_CREDITED: finished gradients that may wait at a worker for their
                         fate while it computes */
    tarry_fill fill;
    /*
     * Wait until every worker that is left has finished all its chunks, and sum in the order of
     * workers: a run repeats to the bit as long as the same workers are lost. Not with
     * TARRY_STOP_DEADLINE.
     */
    bool reproducible;
    double conditioning_limit; /* a chunk counts as recovered if 1/sigma_min(R_S) is at most this; >
                                  1 */
    uint64_t silence_ns;  /* least time without an answer to a probe after which a worker counts as
                             lost */
    size_t dimension;     /* d: numbers in a gradient, and ceil(d / l) in a coded part */
    size_t stripe_length; /* numbers in a stripe of a part, the last may be shorter */
    tarry_sum_place sum;
    /* With TARRY_SUM_EVERYWHERE: how long a lone worker waits for others before it votes alone, how
     * long the server waits for one that has the last committed sum, and the pause before a round's
     * last attempt, where links fail; and how many attempts it has at most, 0: 8. */
    uint64_t voters_grace_ns;
    uint32_t attempts_most;
    /* With TARRY_SUM_EVERYWHERE: after so many steps each the workers' parameters are compared, by
     * a digest that they work out; who has others than most loads their state. 0: never. */
    uint32_t digest_steps;
    /* With TARRY_SUM_EVERYWHERE: so long after its signals an attempt to sum is given up although
     * fewer than half of those asked have answered: more than a sum ever takes. 0: never. */
    uint64_t attempt_limit_ns;
    /*
     * The form in which workers send their coded parts (docs/compression.md): another than NONE
     * with one part, and with TARRY_SUM_EVERYWHERE one without feedback. What is rounded by chance
     * is so by this seed, and by round, attempt, worker and stripe; among workers by step, worker
     * and place.
     */
    tarry_compress compress;
    uint64_t compress_seed;
    uint32_t compress_share; /* TARRY_COMPRESS_TOPK: 1..TARRY_COMPRESS_SHARE_MOST */
    /*
     * TARRY_COMPRESS_POWERSGD: the columns of thin matrices, 1..TARRY_COMPRESS_RANK_MOST, and what
     * the gradient is from its first number on, one matrix behind the other; borrowed, to outlive
     * whatever is made with these settings. What is a vector, or lies behind them, is float32. At
     * least one must be worth it: rank (rows + columns) at most rows times columns. The simulator
     * takes a matrix that is nearly square where there is none.
     */
    uint32_t compress_rank;
    uint32_t compress_matrix_count; /* 1..TARRY_COMPRESS_MATRICES_MOST */
    const tarry_matrix *compress_matrices;
    /* The last so many numbers of a gradient are float32 in every form: counts and sums that ride
     * with it, and are not to be rounded. */
    uint32_t compress_exact;
    /*
     * The form in which what is to be shared by all comes down (docs/compression.md): NONE, BF16 or
     * INT8. With TARRY_SUM_SERVER that of parameters: workers compute with a view of them that
     * follows them (tarry_runtime_view), and what is rounded by chance is so by compress_seed and
     * the round. With TARRY_SUM_EVERYWHERE that of the sum on its way back from the workers that
     * have summed its shares, with one part: all workers have the sum as it was sent, and
     * compress_exact numbers of it are float32.
     */
    tarry_compress compress_down;
    /*
     * Before each round some chunks are drawn, each by itself with the chance p (docs/sampling.md);
     * so many whole ones on average, or as many times the pieces of one. No worker computes the
     * others, which are not missing, and a drawn chunk counts 1/p times: the mean of the sum over
     * draws is the sum of all. This seed, the round and the chunk decide. 0: all chunks take part.
     * Not with credit by whole worker, TARRY_STOP_WORKERS or TARRY_FILL_STALE.
     */
    uint32_t sample_chunks;
    uint64_t sample_seed;
    /*
     * Secure sums (docs/privacy.md): the bits of the integers modulo 2^secure that workers send in
     * place of numbers, masked for each other: 32 or 64; 0: sums are not secure. With
     * TARRY_KEEP_CREDITED, TARRY_STOP_EXACT, one part, and little else (docs/pairs.md); signals say
     * whose copy of each chunk is summed. Such sums repeat to the bit by themselves: `reproducible`
     * changes nothing.
     */
    uint32_t secure;
    /* Most reports of short pieces that a worker sends in one frame (docs/network.md), 1..128. With
     * 1 each report is sent at once: dynamic orders hear earlier of it, for more frames. */
    uint32_t reports_per_frame;
    /* What the numbers of gradients and sums are. FLOAT64: with TARRY_SUM_EVERYWHERE, one part and
     * no other forms, and with an engine that sums it (tarry_engine_methods.owners). */
    tarry_element element;
} tarry_server_settings;

typedef struct tarry_server tarry_server;

/*
 * exact, credit by chunk, all kept, the plan's order, costs learned, no fill, the usual number
 * ahead, conditioning limit 1000, silence and voters' grace 2 s, digests each 16 steps, a minute
 * for an attempt, the sum at the server, 128 reports in a frame; stripes of 65,536 numbers;
 * dimension is 0 and must be set.
 */
#define tarry_server_settings_init(settings)                                                       \
    tarry_server_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_server_settings_init_sized(tarry_server_settings *settings, size_t size);

/*
 * Makes a server for `plan`, which is borrowed and must outlive it. All its memory is taken here.
 * No worker has joined. Errors: ARGUMENT, NO_MEMORY.
 */
TARRY_API int tarry_server_create(const tarry_plan *plan, const tarry_server_settings *settings,
                                  const tarry_allocator *allocator, tarry_server **server,
                                  tarry_diagnostic *diagnostic);
TARRY_API void tarry_server_free(tarry_server *server); /* NULL is allowed */

/*
 * Takes one event at the time `now` (which never goes back) and sets *effects, borrowed until the
 * next call. The machine checks what a peer sends: a message that makes no sense yields a REJECT
 * effect and changes nothing. Errors: ARGUMENT (an event of the wrong machine), STATE (START in the
 * middle of a round, ABORT between two, a restored server of which no checkpoint was taken),
 * NUMERICAL.
 */
TARRY_API int tarry_server_step(tarry_server *server, uint64_t now, const tarry_event *event,
                                const tarry_effects **effects);

/* When to step again with TARRY_EVENT_TIME if nothing else happens;
 * TARRY_NEVER if only events matter. */
TARRY_API uint64_t tarry_server_deadline(const tarry_server *server);

/* The number of the round that runs, or of the next one. */
TARRY_API uint64_t tarry_server_round(const tarry_server *server);
/* Whether `worker` has joined and is not lost. */
TARRY_API bool tarry_server_present(const tarry_server *server, uint32_t worker);
/* How many of its chunks `worker` has reported as finished in this round,
 * or in the last one between rounds. */
TARRY_API uint32_t tarry_server_finished(const tarry_server *server, uint32_t worker);
/* The nanoseconds that `worker` takes for a chunk of mean cost, as learned so far from when it was
 * sent rounds and its reports came in; 0 where nothing is known yet. With TARRY_PICK_PLAN all
 * chunks count as equal. */
TARRY_API double tarry_server_pace_ns(const tarry_server *server, uint32_t worker);
/*
 * What each chunk (0..chunks-1) costs in the rounds to come, relative to each other, for dynamic
 * orders; >= 0 and finite. NULL: learned, if the settings say so, else all the same, as at
 * creation. The costs are copied. Errors: ARGUMENT (a cost out of range, nothing changes), STATE
 * (in the middle of a round).
 */
TARRY_API int tarry_server_costs(tarry_server *server, const double *costs);
/* What a chunk is taken to cost in this round, or was in the last one: 1 on average. */
TARRY_API double tarry_server_chunk_cost(const tarry_server *server, uint32_t chunk);
/*
 * The chunks that can't be recovered any more with the workers that are left: the next one at or
 * after `from`, or `chunks` if there is none. Meant for the message that follows
 * TARRY_ERROR_COVERAGE.
 */
TARRY_API uint32_t tarry_server_next_hopeless(const tarry_server *server, uint32_t from);

/*
 * Makes a server go on where `from` stands between two rounds, with another plan of the same
 * workers, made from the same original one (tarry_plan_evolve): the number of the next round, who
 * is there, how often each worker has arrived, the learned times, paces and costs. The server takes
 * over no finished chunks, and nothing to fill from. The next round goes to the workers in their
 * present arrival, under its own number; docs/protocol.md says why nothing gets mixed up. Each
 * worker has to go on with a new machine for the new plan. That machine must get no message that
 * `from` sent but PROBE, which one of the two machines still has to answer. `from` is not changed,
 * and steps no more. Errors: ARGUMENT (plans that don't belong together), STATE (a server of which
 * a worker has joined or a round has begun; `from` in the middle of a round, or restored without a
 * checkpoint since), NO_MEMORY; nothing changes then.
 */
TARRY_API int tarry_server_adopt(tarry_server *server, const tarry_server *from,
                                 tarry_diagnostic *diagnostic);
/*
 * tarry_plan_evolve with what the server has learned between two rounds (paces, the median where a
 * worker's is not known, and costs; absent workers are gone) and with limits that do for most:
 * chunks of more than twice the mean cost are split, up to twice the original ones, those of less
 * than a quarter merged, no worker is given more than 1.5 times the mean of the data, and `share`
 * (0..1) of all copies, rounded up, may change their worker; `rack` as tarry_plan_evolution has it.
 * Moves that would make sums of several parts imprecise are left out. *next is NULL if nothing
 * changes. changes: NULL is allowed. Errors: as tarry_plan_evolve.
 */
TARRY_API int tarry_server_adapt(const tarry_server *server, double share, const uint32_t *rack,
                                 const tarry_allocator *allocator, tarry_plan **next,
                                 tarry_plan_changes *changes, tarry_diagnostic *diagnostic);

/*
 * A checkpoint is what a restarted server has to know: the number of the round that runs, or of the
 * next one, how often each worker has arrived, and the times learned so far. It can be taken
 * between any two steps. What workers have finished is not in it: a round that was in progress
 * begins anew, under the same number, once the workers have joined again.
 *
 * Nothing of the lost server's life is ever summed: a checkpoint reserves each worker's next
 * TARRY_CHECKPOINT_ARRIVALS arrivals for the server that it is of, and a server that is restored
 * from it counts on from after these. The reserve is the server's own once it is told that the
 * checkpoint lies where restarts read it (tarry_server_stored); an arrival beyond that of the
 * newest one is rejected (EXHAUSTED) until the next one is stored. So that a second restart counts
 * on from further still, a restored server takes no step before a checkpoint of it is stored.
 */
#define TARRY_CHECKPOINT_ARRIVALS 4096

/* Bytes of a checkpoint; the same for all servers of plans with as many workers, and the same
 * settings. */
TARRY_API size_t tarry_server_checkpoint_size(const tarry_server *server);
/* Writes a checkpoint, checkpoint_size bytes, little-endian and the same on every machine. Errors:
 * NO_MEMORY (for a digest). */
TARRY_API int tarry_server_checkpoint(const tarry_server *server, uint8_t *bytes);
/*
 * Says that a checkpoint which tarry_server_checkpoint wrote, of this server or of one that it
 * adopted, lies where a restart reads it, in the place of those before. A checkpoint that could not
 * be written must not be given here: arrivals that it reserves would be given out twice.
 */
TARRY_API void tarry_server_stored(tarry_server *server, const uint8_t *bytes);
/* The epoch of the worker's messages: how often it has joined. */
TARRY_API uint32_t tarry_server_epoch(const tarry_server *server, uint32_t worker);
/* How many more arrivals are reserved for the worker that has the fewest left: when few are, it is
 * time to store a checkpoint. */
TARRY_API uint32_t tarry_server_arrivals_left(const tarry_server *server);
/*
 * Makes the server go on from a checkpoint of a server with the same plan and settings. No worker
 * has joined then, and the server is between rounds. Errors: FORMAT (bytes that are no checkpoint,
 * damaged, of another version, plan or settings, of which the diagnostic names the first), STATE (a
 * server of which a worker has joined or a round has begun), NO_MEMORY; nothing changes then. Any
 * bytes may come in.
 */
TARRY_API int tarry_server_restore(tarry_server *server, const uint8_t *bytes, size_t size,
                                   tarry_diagnostic *diagnostic);

/*
 * With TARRY_SUM_EVERYWHERE. What the server knows of sums is in its log, which whoever carries out
 * its effects keeps (TARRY_EFFECT_LOG). Where that outlives the server, the next one goes on from
 * it: `last` are its last two entries, the newest first (step 0: there is none), `term` is above
 * that of any entry. A checkpoint has them as they were when it was taken. Errors: ARGUMENT (a
 * server without such sums, a term that is not above), STATE (somebody has joined, or a round
 * runs).
 */
TARRY_API int tarry_server_log(tarry_server *server, const tarry_sum_id last[2], uint32_t term);
/* A checkpoint of the workers' state after the sum `after` lies where each of them can load it: the
 * server can go back to it where everything newer is lost. Errors: ARGUMENT. */
TARRY_API int tarry_server_vectors(tarry_server *server, const tarry_sum_id *after);
/* The last sum that was committed; step 0: none. */
TARRY_API tarry_sum_id tarry_server_last_sum(const tarry_server *server);
/* Whether `worker` is there and has stepped on it; with TARRY_SUM_SERVER: whether it is there. */
TARRY_API bool tarry_server_ready(const tarry_server *server, uint32_t worker);
/* How many are ready. Where nobody is, and only a round can change that, as it goes back to an
 * earlier state or says why it can't: how many are there. */
TARRY_API uint32_t tarry_server_count_ready(const tarry_server *server);
/* Whether `worker` is why the last attempt did not succeed: its bits differed from most others',
 * its engine failed, or it was lost. Meant for the message that follows DIFFER and LINKS. */
TARRY_API bool tarry_server_at_fault(const tarry_server *server, uint32_t worker);

#ifdef __cplusplus
}
#endif

#endif
