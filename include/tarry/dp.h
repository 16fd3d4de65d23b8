/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trainings with differential privacy: what `tarry train --dp` and tarry.torch.join(dp=...) are
 * made of. Who owns the sums has a tarry_dp: it counts each release in a ledger, and then adds the
 * noise. Whoever computes draws its samples by keys that come from there, and shortens what each
 * of them adds to `clip`. docs/privacy.md has the argument, privacy.h what it is worth.
 */
#ifndef TARRY_DP_H
#define TARRY_DP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarry/api.h>
#include <tarry/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARRY_DP_KEY_BYTES 32

typedef struct tarry_dp_terms {
    size_t size;   /* of this structure: its init sets it */
    double clip;   /* the most that an example adds to a sum; > 0 */
    double noise;  /* standard deviation over clip; > 0 */
    double sample; /* the probability with which an example is in a round, above 0 and up to 1 */
    double delta;  /* above 0 and below 1 */
    double budget; /* the largest epsilon; INFINITY: none */
    uint64_t seed;
    bool seeded; /* the draws and the noise are those of `seed`: nothing is private */
} tarry_dp_terms;

/* Clip and noise 1, all examples in each round, delta 1e-5, no budget. */
#define tarry_dp_terms_init(terms) tarry_dp_terms_init_sized((terms), sizeof(*(terms)))
TARRY_API void tarry_dp_terms_init_sized(tarry_dp_terms *terms, size_t size);

/* Reads "clip:C,noise:SIGMA,sample:Q", with delta:D (else 1e-5), budget:EPS and seed:N behind it
 * where they are given, in any order, into terms that were initialized. Errors: FORMAT, ARGUMENT
 * (not initialized), with a diagnostic; *terms is untouched. */
TARRY_API int tarry_dp_terms_read(const char *text, tarry_dp_terms *terms,
                                  tarry_diagnostic *diagnostic);

/* The owner of the sums: keys, which it gets from the system, and the account. One thread at a
 * time. */
typedef struct tarry_dp tarry_dp;

/*
 * For sums over so many samples. ledger: the path of a file that counts releases, which is made
 * where `goes_on` is false and has to be there where it is true; no other process can use it
 * meanwhile. NULL: nobody goes on after this one. The caller frees *out. Errors: ARGUMENT (terms
 * that make no sense: delta is not below one in the samples, the budget not enough for one round),
 * FILE, FORMAT (no ledger, of other terms, or damaged), STATE (a new ledger where an earlier one
 * has releases; one that is in use), SYSTEM (no random numbers), NO_MEMORY, with a diagnostic.
 */
TARRY_API int tarry_dp_create(const tarry_dp_terms *terms, uint64_t samples, const char *ledger,
                              bool goes_on, tarry_dp **out, tarry_diagnostic *diagnostic);
TARRY_API void tarry_dp_free(tarry_dp *self); /* NULL is allowed */

/* How many sums were released, with those that the ledger had before. */
TARRY_API uint64_t tarry_dp_releases(const tarry_dp *self);

/* Where a ledger is after so many releases. `seal` depends on the run and on all entries so far; 0:
 * not known. */
typedef struct tarry_dp_mark {
    uint64_t releases;
    uint64_t seal;
} tarry_dp_mark;

/* The mark after the last release: write it into each checkpoint. Zeros without a ledger. */
TARRY_API void tarry_dp_mark_get(const tarry_dp *self, tarry_dp_mark *mark);

/*
 * Checks a ledger that a run resumes with: it must have all releases that it had at `mark`, when a
 * checkpoint was written after `rounds` rounds, and at least as many as rounds. Otherwise it was
 * cut off, or is of another run, and epsilon would be too small: do not resume. Errors: FORMAT,
 * FILE, STATE (without a ledger), NO_MEMORY, with a diagnostic that names both counts.
 */
TARRY_API int tarry_dp_mark_check(const tarry_dp *self, const tarry_dp_mark *mark, uint64_t rounds,
                                  tarry_diagnostic *diagnostic);

/* Sets *spent: whether one more release would exceed the budget. May take some seconds, once, near
 * its end. Errors: NO_MEMORY. */
TARRY_API int tarry_dp_spent(tarry_dp *self, bool *spent, tarry_diagnostic *diagnostic);

/*
 * Releases a sum, which has to be exact: counts it, durably if there is a ledger, and then adds the
 * noise to all its numbers. After an error the sum must not be used. Errors: FILE (it could not be
 * counted), NUMERICAL (a number of it is NaN or infinite), NO_MEMORY, with a diagnostic. After the
 * last two the sum is counted, and its numbers are zeros. The diagnostic of NUMERICAL names the
 * round: the number of the release, from 1 on.
 */
TARRY_API int tarry_dp_release(tarry_dp *self, float *sum, size_t count,
                               tarry_diagnostic *diagnostic);

/* The least epsilon that is known for what was released so far; takes some tenths of a second.
 * Errors: NO_MEMORY. */
TARRY_API int tarry_dp_epsilon(const tarry_dp *self, double *epsilon, tarry_diagnostic *diagnostic);
/* An upper bound of it, by Renyi divergences, which takes no time. */
TARRY_API double tarry_dp_bound(tarry_dp *self);

/* The key by which samples of a piece of the data are drawn, and no others. Who computes the piece
 * gets it, and keeps it secret. Errors: NO_MEMORY. */
TARRY_API int tarry_dp_piece_key(const tarry_dp *self, uint64_t piece,
                                 uint8_t key[TARRY_DP_KEY_BYTES], tarry_diagnostic *diagnostic);

/* Those of the samples first .. first + count - 1 that are in the round, each by itself with the
 * probability `sample`, ascending: *drawn of them, for which `samples` has room for `count`.
 * Errors: ARGUMENT (no probability), NO_MEMORY. */
TARRY_API int tarry_dp_draw(const uint8_t key[TARRY_DP_KEY_BYTES], double sample, uint64_t round,
                            uint64_t first, size_t count, size_t *samples, size_t *drawn,
                            tarry_diagnostic *diagnostic);

#ifdef __cplusplus
}
#endif

#endif
