/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/baseline_state.h"

#include "base/diagnostic.h"
#include "base/memory.h"
#include "plan/plan.h"
#include "protocol/wire/codec.h"
#include "sim/cost.h"
#include "sim/world.h"

static void count_own_pieces(baseline *model)
{
    const tarry_plan *plan = model->plan;
    for (uint32_t worker = 0; worker < plan->workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        node->back_ns = tarry_straggler_dead(model->settings.straggler, worker) ? TARRY_NEVER : 0;
        for (uint32_t slot = plan->worker_offset[worker]; slot < plan->worker_offset[worker + 1];
             slot++)
            if (plan->slot_chunk[slot] % plan->pieces == 0)
                node->pieces += plan->pieces;
    }
}

int baseline_create(const tarry_plan *plan, const baseline_settings *own,
                    const tarry_sim_settings *settings, const tarry_allocator *allocator,
                    baseline **out, tarry_diagnostic *diagnostic)
{
    int error = settings_check(plan, settings, diagnostic);
    if (error == TARRY_OK && plan_edges(plan) != plan->chunks)
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "baseline: one copy of each chunk only");
    bool star = settings->way == TARRY_SIM_STAR;
    if (error == TARRY_OK &&
        ((own->kind == BASELINE_QUEUE && !star) || (own->kind == BASELINE_ALL_REDUCE && star)))
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "baseline: %s",
                         star ? "an all-reduce is not made at the server"
                              : "a queue's sums go to the server");
    if (error == TARRY_OK && star && settings->card_shared)
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                         "baseline: only own schemes' parameters share the server's card");
    if (error != TARRY_OK)
        return error;
    baseline *model = memory_allocate(allocator, 1, sizeof(*model));
    if (model == NULL)
        return diagnose_no_memory(diagnostic, "baseline");
    model->allocator = memory_allocator(allocator);
    model->plan = plan;
    model->own = *own;
    model->settings = *settings;
    model->deadline_ns = own->deadline_ns;
    model->workers = memory_allocate(allocator, plan->workers, sizeof(*model->workers));
    model->known_ns = memory_allocate(allocator, plan->chunks, sizeof(*model->known_ns));
    error = network_init(&model->network, settings, plan->workers, allocator);
    if (error != TARRY_OK || model->workers == NULL || model->known_ns == NULL) {
        baseline_free(model);
        return diagnose_no_memory(diagnostic, "baseline");
    }
    count_own_pieces(model);
    *out = model;
    return TARRY_OK;
}

void baseline_free(baseline *model)
{
    if (model == NULL)
        return;
    tarry_allocator allocator = model->allocator;
    network_destroy(&model->network);
    memory_release(&allocator, model->known_ns);
    memory_release(&allocator, model->workers);
    memory_release(&allocator, model);
}

int baseline_costs(baseline *model, const double *chunk_cost, tarry_diagnostic *diagnostic)
{
    int error = settings_check_costs(model->plan, chunk_cost, diagnostic);
    if (error == TARRY_OK)
        model->settings.chunk_cost = chunk_cost;
    return error;
}

const uint64_t *baseline_known_ns(const baseline *model)
{
    return model->known_ns;
}

uint64_t baseline_deadline_ns(const baseline *model)
{
    return model->deadline_ns;
}

uint64_t baseline_piece_ns(const baseline *model, uint32_t worker, uint32_t position,
                           uint32_t piece)
{
    return chunk_time_ns(model->plan, &model->settings, model->settings.first_round + model->round,
                         worker, position, piece);
}

uint32_t baseline_own_piece(const baseline *model, uint32_t worker, uint32_t position)
{
    const tarry_plan *plan = model->plan;
    uint32_t whole = position / plan->pieces, slot = plan->worker_offset[worker];
    for (;; slot++)
        if (plan->slot_chunk[slot] % plan->pieces == 0 && whole-- == 0)
            return plan->slot_chunk[slot] + position % plan->pieces;
}

uint64_t baseline_compute(baseline *model, uint32_t worker, uint64_t begin_ns, uint64_t most_ns)
{
    baseline_worker *node = &model->workers[worker];
    uint64_t end_ns = network_after(begin_ns, most_ns), now = begin_ns;
    for (; node->finished < node->pieces; node->finished++) {
        uint32_t piece = baseline_own_piece(model, worker, node->finished);
        uint64_t time = baseline_piece_ns(model, worker, node->finished, piece);
        bool dies = node->finished == node->dies_at;
        uint64_t next = network_after(now, dies ? time / 2 : time);
        if (next > end_ns)
            return end_ns;
        if (next == TARRY_NEVER || dies) {
            now = next == TARRY_NEVER ? now : next;
            baseline_die(model, worker, now);
            return now;
        }
        now = next;
        model->known_ns[piece] =
            network_after(now, model->network.latency_ns) - model->result.start_ns;
    }
    if (node->dies_at == node->finished)
        node->silent_ns = now;
    return now;
}

void baseline_die(baseline *model, uint32_t worker, uint64_t now)
{
    baseline_worker *node = &model->workers[worker];
    node->silent_ns = now;
    for (uint32_t i = 0; i < node->finished; i++)
        model->known_ns[baseline_own_piece(model, worker, i)] = TARRY_NEVER;
}

uint64_t baseline_noticed_ns(const baseline *model, uint32_t worker)
{
    return network_after(model->workers[worker].silent_ns, model->settings.server.silence_ns);
}

uint64_t baseline_gradient_bytes(const baseline *model)
{
    return CODEC_HEADER_BYTES + model->settings.dimension * sizeof(float);
}

uint64_t baseline_send_parameters(baseline *model, uint32_t worker, uint64_t now)
{
    model->result.control_messages++;
    model->result.control_bytes += CODEC_HEADER_BYTES;
    return star_down(&model->network, worker, now,
                     CODEC_HEADER_BYTES + model->settings.parameter_bytes);
}

/* Who is there, and what the round has in store for them. */
static void begin_round(baseline *model)
{
    const tarry_straggler *straggler = model->settings.straggler;
    model->result = (tarry_round_result){
        .round = model->round,
        .parts = 1,
        .copies_needed = model->plan->chunks,
        .start_ns = model->now,
        .signal_ns = TARRY_NEVER,
    };
    for (uint32_t piece = 0; piece < model->plan->chunks; piece++)
        model->known_ns[piece] = TARRY_NEVER;
    for (uint32_t worker = 0; worker < model->plan->workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        node->there = node->back_ns <= model->now;
        node->finished = 0;
        node->silent_ns = TARRY_NEVER;
        if (!node->there ||
            !tarry_straggler_fails(straggler, model->settings.first_round + model->round, worker,
                                   node->pieces, &node->dies_at))
            node->dies_at = UINT32_MAX;
    }
}

static void end_round(baseline *model, uint64_t end_ns)
{
    tarry_round_result *result = &model->result;
    model->now = result->end_ns = end_ns;
    for (uint32_t worker = 0; worker < model->plan->workers; worker++) {
        baseline_worker *node = &model->workers[worker];
        bool silent = node->silent_ns <= end_ns;
        if (node->there && silent)
            node->back_ns = network_after(node->silent_ns,
                                          tarry_straggler_rejoin_ns(model->settings.straggler));
        result->workers_lost += !node->there || silent;
        result->workers_heard += node->there && node->finished > 0;
        result->copies_computed += node->finished;
    }
    result->exact = result->error == TARRY_OK && result->copies_coded == model->plan->chunks;
    result->expected_error = 1 - (double)result->copies_coded / (double)model->plan->chunks;
}

int baseline_round(baseline *model, tarry_round_result *result)
{
    int error = TARRY_OK;
    uint64_t end_ns = 0;
    if (model->own.kind == BASELINE_DROPCOMPUTE && model->deadline_ns == 0)
        error = baseline_best_deadline(model, &model->deadline_ns);
    if (error != TARRY_OK)
        return error;
    begin_round(model);
    switch (model->own.kind) {
    case BASELINE_DROPCOMPUTE:
        end_ns = baseline_dropcompute_round(model, &error);
        break;
    case BASELINE_QUEUE:
        end_ns = baseline_queue_round(model, &error);
        break;
    case BASELINE_ALL_REDUCE:
    case BASELINE_NONE:
        end_ns = baseline_all_reduce_round(model, TARRY_NEVER, &error);
        break;
    }
    if (error != TARRY_OK)
        return error;
    end_round(model, end_ns);
    model->round++;
    *result = model->result;
    return TARRY_OK;
}
