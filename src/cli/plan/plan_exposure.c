/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/plan_exposure.h"

#include <stdio.h>

int plan_exposure_measure(const tarry_plan *plan, uint32_t colluders, plan_exposure *out)
{
    exposure *held;
    int error = exposure_create(tarry_plan_workers(plan), NULL, &held);
    if (error != TARRY_OK)
        return error;
    error = exposure_add_plan(held, plan, NULL);
    if (error == TARRY_OK)
        error = exposure_unheld(held, colluders, EXPOSURE_STEPS, &out->bound);
    exposure_free(held);
    out->colluders = colluders;
    out->chunks = tarry_plan_origins(plan);
    return error;
}

static double share_of(const plan_exposure *figures)
{
    return (double)figures->bound.unheld / (double)figures->bound.samples;
}

void plan_exposure_print(const plan_exposure *figures, const char *start)
{
    printf("%s%-21s %s %.4g %% of the data is held by none of %u worker%s, whoever %s\n", start,
           "never held", figures->bound.exact ? "exactly" : "at least", 100 * share_of(figures),
           figures->colluders, figures->colluders == 1 ? "" : "s",
           figures->colluders == 1 ? "it is" : "they are");
}

json_t *plan_exposure_json(const plan_exposure *figures)
{
    return json_pack("{s:I, s:f, s:f, s:b}", "colluders", (json_int_t)figures->colluders,
                     "never_held_chunks", figures->chunks * share_of(figures), "never_held_share",
                     share_of(figures), "exact", (int)figures->bound.exact);
}
