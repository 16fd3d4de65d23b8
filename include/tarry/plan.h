/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: which worker holds which chunk (the assignment), in which order it computes them, and
 * the weights with which the server decodes. A pure function of its settings and seed, the same to
 * the bit on every machine.
 */
#ifndef TARRY_PLAN_H
#define TARRY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/api.h>
#include <tarry/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARRY_DIGEST_SIZE 32
#define TARRY_MOST_PARTS 65535
#define TARRY_RACK_BYTES 63      /* of a rack's name: each from '!' to '~' */
#define TARRY_NO_RACK UINT32_MAX /* of a worker that shares its fate with no other one */

typedef enum tarry_design {
    TARRY_DESIGN_CYCLIC, /* chunk i on `replication` neighbouring workers (Tandon et al., ICML 2017)
                          */
    TARRY_DESIGN_FRACTIONAL, /* groups of workers that hold the same chunks (the same) */
    /* Random simple bipartite graph; every chunk `replication` times, loads differ by <= 1. With
     * racks see below. */
    TARRY_DESIGN_RANDOM,
    /*
     * Read from `file`: the first line lists the chunks of worker 0, in its order, the next one
     * those of worker 1, and so on; numbers from 0, separated by blanks or commas. '-' in place of
     * numbers stands for a worker without chunks. '#' starts a comment; lines with nothing else are
     * skipped.
     */
    TARRY_DESIGN_FILE,
} tarry_design;

typedef enum tarry_order {
    TARRY_ORDER_OPTIMAL, /* least Q_l where that is known, equitable edge colouring and local
                            improvement elsewhere */
    TARRY_ORDER_RANDOM,  /* each worker's chunks shuffled */
    TARRY_ORDER_AS_IS,   /* as the design lists them */
} tarry_order;

typedef struct tarry_plan_settings {
    size_t size;      /* of this structure: its init sets it */
    uint32_t workers; /* m >= 1 */
    uint32_t chunks;  /* N >= 1 */
    /*
     * P >= 1: every chunk is cut into P pieces, which are the plan's units of work: everywhere else
     * a chunk is a piece, and there are N P. Pieces i P .. i P + P - 1 are those of chunk i. With
     * TARRY_DESIGN_FILE they lie where the file says that their chunk lies. Else each has
     * `replication` workers of its own: TARRY_DESIGN_RANDOM takes pieces for chunks; the other
     * designs hold for the N chunks' first pieces, and for their second ones, .. , each time with
     * the workers relabelled by the seed, so that the loads differ by no more than with P = 1.
     */
    uint32_t pieces;
    uint32_t replication; /* workers per chunk, 1..workers; not read with TARRY_DESIGN_FILE */
    uint32_t parts;       /* l, 1..replication (of every chunk), at most TARRY_MOST_PARTS */
    tarry_design design;
    const char *file; /* with TARRY_DESIGN_FILE; read during creation only */
    tarry_order order;
    uint64_t seed;
    /*
     * Racks: workers that may become slow or die together, as those behind one switch. Either racks
     * of rack_size (1..workers) workers each, in the order of their ids, of which the last may be
     * smaller; or a file, read during creation only, that names the rack of worker 0 in its first
     * line, then that of worker 1, ..: TARRY_RACK_BYTES bytes at most, '-' for a worker in no rack;
     * '#' starts a comment, and lines with nothing else are skipped. 0 and NULL: none are known.
     *
     * TARRY_DESIGN_RANDOM then spreads the copies of a chunk as evenly as racks allow: how many of
     * them two racks have differs by one at most, but for racks of fewer workers; so no rack has
     * two where there are enough racks. Loads differ by one at most unless a rack is too large for
     * that (`replication` times its workers are more than all workers: they then hold less, and
     * others more) or too small (there are fewer racks than copies, and those of each chunk that it
     * must have are more than its workers' share). Other designs stay as they are. Moves of
     * tarry_plan_evolve go by racks with every design.
     */
    uint32_t rack_size;
    const char *rack_file;
} tarry_plan_settings;

typedef struct tarry_plan tarry_plan;

/* 8 workers, 8 chunks of 1 piece, replication 3, 1 part, random design, optimal order, seed 1, no
 * racks. */
#define tarry_plan_settings_init(settings)                                                         \
    tarry_plan_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_plan_settings_init_sized(tarry_plan_settings *settings, size_t size);

/*
 * Makes a plan. The caller owns *plan and frees it with tarry_plan_free; it is immutable, so any
 * number of threads may read it. Errors: ARGUMENT (a setting out of range), FILE and FORMAT (the
 * file of the design or the racks; with its name and line), NO_MEMORY.
 */
TARRY_API int tarry_plan_create(const tarry_plan_settings *settings,
                                const tarry_allocator *allocator, tarry_plan **plan,
                                tarry_diagnostic *diagnostic);
TARRY_API void tarry_plan_free(tarry_plan *plan); /* NULL is allowed */

TARRY_API uint32_t tarry_plan_workers(const tarry_plan *plan);
TARRY_API uint32_t tarry_plan_chunks(const tarry_plan *plan); /* units of work: N P */
TARRY_API uint32_t tarry_plan_pieces(const tarry_plan *plan); /* P */
TARRY_API uint32_t tarry_plan_parts(const tarry_plan *plan);  /* l */

/* delta_j: how many chunks `worker` (0..workers-1) holds; 0 is possible. */
TARRY_API uint32_t tarry_plan_load(const tarry_plan *plan, uint32_t worker);
/* The chunk that `worker` computes at `position` (0..load-1) of its order. */
TARRY_API uint32_t tarry_plan_chunk(const tarry_plan *plan, uint32_t worker, uint32_t position);
/* gamma_i: how many workers hold `chunk` (0..chunks-1). */
TARRY_API uint32_t tarry_plan_replication(const tarry_plan *plan, uint32_t chunk);
/* The index-th holder (0..replication-1) of `chunk`, in ascending order of workers. */
TARRY_API uint32_t tarry_plan_holder(const tarry_plan *plan, uint32_t chunk, uint32_t index);

/* R[part][worker] of the decode matrix: the weight of the worker's coded part in `part`
 * (0..parts-1) of the sum. */
TARRY_API double tarry_plan_decode_weight(const tarry_plan *plan, uint32_t part, uint32_t worker);

/*
 * Q_l: how many chunks the cluster may have to process, at worst, before every chunk has `copies`
 * (1..least replication) copies (Ramamoorthy et al., arXiv 2405.19509, section 4); and a value that
 * no order of the same assignment can go below.
 */
TARRY_API uint64_t tarry_plan_q(const tarry_plan *plan, uint32_t copies);
TARRY_API uint64_t tarry_plan_q_bound(const tarry_plan *plan, uint32_t copies);

/* How many racks are known, and which one (0..racks-1) a worker is in; those in none are counted as
 * racks of their own. 0, and 0 for each, if none are known. */
TARRY_API uint32_t tarry_plan_racks(const tarry_plan *plan);
TARRY_API uint32_t tarry_plan_rack(const tarry_plan *plan, uint32_t worker);

typedef struct tarry_rack_spread {
    uint32_t least, most;   /* workers of a rack */
    uint32_t most_together; /* copies of one chunk in one rack, at most */
    /* Copies that each chunk still has, whichever rack dies: with `parts` of them or more, any
     * single rack may. */
    uint32_t left;
} tarry_rack_spread;

/* All 0 if no racks are known. */
TARRY_API tarry_rack_spread tarry_plan_rack_spread(const tarry_plan *plan);

typedef struct tarry_conditioning {
    double
        worst; /* largest 1/sigma_min(R_S) over the sets S of `parts` workers that share a chunk */
    double median;    /* the median of the same */
    uint64_t subsets; /* how many sets were looked at */
    bool complete;    /* whether these were all that can occur; otherwise a seeded sample */
} tarry_conditioning;

TARRY_API tarry_conditioning tarry_plan_conditioning(const tarry_plan *plan);

/*
 * How many workers may die, whichever they are, so that every chunk has as many holders left as
 * parts: the least replication less these. This counts holders alone; conditioning tells
 * whether sets of as many workers can be decoded.
 */
TARRY_API uint32_t tarry_plan_endures(const tarry_plan *plan);
/*
 * The same of workers that die one after the other at random, each survivor as likely as any other:
 * endured[k] is how many have died before the one that leaves a chunk too few holders, in the k-th
 * of `samples` sequences of deaths drawn from the seed. endured: room for `samples`. Errors:
 * NO_MEMORY.
 */
TARRY_API int tarry_plan_endures_random(const tarry_plan *plan, uint64_t seed, uint32_t samples,
                                        const tarry_allocator *allocator, uint32_t *endured);

/* SHA-256 over the assignment, the orders, the decode matrix, what the chunks stand for unless
 * each is the original chunk of its number, and the racks if any are known: equal digests, equal
 * plans. */
TARRY_API void tarry_plan_digest(const tarry_plan *plan, uint8_t digest[TARRY_DIGEST_SIZE]);

/* ---- plans that change between rounds (docs/evolution.md) ---- */

/*
 * A part of an original chunk, that is of a chunk of the plan that tarry_plan_create made: the
 * units first .. first + count - 1 of `of` equal units. `of` is a power of two, at most 2^31.
 */
typedef struct tarry_span {
    uint32_t origin;
    uint32_t first, count, of;
} tarry_span;

/* How many chunks the original plan has. */
TARRY_API uint32_t tarry_plan_origins(const tarry_plan *plan);
/* Whether chunk i is original chunk i, for each i: so in the plans of tarry_plan_create. */
TARRY_API bool tarry_plan_is_original(const tarry_plan *plan);
/*
 * The spans that `chunk` stands for, one or more: its gradient is the sum over them;
 * index: 0..tarry_plan_span_count - 1. The spans of a chunk ascend, do not touch, and have no
 * factor in common; those of all chunks are all of the data, nothing twice.
 */
TARRY_API uint32_t tarry_plan_span_count(const tarry_plan *plan, uint32_t chunk);
TARRY_API tarry_span tarry_plan_span(const tarry_plan *plan, uint32_t chunk, uint32_t index);
/*
 * The samples *begin .. *end - 1 that a span has, of the `samples` (at most 2^32) of its original
 * chunk: floor(k samples / of) is where unit k begins. Spans that cover the chunk once cover its
 * samples once, however many there are; a span can be empty.
 */
TARRY_API void tarry_span_samples(tarry_span span, uint64_t samples, uint64_t *begin,
                                  uint64_t *end);

typedef struct tarry_plan_evolution {
    /* Per worker: time per cost, > 0; INFINITY: it is gone. One at least is not. NULL: all 1. */
    const double *pace;
    const double *cost; /* per chunk: work, >= 0, not all 0. NULL: all 1 */
    /* Chunks of more than `heaviest` (>= 1) times the mean cost are split into 2, 4, 8, ... equal
     * ones that are not. 0 or INFINITY: none are. */
    double heaviest;
    /* None are split where there are as many chunks already. 0: no limit. */
    uint32_t most_chunks;
    /* Chunks of less than `lightest` (<= 1, <= heaviest / 2) times the mean are merged with chunks
     * of the same holders, up to the mean. 0: none are. */
    double lightest;
    uint32_t most_moves; /* how many copies may change their worker; 0: none */
    /* No worker is given more data than this (>= 1) times the mean over the workers that are not
     * gone, by the size of spans. 0 or INFINITY: no limit. */
    double most_load;
    /* Per worker: its rack, 0..workers-1 or TARRY_NO_RACK, from now on. NULL: that of the plan. */
    const uint32_t *rack;
} tarry_plan_evolution;

typedef struct tarry_plan_changes {
    uint32_t split;    /* chunks that were split */
    uint32_t merged;   /* chunks that another one took in */
    uint32_t moved;    /* copies that changed their worker, each a transfer of the chunk's data */
    double moved_data; /* that data, in original chunks */
    /* Times to `parts` copies of every chunk, in the unit of pace * cost: were each worker able to
     * compute each chunk, once at most; and with chunks divisible, over the assignment before and
     * after the moves. INFINITY: a chunk has too few holders that are not gone. */
    double balanced, matched_before, matched_after;
} tarry_plan_changes;

/* Nothing wanted: all NULL and 0. */
TARRY_API void tarry_plan_evolution_init(tarry_plan_evolution *wanted);

/*
 * Makes the plan of the next round from this one, by splits, merges and moves. Splits and merges
 * move no data; copies move, from the slowest holder of a chunk to a faster worker with time to
 * spare, until matched is at most 1.02 balanced, moves are used up, or none helps. Workers, parts,
 * decode matrix and every chunk's replication stay; with TARRY_ORDER_OPTIMAL and _RANDOM a changed
 * plan is ordered anew, with _AS_IS kept chunks keep their sequence and new ones go behind. With
 * racks copies of a chunk that share a rack move to others that have two fewer of them or less
 * still, and no move leaves the copies less even over racks than they were, but where a chunk would
 * otherwise have too few holders that are not gone. A pure function of its arguments: the same plan
 * on every machine for the same numbers. `plan` is not changed; the caller owns *next. changes:
 * NULL if it is of no interest. Errors: ARGUMENT (a number out of range, or a plan that would be
 * too large), NO_MEMORY.
 */
TARRY_API int tarry_plan_evolve(const tarry_plan *plan, const tarry_plan_evolution *wanted,
                                const tarry_allocator *allocator, tarry_plan **next,
                                tarry_plan_changes *changes, tarry_diagnostic *diagnostic);

/*
 * Carries the known costs of one plan's chunks to the chunks of another plan of the same origins:
 * the cost of each chunk (>= 0, per chunk of `from`) is spread evenly over its spans and collected
 * over those of each chunk of `to` (carried: per chunk of `to`). Errors: NO_MEMORY.
 */
TARRY_API int tarry_plan_carry_cost(const tarry_plan *from, const double *cost,
                                    const tarry_plan *to, const tarry_allocator *allocator,
                                    double *carried);

#ifdef __cplusplus
}
#endif

#endif
