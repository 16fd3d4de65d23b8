/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/invariants.h"

#include <math.h>

void invariants_of_rows(cluster *it, uint32_t worker, const tarry_effect *encode)
{
    const server_model *model = &it->model;
    const cluster_record *present = &it->nodes[worker].present;
    if (it->settings.keep == TARRY_KEEP_CREDITED || model->phase != MODEL_CODING ||
        encode->round != model->round || encode->message.attempt != model->attempt ||
        present->epoch != model->members[worker].epoch || present->parameters != it->parameters ||
        present->plan != it->number)
        return;
    double scale = it->settings.conditioning_limit;
    for (uint32_t slot = 0; slot < tarry_plan_load(it->plan, worker); slot++) {
        double row[MAX_PARTS];
        uint32_t chunk = tarry_plan_chunk(it->plan, worker, slot);
        if (!(model->psi[chunk] >> worker & 1) || !model_row(model, chunk, worker, row))
            continue;
        for (uint32_t k = 0; k < model->parts; k++) {
            double is = (double)encode->coefficients[slot * model->parts + k];
            double times = model->times[chunk];
            if (fabs(is - row[k] * times) > 1e-6 * scale * fmax(times, 1))
                invariant_broken(it, "all_encode_by_the_limit",
                                 "worker %u, chunk %u: %g in place of %g", worker, chunk, is,
                                 row[k] * times);
        }
    }
}
