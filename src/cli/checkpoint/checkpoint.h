/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training run between two rounds, as bytes: all that another process needs to go on with it, but
 * for the rounds that are done, which lie in a log beside it (history_log.h). The
 * state of random numbers is the number of the next round, since every draw is a function of the
 * seed and that number (base/random.h).
 *
 * Little-endian:
 *   name 8, version 4, vectors 4, job 16, data 32, rounds 32, round 8, dimension 8, decayed 8,
 *   square_decayed 8, seen 8, ledger 16, and the sizes of config, plan, server and history, 8 each
 *   config, plan, server, history
 *   the vectors, `dimension` float32 each
 *   SHA-256 of all before it 32
 */
#ifndef CLI_CHECKPOINT_H
#define CLI_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include <tarry/dp.h>
#include <tarry/error.h>

#include "cli/runner/runner.h"

#define CHECKPOINT_VECTORS                                                                         \
    4 /* parameters, the optimizer's velocity and square, and what workers saw of the parameters   \
       */
#define CHECKPOINT_DIGEST_SIZE 32

typedef struct checkpoint_part {
    const uint8_t *bytes;
    size_t size;
} checkpoint_part;

typedef struct checkpoint {
    uint8_t job[TARRY_JOB_ID_SIZE];
    uint8_t data[CHECKPOINT_DIGEST_SIZE];   /* what it trains on */
    uint8_t rounds[CHECKPOINT_DIGEST_SIZE]; /* of those done, as history_log has it */
    uint64_t round;                         /* the next one's number: so many are done */
    double decayed, square_decayed;         /* of the optimizer; 0..1 */
    checkpoint_part config;                 /* the options that the result depends on */
    checkpoint_part plan;                   /* the plan in force, as plan_encode writes it */
    checkpoint_part server;                 /* as tarry_server_checkpoint writes it */
    checkpoint_part history;                /* as history_encode writes it */
    size_t dimension;                       /* >= 1 */
    uint32_t vectors;                       /* 1..CHECKPOINT_VECTORS */
    uint64_t seen; /* the last of these is a view of the parameters: 1 + its round; 0: it is not */
    tarry_dp_mark ledger; /* with --dp: the ledger must not fall behind this; else zeros */
} checkpoint;

/* Takes the next bytes; TARRY_OK, or an error, which ends the encoding. */
typedef int checkpoint_put(void *user, const uint8_t *bytes, size_t size);

/* Hands the bytes to `put`, piece by piece: no copy of the whole is made. `vectors` are those of
 * `state`. Errors: NO_MEMORY, those of `put`. */
int checkpoint_encode(const checkpoint *state, const float *const vectors[], checkpoint_put *put,
                      void *user);

/*
 * Finds the parts of a checkpoint; they stay those of `bytes`, the vectors too, which
 * checkpoint_numbers reads. Any bytes may come in, and no memory is taken in proportion to what
 * they say. What the parts hold is not looked at. Errors: FORMAT (no checkpoint, another version,
 * damaged), NO_MEMORY (for a digest).
 */
int checkpoint_decode(const uint8_t *bytes, size_t size, checkpoint *state,
                      const uint8_t *vectors[CHECKPOINT_VECTORS], tarry_diagnostic *diagnostic);

/* Numbers of a vector that checkpoint_decode found. */
void checkpoint_numbers(const uint8_t *bytes, size_t count, float *numbers);

#endif
