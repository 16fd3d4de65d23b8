/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training run between two rounds, as bytes: all that another process needs to go on with it, but
 * for the rounds that are done, which lie in a file next to it (history.h). The
 * state of random numbers is the number of the next round, since every draw is a function of the
 * seed and that number (base/random.h).
 *
 * Little-endian:
 *   name 8, version 4, vectors 4, job 16, data 32, rounds 32, round 8, first 8, dimension 8,
 *   decayed 8, square_decayed 8, seen 8, ledger 16
 *   the sizes of config, plan, server and history, 8 each
 *   config, plan, server, history
 *   the vectors, `dimension` float32 each
 *   SHA-256 of all before it 32
 */
#ifndef CLI_CHECKPOINT_H
#define CLI_CHECKPOINT_H

#include <stdbool.h>
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
    uint8_t rounds[CHECKPOINT_DIGEST_SIZE]; /* the seal of their lines (history.h) */
    uint64_t round;                         /* the next one's number: so many are done */
    uint64_t first;                         /* rounds before it have no lines */
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

/*
 * A lock that one process at a time has, and that ends with the process however it ends: an empty
 * file that is locked. Who lets it go removes the file; one that a killed process left locks nobody
 * out.
 */

typedef enum file_lock_state {
    FILE_LOCK_TAKEN,
    FILE_LOCK_HELD,        /* by another process, or another descriptor of this one */
    FILE_LOCK_UNAVAILABLE, /* no such file can be made there, or the file system knows no locks */
    FILE_LOCK_FOREIGN,     /* what has the name is no lock: not a file, or not empty */
} file_lock_state;

/* *descriptor is set, for file_lock_drop, if the lock was taken. It is closed by exec. */
file_lock_state file_lock_take(const char *path, int *descriptor);

/* Removes the file, unless another one has its name by now, and lets the lock go. */
void file_lock_drop(const char *path, int descriptor);

/*
 * Checkpoints on disk: FILE and, as long as it was a good one, the one before it as FILE.previous.
 * However a process or machine ends, one of both is good, and FILE is there once it was: a
 * checkpoint is written to FILE.new and synced, and takes its place by a rename. (Without hard
 * links FILE is missing for a moment.) Files can be read and written by their owner only. While
 * they are open FILE.lock is locked, so that no other process writes them; it is empty, and removed
 * at the end.
 */

typedef struct checkpoint_file checkpoint_file;

/* The caller owns *out. Errors: FILE (the name is that of a folder or a device, or another process
 * has it open), NO_MEMORY, with a diagnostic. */
int checkpoint_file_open(const char *path, checkpoint_file **out, tarry_diagnostic *diagnostic);
void checkpoint_file_close(checkpoint_file *file); /* NULL is allowed */

/* The files next to it that others write. */
typedef enum checkpoint_beside {
    CHECKPOINT_HISTORY, /* FILE.history, for the rounds that a checkpoint counts on (history.h) */
    CHECKPOINT_SUMS,    /* FILE.sums, for the log of committed sums (history.h) */
    CHECKPOINT_LEDGER,  /* FILE.privacy, for the ledger of releases (dp.h) */
} checkpoint_beside;

/* The name of one; the file's. */
const char *checkpoint_file_beside(const checkpoint_file *file, checkpoint_beside which);

/* Whether there is a FILE or a FILE.previous. */
bool checkpoint_file_exists(const checkpoint_file *file);

/* What a checkpoint has to stand besides: `accept` gives back TARRY_OK, or FILE, FORMAT or
 * NO_MEMORY with a diagnostic. */
typedef struct checkpoint_test {
    int (*accept)(void *user, const checkpoint *state, tarry_diagnostic *diagnostic);
    void *user;
} checkpoint_test;

/*
 * Reads FILE or, where it is missing or damaged, or fails the test (NULL: there is none),
 * FILE.previous: `fault` then says why, and is empty otherwise. The parts and vectors belong to the
 * file, until it is closed or checkpoint_file_forget. Errors: FILE, FORMAT (none of both is good;
 * diagnostic tells of FILE), NO_MEMORY.
 */
int checkpoint_file_read(checkpoint_file *file, checkpoint *state,
                         const uint8_t *vectors[CHECKPOINT_VECTORS], const checkpoint_test *test,
                         tarry_diagnostic *fault, tarry_diagnostic *diagnostic);
void checkpoint_file_forget(checkpoint_file *file);

/* Writes FILE; what was there becomes FILE.previous if it was read or written by this process.
 * Errors: FILE, NO_MEMORY, with a diagnostic; one of both is good then as before. */
int checkpoint_file_write(checkpoint_file *file, const checkpoint *state,
                          const float *const vectors[], tarry_diagnostic *diagnostic);

/* What an earlier run's report (docs/reports.md) says of its workers, for runs to come. */

/* NaN stands for what the report doesn't say, INFINITY for no limit. */
typedef struct past_report {
    uint32_t workers, chunks; /* whole chunks */
    uint32_t pieces;          /* of a chunk; 0 from tarry simulate */
    uint64_t dimension;
    /*
     * tarry train: what each worker took for one of its chunks or pieces, on average over the run,
     * injected delays included; INFINITY for one that was lost, or finished nothing. NULL from
     * tarry simulate.
     */
    double *seconds;
    /* tarry train: bytes of the coded parts over the time from the signal to the end of the
     * round, the median over rounds. */
    double server_bandwidth;
    /* tarry simulate: as its options were. */
    double bandwidth, latency, chunk_seconds, overhead;
    char *straggler, *chunk_cost; /* NULL from tarry train */
} past_report;

/*
 * Reads the report of a tarry train or tarry simulate at `path`, or none, which says nothing, where
 * it is NULL; the caller frees *out with past_report_free. Errors: FILE; FORMAT, with the line, or
 * with the key that is missing or wrong; NO_MEMORY.
 */
int past_report_read(const char *path, past_report *out, tarry_diagnostic *diagnostic);
void past_report_free(past_report *report); /* a zeroed one is allowed */

#endif
