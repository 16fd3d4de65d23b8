/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands between a round's sum and all who use it, with --dp: a tarry_dp (tarry/dp.h), as the
 * tool has it. docs/privacy.md has the argument.
 */
#ifndef CLI_TRAIN_PRIVACY_H
#define CLI_TRAIN_PRIVACY_H

#include <tarry/server.h>

#include "cli/checkpoint/history.h"
#include "release/dp.h"

/*
 * For releases behind those that the ledger has; it is borrowed, and NULL where nobody goes on
 * after this process. Gives back OPTIONS_PROCEED, or the exit status after a complaint.
 */
int train_privacy_create(const tarry_dp_terms *terms, size_t samples, ledger_file *ledger,
                         tarry_dp **out);

/*
 * Releases the sum of a round, and gives it its noise. After an error the sum is not to be used.
 * Errors: STATE (it is not exact: one example may change it by more), and those of
 * tarry_dp_release, with a diagnostic.
 */
int train_privacy_release(tarry_dp *privacy, const tarry_round_result *result, float *sum,
                          size_t dimension, tarry_diagnostic *diagnostic);

/* The whole account, with the least epsilon that is known, which takes some tenths of a second.
 * Errors: NO_MEMORY. */
int train_privacy_account(const tarry_dp *privacy, history_privacy *account,
                          tarry_diagnostic *diagnostic);

#endif
