/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/faults/invariants.h"

#include <math.h>

void invariants_of_raising(cluster *it, bool others_are_left)
{
    if (others_are_left)
        invariant_broken(it, "raised_only_in_the_end", "those who were late were not called back");
}

void invariants_of_rows(cluster *it, uint32_t worker, const tarry_effect *encode)
{
    const server_model *model = &it->model;
    const cluster_record *present = &it->nodes[worker].present;
    if (it->settings.keep == TARRY_KEEP_CREDITED || model->phase != MODEL_CODING ||
        encode->round != model->round || encode->message.attempt != model->attempt ||
        present->epoch != model->members[worker].epoch || present->parameters != it->parameters ||
        present->plan != it->number)
        return;
    double scale = fmax(it->settings.conditioning_limit, model->conditioning);
    for (uint32_t slot = 0; slot < tarry_plan_load(it->plan, worker); slot++) {
        double row[MAX_PARTS];
        uint32_t chunk = tarry_plan_chunk(it->plan, worker, slot);
        if (!(model->psi[chunk] >> worker & 1) || !model_row(model, chunk, worker, row))
            continue;
        for (uint32_t k = 0; k < model->parts; k++) {
            double is = (double)encode->coefficients[slot * model->parts + k];
            double times = model->times[chunk];
            if (fabs(is - row[k] * times) > 1e-6 * scale * fmax(times, 1))
                invariant_broken(it, "all_encode_by_the_signals_limit",
                                 "worker %u, chunk %u: %g in place of %g, limit %g", worker, chunk,
                                 is, row[k] * times, model_limit(model));
        }
    }
}

void invariants_of_signal_limit(cluster *it, const tarry_message *signal)
{
    if (signal->limit != model_limit(&it->model))
        invariant_broken(it, "all_encode_by_the_signals_limit", "told %g, the model says %g",
                         signal->limit, model_limit(&it->model));
}

/* The largest ||C - w I||_F of a unit of the data that is recovered, and to be in the sum w times:
 * what rounded coefficients make of it. */
static double rounding_of(const cluster *it)
{
    const server_model *model = &it->model;
    double worst = 0;
    for (uint32_t stripe = 0; stripe < model->stripes; stripe++)
        for (uint32_t unit = 0; unit < cluster_units(it); unit++) {
            double off = 0, times = invariants_times(it, unit);
            for (uint32_t p = 0; p < model->parts; p++)
                for (uint32_t q = 0; q < model->parts; q++) {
                    double is = it->estimate[stripe][unit][p][q] - times * (p == q);
                    off += is * is;
                }
            if (off < 0.5 * times * times)
                worst = fmax(worst, sqrt(off));
        }
    return worst;
}

void invariants_of_conditioning(cluster *it, const tarry_round_result *result)
{
    double expected = it->model.result.conditioning;
    bool raised = result->conditioning > 0;
    if (fabs(result->conditioning - expected) > 1e-6 * expected)
        invariant_broken(it, "what_was_raised_is_told", "%g, the model says %g",
                         result->conditioning, expected);
    if (raised != (result->error_bound > 0) || (raised && result->exact))
        invariant_broken(it, "what_was_raised_is_told", "exact %d, bound %g", result->exact,
                         result->error_bound);
    if (raised && it->settings.fill != TARRY_FILL_SCALE && rounding_of(it) > result->error_bound)
        invariant_broken(it, "rounding_keeps_its_bound", "%g, and the bound is %g", rounding_of(it),
                         result->error_bound);
    it->raised_rounds += raised;
}
