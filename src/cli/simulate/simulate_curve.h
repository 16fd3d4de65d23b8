/* SPDX-License-Identifier: Apache-2.0 */
/* The expected error that a round would end with at each of many deadlines. */
#ifndef CLI_SIMULATE_CURVE_H
#define CLI_SIMULATE_CURVE_H

#include <tarry/sim.h>

#include "cli/options/list.h"
#include "sim/baseline.h"

/*
 * Works out errors[i] for deadlines->values[i] seconds, one to each. What workers compute before a
 * deadline does not depend on it, so that a single round up to the last one gives all of them from
 * the server's reports; only where workers die in the middle of round `round` is each deadline
 * simulated by itself. Stop rule and observer of `settings` are not read. Errors: NO_MEMORY,
 * NUMERICAL. Of a model (own->kind): the pieces that the server knows finished by then; of
 * DropCompute if it had no deadline of its own, as the workers' one is the same.
 */
int simulate_curve(const tarry_plan *plan, const baseline_settings *own,
                   const tarry_sim_settings *settings, const real_list *deadlines, uint64_t round,
                   double *errors);

#endif
