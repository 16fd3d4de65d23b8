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

#define TARRY_DIGEST_SIZE 32

typedef enum tarry_design {
    TARRY_DESIGN_CYCLIC, /* chunk i on `replication` neighbouring workers (Tandon et al., ICML 2017)
                          */
    TARRY_DESIGN_FRACTIONAL, /* groups of workers that hold the same chunks (the same) */
    TARRY_DESIGN_RANDOM, /* random simple bipartite graph; every chunk `replication` times, loads
                            differ by <= 1 */
    /* Lines (workers) and points (chunks) of finite planes, one or several side by side, of an
     * order q that is a prime power: two chunks share at most one worker. PROJECTIVE has q^2+q+1
     * workers and as many chunks, replication q+1; AFFINE q^2+q workers and q^2 chunks, replication
     * q+1, or, dually, q^2 workers and q^2+q chunks, replication q. */
    TARRY_DESIGN_PROJECTIVE,
    TARRY_DESIGN_AFFINE,
    /* Chunk i on the workers i + D modulo m, for a set D whose differences repeat least; one of
     * workers and chunks is a multiple of the other, and has a set for each such part. */
    TARRY_DESIGN_DIFFERENCE,
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
    uint32_t workers; /* m >= 1 */
    uint32_t chunks;  /* N >= 1 */
    /*
     * P >= 1: every chunk is cut into P pieces, which are the plan's units of work: wherever else a
     * chunk is spoken of, it is a piece, and there are N P. Pieces i P .. i P + P - 1 are those of
     * chunk i. With TARRY_DESIGN_FILE they lie where the file says that their chunk lies. Else each
     * has `replication` workers of its own: TARRY_DESIGN_RANDOM takes pieces for chunks; the other
     * designs hold for the N chunks' first pieces, and for their second ones, .. , each time with
     * the workers relabelled by the seed, so that the loads differ by no more than with P = 1.
     */
    uint32_t pieces;
    uint32_t replication; /* workers per chunk, 1..workers; not read with TARRY_DESIGN_FILE */
    uint32_t parts;       /* l, 1..replication (of every chunk) */
    tarry_design design;
    const char *file; /* with TARRY_DESIGN_FILE; read during creation only */
    tarry_order order;
    uint64_t seed;
} tarry_plan_settings;

typedef struct tarry_plan tarry_plan;

/* 8 workers, 8 chunks of 1 piece, replication 3, 1 part, random design, optimal order, seed 1. */
TARRY_API void tarry_plan_settings_init(tarry_plan_settings *settings);

/*
 * Makes a plan. The caller owns *plan and frees it with tarry_plan_free; it is immutable, so any
 * number of threads may read it. Errors: ARGUMENT (a setting out of range, or sizes that the design
 * does not have), FILE and FORMAT (the design's file; with its name and line), NO_MEMORY.
 */
TARRY_API int tarry_plan_create(const tarry_plan_settings *settings,
                                const tarry_allocator *allocator, tarry_plan **plan,
                                tarry_diagnostic *diagnostic);
TARRY_API void tarry_plan_free(tarry_plan *plan); /* NULL is allowed */

TARRY_API uint32_t tarry_plan_workers(const tarry_plan *plan);
TARRY_API uint32_t tarry_plan_chunks(const tarry_plan *plan); /* units of work: N P */
TARRY_API uint32_t tarry_plan_pieces(const tarry_plan *plan); /* P */
TARRY_API uint32_t tarry_plan_parts(const tarry_plan *plan);

/* delta_j: how many chunks `worker` (0..workers-1) holds; 0 is possible. */
TARRY_API uint32_t tarry_plan_load(const tarry_plan *plan, uint32_t worker);
/* The chunk that `worker` computes at `position` (0..load-1) of its order. */
TARRY_API uint32_t tarry_plan_chunk(const tarry_plan *plan, uint32_t worker, uint32_t position);
/* gamma_i: how many workers hold `chunk` (0..chunks-1). */
TARRY_API uint32_t tarry_plan_replication(const tarry_plan *plan, uint32_t chunk);
/* The index-th holder (0..replication-1) of `chunk`, in ascending order of workers. */
TARRY_API uint32_t tarry_plan_holder(const tarry_plan *plan, uint32_t chunk, uint32_t index);
/* The position that `chunk` has in the order of its index-th holder. */
TARRY_API uint32_t tarry_plan_position(const tarry_plan *plan, uint32_t chunk, uint32_t index);

/* R[part][worker]: the weight of the worker's coded part in `part` (0..parts-1) of the sum. */
TARRY_API double tarry_plan_decode_weight(const tarry_plan *plan, uint32_t part, uint32_t worker);

/*
 * Q_l: how many chunks the cluster may have to process, at worst, before every chunk has `copies`
 * (1..least replication) copies (Ramamoorthy et al., arXiv 2405.19509, section 4); and a value that
 * no order of the same assignment can go below.
 */
TARRY_API uint64_t tarry_plan_q(const tarry_plan *plan, uint32_t copies);
TARRY_API uint64_t tarry_plan_q_bound(const tarry_plan *plan, uint32_t copies);

typedef struct tarry_conditioning {
    double
        worst; /* largest 1/sigma_min(R_S) over the sets S of `parts` workers that share a chunk */
    double median;    /* the median of the same */
    uint64_t subsets; /* how many sets were looked at */
    bool complete;    /* whether these were all that can occur; otherwise a seeded sample */
} tarry_conditioning;

TARRY_API tarry_conditioning tarry_plan_conditioning(const tarry_plan *plan);

/* SHA-256 over the assignment, the orders and the decode matrix: equal digests, equal plans. */
TARRY_API void tarry_plan_digest(const tarry_plan *plan, uint8_t digest[TARRY_DIGEST_SIZE]);

#endif
