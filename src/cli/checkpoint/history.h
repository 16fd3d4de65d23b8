/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training run did: the material of the closing table and the report.
 *
 * Totals are in memory. The rounds are in an append-only file, one line of JSON
 * each. A run with checkpoints keeps the file next to them; any other run has a file
 * without a name. A round's line is written when the round is over. Lines that can't be written
 * stay in memory, and are tried again with the next line.
 *
 * A checkpoint has the number of the lines that count and their seal; lines are synced before it is
 * written. So each checkpoint finds its rounds, however the process or the machine ended. The
 * process that resumes cuts off the lines behind them; the last of these may be torn. The seal of
 * no line is zeros. The seal of n lines is the SHA-256 of the seal of n - 1 lines and the bytes of
 * the last line.
 */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tarry/error.h>
#include <tarry/local.h>
#include <tarry/sum_log.h>

#include "cli/job/gradients.h"
#include "learn/network.h"

enum { HISTORY_SEAL_BYTES = 32 };

/* NaN stands for what was not worked out. */
typedef struct history_round {
    tarry_round_result result; /* after reading back: without its times */
    double seconds;
    double signal_seconds; /* from the start to the first encode signal; NaN: none was sent */
    objective_score train; /* of the parameters that it began with */
    objective_score test;
    tarry_plan_changes changes; /* to the plan before the round */
    verified_round verified;
    double saturation; /* the share of numbers beyond the bound of secure sums; NaN: they are not
                          secure */
    bool lost;         /* nothing else is known: its process ended before it wrote this down */
} history_round;

/* What a worker did in the earlier processes of a resumed run. */
typedef struct history_share {
    uint64_t chunks;
    double seconds;
} history_share;

/* What a run has told of its examples, with --dp. */
typedef struct history_privacy {
    bool counted;      /* else there is no noise, and no account */
    bool secret;       /* draws and noise are the system's, not those of a seed */
    bool spent;        /* the budget ended the run */
    uint64_t releases; /* of sums; those of processes that were killed, too */
    double epsilon, delta;
} history_privacy;

/* Sums and extremes over rounds. */
typedef struct history_totals {
    size_t rounds; /* that are counted here: of lost ones nothing is */
    size_t lost;
    size_t exact;
    double seconds, copies, needed, attempts, moved, split, merged;
    double control_bytes, control_messages, upload_bytes, expected_error;
    verified_round worst; /* the largest of each; NaN if none was verified */
    size_t saturated;     /* rounds whose saturation is known */
    double saturation_sum, saturation_most;
} history_totals;

typedef struct history_log history_log;

typedef struct history {
    size_t first;          /* rounds before it are not known: their record was lost */
    size_t count;          /* rounds done, those before `first` included */
    history_totals totals; /* of all rounds that are known */
    double *times;         /* their seconds, timed of them; sorting them harms nobody */
    size_t timed, room;
    history_log *log;                        /* these rounds; NULL: they are not kept */
    objective_score train_begin, test_begin; /* of the run; NaN if that round is not known */
    uint32_t workers;
    uint32_t chunks;
    tarry_worker_state *worker; /* workers of them, as they stood at the end; all processes */
    history_share *earlier;     /* workers of them */
    bool resumed;               /* a process before this one did rounds */
    size_t resumed_after;       /* they are as many */
    double earlier_seconds;     /* of `seconds` */
    objective_score train_end;  /* of the parameters as they were last looked at */
    objective_score test_end;   /* NaN without test samples */
    double seconds;             /* of the whole run, evaluations included, without
                                   the time between a checkpoint and going on from it */
    history_privacy privacy;
    bool interrupted;
    char error[TARRY_DIAGNOSTIC_SIZE + 256]; /* what ended the run early; empty if nothing did */
} history;

/* Errors: NO_MEMORY. */
int history_create(uint32_t workers, uint32_t chunks, history **out);
void history_free(history *past); /* NULL is allowed */

/* A round of which nothing is known: zeroed, with scores and errors NaN. */
extern const history_round history_blank_round;

/*
 * Rounds go to a file without a name in the folder of `path`. If the folder can't have one, the
 * file is in the folder TMPDIR or in /tmp. If none of them can, rounds stay in memory. Call it
 * before the first round, and not for a history that is saved.
 */
void history_use_file(history *past, const char *path);
/* Keeps only totals. Call it before the first round. */
void history_forget_rounds(history *past);

/* Adds a round that is over. Errors: NO_MEMORY; the round is counted all the same, but the history
 * can no longer be saved or read back. */
int history_add(history *past, const history_round *round);
/* Adds so many that are lost. Errors: NO_MEMORY. */
int history_add_lost(history *past, size_t count);
/* Forgets all rounds; the next one is `first`. */
void history_clear(history *past, size_t first);

/* Takes one round and the scores after it: these are the scores that the next round began with, or
 * the end's. Returns TARRY_OK, or an error, which ends the reading. */
typedef int history_visit(void *user, const history_round *round, objective_score train,
                          objective_score test);
/* Visits rounds first..count - 1, which are kept. Errors: FILE, FORMAT, NO_MEMORY, with a
 * diagnostic; an error of `visit`, without a diagnostic. */
int history_each(const history *past, history_visit *visit, void *user,
                 tarry_diagnostic *diagnostic);
/* The scores that a run began with: NaN if they are not known. */
objective_score history_train_begin(const history *past);
objective_score history_test_begin(const history *past);

/*
 * Syncs the rounds to the file at `path`, which is the same in all calls and is borrowed until
 * history_free, and sets the seal of its lines. Only a history, or an empty file, is replaced
 * there. A file that was removed is written again. If another program cut lines off, all rounds so
 * far are forgotten. Errors: FILE, NO_MEMORY, with a diagnostic: the next call tries again.
 */
int history_save(history *past, const char *path, uint8_t seal[HISTORY_SEAL_BYTES],
                 tarry_diagnostic *diagnostic);
/*
 * Fills `past`, new, with rounds first..count - 1 of such a file, whose lines must have this seal.
 * The file need not be there if `count` is 0. NULL: only checks the lines. Errors: FILE, FORMAT
 * (with the number of a line that is broken), NO_MEMORY, with a diagnostic; *past has no rounds
 * then.
 */
int history_restore(history *past, const char *path, size_t first, size_t count,
                    const uint8_t seal[HISTORY_SEAL_BYTES], tarry_diagnostic *diagnostic);

/* Takes one round; TARRY_OK, or an error, which ends the reading. */
typedef int history_take(void *user, const history_round *round);
/*
 * Reads `count` lines of a stream; any bytes may come in. `name` is for messages. Sets *seal and
 * *size, in bytes, of the lines. Errors: FILE, FORMAT, NO_MEMORY, with a diagnostic; an error of
 * `take`, without a diagnostic.
 */
int history_lines(FILE *stream, const char *name, uint64_t count, history_take *take, void *user,
                  uint8_t seal[HISTORY_SEAL_BYTES], uint64_t *size, tarry_diagnostic *diagnostic);

/* The seconds so far and what each worker did, as bytes: little-endian, history_encoded_size of
 * them. */
size_t history_encoded_size(const history *past);
void history_encode(const history *past, uint8_t *bytes);
/* Fills in what was done `earlier`. Any bytes may come in. Errors: FORMAT (of another number of
 * workers); *past is unchanged then. */
int history_decode(history *past, const uint8_t *bytes, size_t size);

/* Of a round: how often a chunk was computed. */
static inline double history_copies_per_chunk(const tarry_round_result *result)
{
    return (double)result->copies_computed * result->parts / (double)result->copies_needed;
}

/* A round of a training as a line of JSON: one object, its keys always the same and in the same
 * order (docs/reports.md lists them). */

enum { ROUND_LINE_BYTES = 4096 }; /* more than the longest line and the byte behind it */

/*
 * Writes the line with its line end; *length counts both. Numbers come back as they were, but NaN
 * and infinity are null. Errors: NO_MEMORY.
 */
int round_line_write(const history_round *round, char line[ROUND_LINE_BYTES], size_t *length);
/*
 * Reads `length` bytes, which may be any. null is NaN. Of the times in the result none is set.
 * Errors: FORMAT, with a diagnostic: no such object, or figures that no round has; *round is
 * unchanged then.
 */
int round_line_read(const char *line, size_t length, history_round *round,
                    tarry_diagnostic *diagnostic);

/*
 * The log of committed sums on disk, beside a run's checkpoints (tarry/sum_log.h): appended to and
 * synced before any worker steps. A run that goes on from a checkpoint goes back to the steps that
 * this one has; what was committed after it is void then.
 *
 * Little-endian: name 8, version 4, bytes of an entry 4; then each entry: step 8, term 4, attempt
 * 4, digest 8, and the first 8 bytes of the SHA-256 of these. An entry at the end that is torn is
 * cut off by who goes on.
 */

enum { SUMS_HEAD_BYTES = 16, SUMS_ENTRY_BYTES = 32 };

typedef struct sums_file sums_file;

/*
 * Opens, or makes, the file, which is locked with the checkpoint beside it. *log is what a server
 * starts with: for a run that goes on, the entries up to `steps`, and a term that is noted, so that
 * no other start has it; for a new one what was there of another run is dropped.
 * The caller owns *out, which `log` uses. Errors: FILE, FORMAT (no such file, or without the
 * steps), NO_MEMORY, with a diagnostic.
 */
int sums_file_open(const char *path, bool goes_on, uint64_t steps, sums_file **out,
                   tarry_sum_log *log, tarry_diagnostic *diagnostic);
void sums_file_close(sums_file *file); /* NULL is allowed */

/* What a log's bytes say, for sums_file_open: any bytes may come in. last: the entries of `steps`
 * and of the one before; *term: the highest; *valid: bytes that are whole. Errors:
 * FORMAT, with a diagnostic. */
int sums_file_read(const uint8_t *bytes, size_t size, uint64_t steps, tarry_sum_id last[2],
                   uint32_t *term, size_t *valid, tarry_diagnostic *diagnostic);

/* The step that the log at `path` is at, `steps` or later, for a run that goes on; *entry: the one
 * of `steps`. Errors: as sums_file_open. */
int sums_file_newest(const char *path, uint64_t steps, uint64_t *newest, tarry_sum_id *entry,
                     tarry_diagnostic *diagnostic);

#endif
