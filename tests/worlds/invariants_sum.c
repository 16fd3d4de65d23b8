/* SPDX-License-Identifier: Apache-2.0 */
/* The estimate: what is added to it, and what it is in the end, unit of data by unit. */
#include "worlds/invariants.h"

#include <math.h>

/* How often a unit of the data is to be in the sum. Where chunks are sampled, they are the original
 * ones. */
static double times_of(const cluster *it, uint32_t unit)
{
    return cluster_samples(it) ? it->model.times[unit / GRAIN] : 1;
}

/* What the unit counts for in the error, 1 on average. */
static double value_of(const cluster *it, uint32_t unit)
{
    const server_model *model = &it->model;
    if (!cluster_samples(it))
        return 1;
    return model->all > 0 ? model->weight[unit / GRAIN] / model->all * model->chunks : 0;
}

/* ||C - I||_F^2 of one stripe of the estimate, summed over the units of the data; *worst: the
 * largest of a unit so far. */
static double estimate_error(const cluster *it, uint32_t stripe, double *worst)
{
    const server_model *model = &it->model;
    double sum = 0;
    for (uint32_t unit = 0; unit < cluster_units(it); unit++) {
        double square = 0, times = times_of(it, unit);
        for (uint32_t p = 0; p < model->parts; p++)
            for (uint32_t q = 0; q < model->parts; q++) {
                double off = it->estimate[stripe][unit][p][q] - times * (p == q);
                off /= times > 0 ? times : 1;
                square += off * off;
            }
        sum += square * value_of(it, unit);
        *worst = square > *worst ? square : *worst;
    }
    return sum;
}

/* What the round before fills in one stripe: l - ||C - I||_F^2 summed over the units of the data,
 * which this round must have no share in. */
static double filled_in(cluster *it, uint32_t stripe)
{
    const server_model *model = &it->model;
    double sum = 0;
    for (uint32_t unit = 0; unit < cluster_units(it); unit++) {
        double off = 0, fresh = 0, stale = 0;
        for (uint32_t p = 0; p < model->parts; p++)
            for (uint32_t q = 0; q < model->parts; q++) {
                double filling = it->filling[stripe][unit][p][q];
                stale += fabs(filling);
                fresh += fabs(it->estimate[stripe][unit][p][q]);
                off += (filling - (p == q)) * (filling - (p == q));
            }
        if (fresh > 0 && stale > 0)
            invariant_broken(it, "one_round_for_each_chunk", "original chunk %u, stripe %u",
                             unit / GRAIN, stripe);
        sum += (model->parts - off) * value_of(it, unit);
    }
    return sum;
}

/* What the result says of the estimate, against the estimate. */
void invariants_of_estimate(cluster *it, const tarry_round_result *result)
{
    const server_model *model = &it->model;
    double error = 0, filled = 0, worst = 0, tolerance = 1e-6 * it->settings.conditioning_limit;
    for (uint32_t stripe = 0; stripe < model->stripes; stripe++) {
        double weight = (double)model->stripe_size[stripe] / (double)model_part_length(model) /
                        (cluster_units(it) * model->parts);
        error += estimate_error(it, stripe, &worst) * weight;
        filled += filled_in(it, stripe) * weight;
    }
    bool evolved = !tarry_plan_is_original(it->plan);
    it->counts.evolved += result->exact && evolved;
    if (result->exact && sqrt(worst) > tolerance)
        invariant_broken(it, evolved ? "every_sample_once" : "exact_means_exact",
                         "the estimate is off by %g", sqrt(worst));
    /* A factor makes more of the rounding, too. */
    if (fabs(result->expected_error - error) > tolerance * (1 + error))
        invariant_broken(it, "expected_error_is_the_error", "%g, but the estimate shows %g",
                         result->expected_error, error);
    if (fabs(result->filled_share - filled) > tolerance)
        invariant_broken(it, "filled_share_is_filled", "%g, but the estimate shows %g",
                         result->filled_share, filled);
    if (!result->exact && worst < 0.5)
        invariant_broken(it, "exact_means_exact", "the estimate is exact, the result denies it");
}

void invariants_of_sum(cluster *it, const cluster_item *done)
{
    if (done->part.plan != it->number)
        invariant_broken(it, "sums_are_of_the_plan", "part of %u, of plan %u, in a sum of plan %u",
                         done->worker, done->part.plan, it->number);
    if (done->part.parameters != it->parameters)
        invariant_broken(it, "no_stale_message_summed",
                         "part of %u, of gradients with other parameters", done->worker);
    if (it->summed[done->stripe] & bit(done->worker))
        invariant_broken(it, "no_chunk_counted_twice", "part of %u is in stripe %u already",
                         done->worker, done->stripe);
    it->summed[done->stripe] |= bit(done->worker);
}
