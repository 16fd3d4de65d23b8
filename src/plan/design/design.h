/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assignment designs: which worker holds which chunks, listed worker by worker.
 *
 * Each design sets plan->worker_offset and plan->slot_chunk from the settings, which have been
 * checked, and from plan->workers, ->chunks, ->parts and the racks; the chunks are whole ones, but
 * for design_random, to which pieces are chunks. Both arrays are owned by the plan from the moment
 * they are set, on failure too. No worker lists a chunk twice; a worker may hold nothing.
 */
#ifndef PLAN_DESIGN_H
#define PLAN_DESIGN_H

#include "plan/plan.h"

/* Dispatches on settings->design, and cuts the chunks into plan->pieces; plan->chunks counts whole
 * ones before and pieces afterwards. Errors: those of the design. */
int design_assign(tarry_plan *plan, const tarry_plan_settings *settings,
                  tarry_diagnostic *diagnostic);

/*
 * Reads the assignment from the file `name` (plan.h of the public headers has its format). Errors:
 * FILE, FORMAT, NO_MEMORY.
 */
int design_file(tarry_plan *plan, const char *name, tarry_diagnostic *diagnostic);

#endif
