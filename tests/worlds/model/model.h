/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server should do, in the plainest words: sets as masks, everything worked out anew from
 * what was heard, at every step. It shares no code with src/protocol and src/coding. Settings too
 * large for its masks are the caller's fault.
 */
#ifndef WORLDS_MODEL_H
#define WORLDS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <tarry/server.h>

enum { ABSENCES = TARRY_ABSENT_DIFFERS + 1 };
enum { MAX_WORKERS = 12, MAX_CHUNKS = 12, MAX_PARTS = 3, MAX_STRIPES = 5 };

typedef enum model_phase { MODEL_IDLE, MODEL_COMPUTING, MODEL_CODING } model_phase;

typedef enum model_verdict {
    VERDICT_WAIT,   /* nothing follows from the state */
    VERDICT_SIGNAL, /* the stop rule holds: a new attempt */
    VERDICT_FAIL,   /* the stop rule can't be met any more */
    VERDICT_RESUME, /* the attempt is broken, and what is left is not enough */
} model_verdict;

typedef struct model_member {
    bool present;
    bool excluded;    /* also, where everyone gets the sum: it was not sent the round */
    bool put_off;     /* for being late */
    bool called_back; /* in this step, and nothing has been sent to it since */
    bool reported;
    bool late; /* was passed over in this round */
    uint32_t epoch;
    uint32_t done;   /* chunks, a bit each */
    uint32_t failed; /* chunks, a bit each */
    uint32_t before; /* chunks that it finished in the round before, a bit each */
    uint32_t due;    /* stripes of this attempt that it owes, a bit each */
    uint64_t stripe; /* when the last one of this attempt came in */
    uint64_t heard;  /* when */
    uint64_t probed; /* when; TARRY_NEVER: it owes no answer */
    /* TARRY_KEEP_CREDITED: */
    uint32_t kept;                    /* chunks that it is credited with, a bit each */
    uint32_t term;                    /* signals and recalls that it was sent */
    uint32_t signal_term;             /* at the last signal */
    uint32_t recall_term[MAX_CHUNKS]; /* reports of the chunk that say less are old */
    uint32_t recalled;                /* chunks to be computed again, which it is to be told now */
    tarry_fate fate;                  /* of `fate_slot`, which it is to be told now */
    uint32_t fate_slot;
    bool participant; /* the signal of this attempt named copies of it */
} model_member;

typedef struct server_model {
    const tarry_plan *plan;
    tarry_server_settings settings;
    uint32_t workers, chunks;
    uint32_t parts, stripes;
    uint32_t held[MAX_WORKERS];  /* chunks of a worker, a bit each; */
    uint32_t holds[MAX_WORKERS]; /* of these, those that the round has sampled */
    /* How much of the data a chunk is, in original chunks, exactly; and what it counts for in the
     * error, and all do. */
    double data[MAX_CHUNKS], weight[MAX_CHUNKS], all;
    /* model_sample.c */
    double times[MAX_CHUNKS];          /* what its gradient counts with in this round's sum */
    uint32_t sampled;                  /* chunks that are in it, a bit each */
    uint8_t rank[1 << MAX_WORKERS];    /* of R_S, by the set S of workers that share a chunk */
    uint64_t stripe_size[MAX_STRIPES]; /* numbers */

    model_phase phase;
    uint64_t round;
    uint32_t attempt;
    uint64_t attempt_start;
    uint32_t asked;        /* stripes of this attempt */
    uint64_t first_stripe; /* when the first of anyone came in; TARRY_NEVER before */
    bool broken;           /* someone who owes a stripe is gone */
    model_member members[MAX_WORKERS];
    uint32_t psi[MAX_CHUNKS]; /* of this attempt: workers, a bit each */
    uint32_t filled;          /* chunks of which psi names copies of the round before, a bit each */
    double attempt_missing;   /* model_error when this attempt began */
    double attempt_left;      /* model_left, the same */
    uint32_t senders;         /* workers in psi */
    uint32_t complete;        /* stripes whose estimate stands, a bit each */
    uint32_t got[MAX_STRIPES];  /* workers whose stripe came in */
    uint32_t put[MAX_STRIPES];  /* workers whose stripe the server told to combine */
    uint32_t back[MAX_STRIPES]; /* workers whose stripe was reported as combined */
    uint32_t left[ABSENCES];    /* workers left out since this step, a bit each, by reason */
    tarry_round_result result;
} server_model;

#define MODEL_EVERYONE UINT32_MAX /* a set of workers */

static inline uint32_t bit(uint32_t index)
{
    return UINT32_C(1) << index;
}

static inline uint32_t set_size(uint32_t set)
{
    return (uint32_t)__builtin_popcount(set);
}

/* Whether the worker counts, if it is one of `among`; and whether it has finished all its chunks.
 */
static inline bool model_able(const server_model *it, uint32_t worker, uint32_t among)
{
    return it->members[worker].present && !it->members[worker].excluded && (among & bit(worker));
}

/* All that count, of those. */
static inline uint32_t model_all_able(const server_model *it, uint32_t among)
{
    uint32_t set = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++)
        set |= model_able(it, worker, among) ? bit(worker) : 0;
    return set;
}

static inline bool model_whole(const server_model *it, uint32_t worker)
{
    return it->members[worker].done == it->holds[worker];
}

/* Gives back whether the plan's ranks are beyond doubt: no singular value within 1e-6 of the limit.
 */
bool model_init(server_model *it, const tarry_plan *plan, const tarry_server_settings *settings);

/* Numbers in a part. */
uint64_t model_part_length(const server_model *it);

/* The bytes of a message's frame, from the layout that codec.h documents. */
uint64_t model_frame_bytes(const server_model *it, uint32_t worker, const tarry_message *message);

/* Takes in what the server takes in; gives back whether the server should take it, too. */
bool model_event(server_model *it, uint64_t now, const tarry_event *event);
void model_lose(server_model *it, uint32_t worker, tarry_absence reason);
/* The late workers of this attempt; the round leaves them out. */
uint32_t model_late(const server_model *it);
/* Whether the late are foreseen to take twice as long still as the others would for all that is not
 * complete, and `compute` before that: by the stripes that have come in. */
bool model_foresees(const server_model *it, uint64_t now, uint32_t late, uint64_t compute);
void model_exclude(server_model *it, uint32_t late, tarry_absence reason);
/* Those who were excluded for being late come anew. False: there are none. */
bool model_call_back(server_model *it, uint64_t now);
/* The worker arrives anew, as the server says, which goes on without what it was. */
void model_arrive_again(server_model *it, uint64_t now, uint32_t worker, tarry_absence reason);

/* Sets the ranks of all sets of workers that share a chunk; gives back as model_init. */
bool model_find_ranks(server_model *it);
/* What `worker` has to encode `chunk` of psi with if all of its parts are recovered: its row of
 * R_S^T (R_S R_S^T)^-1. False: they are not. */
bool model_row(const server_model *it, uint32_t chunk, uint32_t worker, double row[MAX_PARTS]);
/* The workers, among those of `among`, whose copies of `chunk` count. */
uint32_t model_credited(const server_model *it, uint32_t chunk, uint32_t among);
/* sum_i w_i (l - rank_i) / (l sum_i w_i), with w_i what chunk i is of the data, of the copies that
 * count, of the workers of `among`. */
double model_error(const server_model *it, uint32_t among);
/* The same, with each chunk's gradient of the round before where that has a higher rank. */
double model_left(const server_model *it, uint32_t among);
/* Whether an error is at most the other one: sums of rounded numbers are equal within 1e-9. */
static inline bool model_at_most(double error, double other)
{
    return error <= other * (1 + 1e-9);
}
/* The factor that this attempt's sums have. */
double model_scale(const server_model *it);
/* The workers that may still have, or have, a copy of `chunk`. */
uint32_t model_possible(const server_model *it, uint32_t chunk);
/* Whether the stop rule holds, of the workers of `among`. */
bool model_holds(const server_model *it, uint64_t now, uint32_t among);
/*
 * Whether `chunk` can't be recovered any more. With foresight also if that
 * shows only in the ranks of copies that may still come; the server need not see it before they are
 * there.
 */
bool model_hopeless(const server_model *it, uint32_t chunk, bool foresight);
/* What should follow at `now`. */
model_verdict model_decide(const server_model *it, uint64_t now, bool foresight);

/* model_sample.c. Every chunk is in; a round begins. */
void model_sample_init(server_model *it);
void model_sample_start(server_model *it);
static inline bool model_in(const server_model *it, uint32_t chunk)
{
    return (it->sampled & bit(chunk)) != 0;
}

/* told: who is sent its signal. */
void model_begin_attempt(server_model *it, uint64_t now, uint32_t told);
/* The attempt's sum is committed. */
void model_commit(server_model *it);
/* Where everyone gets the sum: the worker, which is there, is sent the round. */
void model_enlist(server_model *it, uint32_t worker);
/* The same: it has not the last state, and does not count any more. */
void model_fall_behind(server_model *it, uint32_t worker);
void model_resume(server_model *it);
/* The worker was told what it was to be told. */
void model_tell(server_model *it, uint32_t worker);
/* The model of the server that goes on with the next plan between two rounds; as model_init
 * otherwise. */
bool model_turn(const server_model *from, const tarry_plan *plan, server_model *next);
/* The server is another one, which knows of the last no more than this. */
void model_restart(server_model *it, uint64_t round, const uint32_t *epochs);

#endif
