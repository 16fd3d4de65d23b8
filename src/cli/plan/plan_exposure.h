/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the data colluding workers never hold, as tarry plan prints it. */
#ifndef CLI_PLAN_EXPOSURE_H
#define CLI_PLAN_EXPOSURE_H

#include <jansson.h>

#include "plan/exposure/exposure.h"

typedef struct plan_exposure {
    uint32_t colluders;
    double chunks; /* original ones; as many as the plan has, in all */
    exposure_bound bound;
} plan_exposure;

/* Errors: NO_MEMORY. */
int plan_exposure_measure(const tarry_plan *plan, uint32_t colluders, plan_exposure *out);

/* One line, after `start`. */
void plan_exposure_print(const plan_exposure *figures, const char *start);

/* NULL if there is no memory. */
json_t *plan_exposure_json(const plan_exposure *figures);

#endif
