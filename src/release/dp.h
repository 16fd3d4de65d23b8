/* SPDX-License-Identifier: Apache-2.0 */
/* What the tool asks of a tarry_dp beside its users. */
#ifndef RELEASE_DP_H
#define RELEASE_DP_H

#include <tarry/dp.h>

#include "privacy/sampler.h"
#include "release/ledger_file.h"

/* As tarry_dp_create; the ledger is borrowed, and NULL where there is none. */
int dp_create(const tarry_dp_terms *terms, uint64_t samples, ledger_file *ledger, tarry_dp **out,
              tarry_diagnostic *diagnostic);

/* As tarry_dp_release; errors name the round. */
int dp_release(tarry_dp *self, uint64_t round, float *sum, size_t count,
               tarry_diagnostic *diagnostic);

const tarry_dp_terms *dp_terms(const tarry_dp *self);
/* What samples are drawn by where all is in one process. */
const sampler *dp_draws(const tarry_dp *self);

#endif
