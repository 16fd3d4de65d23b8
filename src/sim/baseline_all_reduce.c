/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "plan/plan.h"
#include "sim/baseline_state.h"
#include "sim/links/group_sum.h"

/* The sum of what all have, made over the links of the settings' way: when the last one has it. */
static uint64_t sum_up(baseline *model, network *links, const uint64_t *ready_ns, uint64_t *done_ns,
                       uint64_t *moved, int *error)
{
    const group_sum sum = {
        .count = model->plan->workers, .dimension = model->settings.dimension, .parts = 1};
    uint64_t end_ns = 0;
    *error = group_sum_run(links, model->settings.way, &sum, ready_ns, done_ns, moved);
    for (uint32_t worker = 0; *error == TARRY_OK && worker < sum.count; worker++)
        end_ns = network_later(end_ns, done_ns[worker]);
    return end_ns;
}

/* Computes everybody's own; ready_ns[j]: when worker j has finished. Gives back when the last of
 * those that are lost is noticed; then the sum is never made. */
static uint64_t compute_all(baseline *model, uint64_t most_ns, uint64_t *ready_ns)
{
    uint64_t noticed_ns = model->now;
    for (uint32_t worker = 0; worker < model->plan->workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        if (!node->there)
            node->silent_ns = model->now;
        else
            ready_ns[worker] = baseline_compute(model, worker, model->now, most_ns);
        model->result.copies_coded += node->finished;
        if (node->silent_ns == TARRY_NEVER)
            continue;
        model->result.error = TARRY_ERROR_COVERAGE;
        noticed_ns = network_later(noticed_ns, baseline_noticed_ns(model, worker));
    }
    return noticed_ns;
}

uint64_t baseline_all_reduce_round(baseline *model, uint64_t most_ns, int *error)
{
    const uint32_t workers = model->plan->workers;
    uint64_t *ready_ns = memory_allocate(&model->allocator, workers, 2 * sizeof(*ready_ns));
    if (ready_ns == NULL) {
        *error = TARRY_ERROR_NO_MEMORY;
        return model->now;
    }
    uint64_t end_ns = compute_all(model, most_ns, ready_ns);
    if (model->result.error == TARRY_OK)
        end_ns = sum_up(model, &model->network, ready_ns, ready_ns + workers,
                        &model->result.upload_bytes, error);
    else
        model->result.copies_coded = 0;
    memory_release(&model->allocator, ready_ns);
    for (uint32_t piece = 0; piece < model->plan->chunks; piece++)
        if (model->known_ns[piece] != TARRY_NEVER)
            model->known_ns[piece] =
                model->result.error == TARRY_OK ? end_ns - model->now : TARRY_NEVER;
    return end_ns;
}

uint64_t baseline_all_reduce_alone(baseline *model, network *links, int *error)
{
    const uint32_t workers = model->plan->workers;
    uint64_t *times = memory_allocate(&model->allocator, workers, 2 * sizeof(*times)), moved;
    *error = times == NULL ? TARRY_ERROR_NO_MEMORY : TARRY_OK;
    uint64_t end_ns =
        times != NULL ? sum_up(model, links, times, times + workers, &moved, error) : 0;
    memory_release(&model->allocator, times);
    return end_ns;
}
