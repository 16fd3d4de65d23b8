/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring all-reduce of d numbers over m workers: 2 (m - 1) steps, in each of which every worker sends
 * a segment of d / m numbers to the next one, over links that carry both ways at once: first the
 * sum of the segment so far (reduce-scatter), then the whole sum (all-gather). A worker sends as
 * soon as it has the segment of the step before and has finished its own chunks, so that steps
 * begin wherever they can. With everybody done at once it takes 2 (m - 1) (latency + 4 d / m /
 * bandwidth).
 */
#include "base/memory.h"
#include "plan/plan.h"
#include "sim/baseline_state.h"

/* ready[j]: when worker j can send, at first when it has finished; the end of the last step. */
static uint64_t go_round(baseline *model, uint64_t *ready, uint64_t *next)
{
    const uint32_t workers = model->plan->workers;
    uint64_t segment = (model->settings.dimension + workers - 1) / workers * sizeof(float),
             end_ns = 0;
    for (uint32_t step = 0; step < 2 * (workers - 1); step++) {
        for (uint32_t worker = 0; worker < workers; worker++) {
            uint32_t to = worker + 1 < workers ? worker + 1 : 0;
            uint64_t first_ns, left_ns = network_up(&model->network, &model->workers[worker].link,
                                                    ready[worker], segment, &first_ns);
            /* One that has not finished adds to what came in when it has. */
            next[to] = baseline_later(network_after(left_ns, model->network.latency_ns), ready[to]);
        }
        for (uint32_t worker = 0; worker < workers; worker++)
            ready[worker] = next[worker];
    }
    for (uint32_t worker = 0; worker < workers; worker++)
        end_ns = baseline_later(end_ns, ready[worker]);
    model->result.upload_bytes = 2 * (uint64_t)(workers - 1) * workers * segment;
    return end_ns;
}

/* With a worker lost the sum is never made: all are told once that is noticed. */
uint64_t baseline_ring_round(baseline *model, int *error)
{
    const uint32_t workers = model->plan->workers;
    uint64_t end_ns = model->now;
    uint64_t *ready = memory_allocate(&model->allocator, workers, 2 * sizeof(*ready));
    if (ready == NULL) {
        *error = TARRY_ERROR_NO_MEMORY;
        return end_ns;
    }
    for (uint32_t worker = 0; worker < workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        if (!node->there)
            node->silent_ns = model->now;
        else
            ready[worker] = baseline_compute(model, worker, model->now, TARRY_NEVER);
        if (node->silent_ns == TARRY_NEVER)
            continue;
        model->result.error = TARRY_ERROR_COVERAGE;
        end_ns = baseline_later(end_ns, baseline_noticed_ns(model, worker));
    }
    if (model->result.error == TARRY_OK) {
        end_ns = go_round(model, ready, ready + workers);
        model->result.copies_coded = model->plan->chunks;
    }
    memory_release(&model->allocator, ready);
    for (uint32_t piece = 0; piece < model->plan->chunks; piece++)
        model->known_ns[piece] =
            model->result.error == TARRY_OK ? end_ns - model->now : TARRY_NEVER;
    return end_ns;
}
