/* SPDX-License-Identifier: Apache-2.0 */
/* The models of sim/baseline.h in worlds of a test. */
#ifndef TEST_MODEL_H
#define TEST_MODEL_H

#include "sim/baseline.h"
#include "sim/links/network.h"
#include "world.h"

#define MILLISECOND UINT64_C(1000000)

OWNED_BY(baseline, baseline_free)

/* A world of workers that have a chunk each, of one copy, beside which a model runs. */
void lone_copies(world *all, uint32_t workers, uint32_t pieces, const char *spec);
/* A model whose sums are made `way`. */
baseline *begin_summing(world *all, baseline_settings own, tarry_sim_way way);
/* With sums at the server, or by a ring. */
baseline *begin_model(world *all, baseline_settings own);
/* Its next round; asserts that it went well. */
tarry_round_result model_round(baseline *model);
/* One round of the model in a world of its own. */
tarry_round_result lone_round(world *all, baseline_settings own);

#endif
