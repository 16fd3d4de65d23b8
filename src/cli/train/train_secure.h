/* SPDX-License-Identifier: Apache-2.0 */
/* What a training run with --secure sees to itself, before workers would refuse it and end. */
#ifndef CLI_TRAIN_SECURE_H
#define CLI_TRAIN_SECURE_H

#include "cli/train/train_job_state.h"

/*
 * Chooses the job's rules: a grid on which sums over the chunks of the plan, and of plans that
 * follow it, can't wrap. Without secure sums nothing happens. Errors: ARGUMENT (too few bits, too
 * few samples in a chunk, or too few that colluders do not hold), NO_MEMORY, with a diagnostic.
 */
int train_secure_choose_rules(train_job *job, tarry_diagnostic *why);

/* True if workers would take a plan that is to follow: its chunks are large enough, and sums over
 * them can't wrap. Without secure sums they take any. */
bool train_secure_allows(const train_job *job, const tarry_plan *plan);

/* Sets round->saturation of a round that was summed. Errors: STATE (it is above
 * TARRY_SECURE_CLAMPED_MOST), with a diagnostic. */
int train_secure_check_round(const train_job *job, history_round *round, tarry_diagnostic *why);

#endif
