/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands between a round's sum and all who use it, with --dp: the noise, and the account of
 * what was released. docs/privacy.md has the argument.
 */
#ifndef CLI_TRAIN_PRIVACY_H
#define CLI_TRAIN_PRIVACY_H

#include <tarry/server.h>

#include "cli/checkpoint/history.h"
#include "cli/checkpoint/ledger_file.h"
#include "cli/train/dp_option.h"
#include "privacy/sampler.h"

typedef struct train_privacy train_privacy;

/*
 * For releases of `rounds` rounds at most, behind those that the ledger has; it is borrowed, and
 * NULL where nobody goes on after this process. Keys are the system's, unless the option has a
 * seed. Gives back OPTIONS_PROCEED, or the exit status after a complaint.
 */
int train_privacy_create(const dp_option *option, size_t samples, uint64_t rounds,
                         ledger_file *ledger, train_privacy **out);
void train_privacy_free(train_privacy *self); /* NULL is allowed */

/* What the workers draw samples by. */
const sampler *train_privacy_draws(const train_privacy *self);

/* Sets *spent: whether one more release would exceed the budget. Errors: NO_MEMORY. */
int train_privacy_spent(train_privacy *self, bool *spent, tarry_diagnostic *diagnostic);

/*
 * Releases the sum of a round: counts it, durably where there is a ledger, and then adds the noise.
 * After an error the sum is not to be used. Errors: STATE (it is not exact: one example may change
 * it by more), FILE (it could not be counted), NO_MEMORY, with a diagnostic.
 */
int train_privacy_release(train_privacy *self, const tarry_round_result *result, float *sum,
                          size_t dimension, tarry_diagnostic *diagnostic);

/* An epsilon for what was released so far: an upper bound that takes no time, by Renyi
 * divergences. */
double train_privacy_bound(train_privacy *self);
/* The whole account, with the least epsilon that is known, which takes some tenths of a second.
 * Errors: NO_MEMORY. */
int train_privacy_account(const train_privacy *self, history_privacy *account,
                          tarry_diagnostic *diagnostic);

#endif
