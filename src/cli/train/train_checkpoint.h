/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRAIN_CHECKPOINT_H
#define CLI_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include <tarry/sum_log.h>

#include "cli/checkpoint/history.h"
#include "cli/runner/runner.h"
#include "cli/train/train_options.h"
#include "release/dp.h"

/* --checkpoint and --resume: when a run's state is written, and whether another run can go on from
 * it. */

typedef struct train_checkpoint train_checkpoint;

/* What a checkpoint must agree with; borrowed for the call. */
typedef struct train_identity {
    const json_t *config;   /* all options by name, as options_json gives them */
    const tarry_plan *plan; /* as the options make it */
    const dataset *train, *test;
} train_identity;

/*
 * Opens the files of options->checkpoint, borrowed; *out stays NULL without one. With --resume a
 * checkpoint is read, and compared with the options, but for those that a result does not depend
 * on, and with the data. Gives back OPTIONS_PROCEED, or the exit status after a complaint.
 */
int train_checkpoint_open(const train_options *options, const train_identity *identity,
                          train_checkpoint **out);
void train_checkpoint_close(train_checkpoint *keeper); /* NULL is allowed */

/*
 * Between two rounds, or while the runner attends: notes where the runner and its plan stand. What
 * is written is of the last such call, since a round that is broken off uses up its number. Errors:
 * NO_MEMORY.
 */
int train_checkpoint_mark(train_checkpoint *keeper, runner *runs, const tarry_plan *plan);

/* Whether one is to be written after `round` rounds. */
bool train_checkpoint_due(const train_checkpoint *keeper, uint64_t round);
/* Whether one is to be written at once, since a worker that comes back often has few arrivals left;
 * where that failed, again when it has half as many. */
bool train_checkpoint_urgent(const train_checkpoint *keeper, runner *runs);
/*
 * Writes a checkpoint of the last mark, unless that is on disk already, and tells the runner that
 * it is there. Returns TARRY_OK, or an error with a diagnostic: the next call tries again.
 * NUMERICAL is one of them, for parameters or a state of the optimizer that are not finite: they do
 * not take the place of the last that were.
 */
int train_checkpoint_write(train_checkpoint *keeper, runner *runs, size_t dimension,
                           const float *parameters, const optimizer_state *steps, history *past,
                           tarry_diagnostic *diagnostic);

/*
 * Where everyone gets the sum: what the server starts with. Sums are noted beside the checkpoint,
 * from now on until the keeper is closed or this is called again; without one (NULL) nowhere. The
 * log is at the checkpoint's steps. If it has later ones, up to `most`, and `most` is not 0, the
 * log stays at these: *after is the checkpoint's sum then. Gives back OPTIONS_PROCEED, or the exit
 * status after a complaint.
 */
int train_checkpoint_sums(train_checkpoint *keeper, uint64_t most, tarry_sum_log *log,
                          tarry_sum_id *after);

/* Whether a worker's own state is all that a later start than the checkpoint's takes. */
bool train_checkpoint_may_be_passed(const train_checkpoint *keeper);

/* The ledger of releases beside the checkpoint, which is the keeper's; without one (NULL) *out
 * stays as it is. Gives back OPTIONS_PROCEED, or the exit status after a complaint. */
int train_checkpoint_ledger(train_checkpoint *keeper, const ledger_terms *terms, ledger_file **out);

/* Whether the run goes on from a checkpoint; false for NULL. The calls of this group are for one
 * that does. */
bool train_checkpoint_resumes(const train_checkpoint *keeper);

/* Sets what a runner goes on from; valid until train_checkpoint_restore. `again`, after that: what
 * the last mark noted. `numbers` has room for a view of the parameters. *plan becomes the one that
 * was in force, the caller's, if it is another one than the options make. */
void train_checkpoint_request(train_checkpoint *keeper, bool again, float *numbers,
                              runner_request *request, tarry_plan **plan);

/* Before train_checkpoint_restore: sets the vectors, behind which *steps rounds are. `dimension` is
 * that of parameters and of the optimizer, whose state is `state`. Gives back OPTIONS_PROCEED, or
 * the exit status after a complaint. */
int train_checkpoint_vectors(const train_checkpoint *keeper, size_t dimension, float *parameters,
                             optimizer_state *state, uint64_t *steps);

/* Fills in the rounds that are done, and forgets what was read. Gives back OPTIONS_PROCEED, or the
 * exit status after a complaint. */
int train_checkpoint_restore(train_checkpoint *keeper, history *past);

#endif
