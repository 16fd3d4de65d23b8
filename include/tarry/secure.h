/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secure sums over a network (tcp.h): the server learns the sum of a round and nothing of any
 * single worker. docs/privacy.md says against whom, and what stays visible.
 *
 * The server announces rules. A worker whose settings ask for secure sums holds the server to
 * them: it takes no others, and ends rather than send what a rule forbids. What a worker has to
 * remember from one run to the next (what it agreed to, and which attempts it has taken part in)
 * is its caller's to keep, by two functions; tarry_secure_memory has both, over files.
 */
#ifndef TARRY_SECURE_H
#define TARRY_SECURE_H

#include <tarry/api.h>
#include <tarry/plan.h>
#include <tarry/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* By which rules a server wants sums made; the same for all its workers. */
typedef struct tarry_secure_rules {
    uint32_t bits;    /* w, of a masked number: 32 or 64; 0: sums are not secure */
    int32_t fraction; /* f: a masked number counts multiples of 2^-f; -126..126 */
    double bound;     /* B: the numbers of a chunk's gradient are clamped to -B..B; with the plan's
                         chunks, 2^f B chunks < 2^(w-1) */
    uint32_t colluders; /* T: so many workers may tell the server all that they know */
    uint64_t least;     /* samples that no T colluders hold under the plan, at least */
    uint8_t roster[TARRY_DIGEST_SIZE]; /* of the list of workers that may take part; a server sets
                                          it from that in its credentials */
} tarry_secure_rules;

/* Sets bits, bound and the largest fraction with which sums over so many chunks can't wrap. Errors:
 * ARGUMENT (bits that are neither 32 nor 64, a bound that is none, or there is no such fraction).
 */
TARRY_API int tarry_secure_rules_choose(uint32_t bits, double bound, uint64_t chunks,
                                        tarry_secure_rules *rules);

/* What a worker is asked to agree to; borrowed for the call. */
typedef struct tarry_secure_offer {
    const tarry_secure_rules *rules;
    uint32_t worker;
    uint8_t job_id[TARRY_JOB_ID_SIZE];
    const void *job; /* as `begin` had it */
    size_t job_size;
    const tarry_plan *plan;
    size_t dimension;
    uint8_t data[TARRY_DIGEST_SIZE]; /* as `begin` gave it back; zeros: it can't tell */
} tarry_secure_offer;

/* An attempt that the worker is about to send its part of, or has begun to. */
typedef struct tarry_secure_attempt {
    uint8_t job_id[TARRY_JOB_ID_SIZE];
    uint32_t epoch;
    uint64_t round;
    uint32_t attempt;
    uint8_t kappa[TARRY_DIGEST_SIZE]; /* of all that the part and its masks depend on */
} tarry_secure_attempt;

/* The share of a part's numbers that may be beyond the bound, unless a worker's owner allows more:
 * a thousandth. Numbers beyond the bound are all the same, so that a sum would show the rest. */
#define TARRY_SECURE_CLAMPED_MOST 0.001

/* What a worker insists on. */
typedef struct tarry_secure_member {
    bool required; /* the server has to announce rules; false: it must not */
    /*
     * The share of the numbers of the gradients in a part that may be clamped to the bound, or not
     * finite. With more the worker ends, and sends nothing of that part. 0:
     * TARRY_SECURE_CLAMPED_MOST; 1: any.
     */
    double clamped_most;
    const char *bound_name; /* what the worker's owner calls the bound; borrowed. NULL: "bound" */
    /*
     * Whether the worker works by these rules and this plan: the rules are those that it is to
     * insist on, the data are those that it agreed to before, the plan covers them exactly once,
     * and with all that it agreed to before leaves samples that no colluders hold. *target is what
     * sums of this job are of, as all workers have to see it. Called in a thread of the worker
     * after `begin`, and for each later plan of the job; not TARRY_OK: the worker ends with this
     * error and diagnostic. NULL: any rules; *target is `data`. The runtime itself checks the
     * roster, and that nothing can wrap.
     */
    int (*agree)(void *user, const tarry_secure_offer *offer, uint8_t target[TARRY_DIGEST_SIZE],
                 tarry_diagnostic *diagnostic);
    /*
     * Called before the first byte of a part is sent: returns TARRY_OK once it is noted durably
     * that the worker has taken part in this attempt, and only if (epoch, round, attempt) is beyond
     * all that were noted for the job, or is the last of them with the same kappa. In a thread of
     * the worker; otherwise as `agree`. NULL: this process alone remembers.
     */
    int (*lock)(void *user, const tarry_secure_attempt *attempt, tarry_diagnostic *diagnostic);
    void *user;
} tarry_secure_member;

/* ---- what a worker remembers ---- */

/*
 * Files in the folder `secure` beside a worker's credentials, which nobody but its owner changes:
 * the samples that are summed, the grid, how far the worker has sent in each job, and which samples
 * each worker held under all accepted plans over those samples, of whatever job. An offer is
 * written down once it has passed all checks; whatever does not go with that is refused, in this
 * life of the worker and in the next. One process at a time has the folder.
 */
typedef struct tarry_secure_memory tarry_secure_memory;

typedef struct tarry_secure_memory_settings {
    size_t size;             /* of this structure: its init sets it */
    const char *credentials; /* the worker's folder; for the call */
    uint32_t colluders;      /* the least that the server has to reckon with */
    uint64_t least; /* samples that it has to leave to one sum, at least; 0: an eighth of all */
    /* What diagnostics call these two; borrowed. NULL: "colluders" and "least". */
    const char *colluders_name, *least_name;
    /*
     * The grid that the server has to have: bits of a masked number (0: 32), and the bound of a
     * chunk's numbers (0: TARRY_SECURE_BOUND_PER_SAMPLE times the samples of the largest original
     * chunk). The fraction has to be the finest for the original chunks, or up to four less, for
     * plans of up to 16 times as many chunks; and the bound at least 4096 steps of the grid.
     */
    uint32_t bits;
    double bound;
    uint64_t chunk_samples; /* that each chunk of a plan has at least; 0: 32 */
    /* What diagnostics call these. NULL: "bits", "bound" and "chunk_samples". */
    const char *bits_name, *bound_name, *chunk_samples_name;
    /* Called with a line for what a file holds the worker to from now on, in a thread of the
     * worker. NULL: nobody. */
    void (*tell)(void *user, const char *line);
    void *user;
} tarry_secure_memory_settings;

/* A default bound: a sample adds to a number of its chunk's gradient seldom more than that. */
#define TARRY_SECURE_BOUND_PER_SAMPLE 4.0

/* One colluder; everything else 0. */
#define tarry_secure_memory_settings_init(settings)                                                \
    tarry_secure_memory_settings_init_sized((settings), sizeof(*(settings)))
TARRY_API void tarry_secure_memory_settings_init_sized(tarry_secure_memory_settings *settings,
                                                       size_t size);

/* Opens the folder; a missing one is made. The caller closes *out, after the worker was freed.
 * Errors: ARGUMENT, STATE (another process has it), FILE, NO_MEMORY. */
TARRY_API int tarry_secure_memory_open(const tarry_secure_memory_settings *settings,
                                       tarry_secure_memory **out, tarry_diagnostic *diagnostic);
TARRY_API void tarry_secure_memory_close(tarry_secure_memory *memory); /* NULL is allowed */

/*
 * From within `begin`: of so many samples, all of which are in each sum, the job's original chunk i
 * has begins[i] .. begins[i + 1] - 1, for i below `origins`; begins[0] is 0, and begins[origins]
 * is `samples`. They are copied. NULL: floor(i samples / origins) stands for begins[i]. Errors:
 * ARGUMENT, NO_MEMORY; what was there before stays.
 */
TARRY_API int tarry_secure_memory_samples(tarry_secure_memory *memory, uint64_t samples,
                                          uint32_t origins, const uint64_t *begins);

/* `agree` and `lock` of tarry_secure_member, whose user is the memory; for jobs whose `begin` has
 * told the samples, and given a digest of their content back. Errors: STATE (something else was
 * agreed on, or less), FORMAT (a plan that does not cover the samples once, a file that is none),
 * FILE, NO_MEMORY. */
TARRY_API int tarry_secure_memory_agree(void *memory, const tarry_secure_offer *offer,
                                        uint8_t target[TARRY_DIGEST_SIZE],
                                        tarry_diagnostic *diagnostic);
TARRY_API int tarry_secure_memory_lock(void *memory, const tarry_secure_attempt *attempt,
                                       tarry_diagnostic *diagnostic);

#ifdef __cplusplus
}
#endif

#endif
