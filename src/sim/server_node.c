/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bitset.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "coding/psi.h"
#include "compress/view.h"
#include "protocol/form.h"
#include "sim/world.h"

/* The message with bit sets of its own, which a queue can keep; but the group of a signal is kept
 * once for all. By the time at which an attempt is announced, all sums of the one before have begun
 * that ever will. */
static int copy_message(tarry_sim *sim, uint32_t worker, const tarry_message *message,
                        sim_event *event)
{
    const codec_shape *shape = &sim->workers[worker].shape;
    event->message = *message;
    if (message->group != NULL && !sum_id_named(&sim->group.signalled, &message->sum)) {
        sim->group.signalled = message->sum;
        memcpy(worker_shared_group(sim->shared), message->group,
               bitset_words(sim->plan->workers) * sizeof(uint64_t));
    }
    event->message.group = NULL;
    size_t words = codec_kept_words(shape, &event->message);
    if (words == 0)
        return TARRY_OK;
    event->bits = memory_allocate(&sim->allocator, words, sizeof(uint64_t));
    if (event->bits == NULL)
        return TARRY_ERROR_NO_MEMORY;
    codec_keep_sets(shape, &event->message, event->bits);
    return TARRY_OK;
}

/* Whether psi has a copy of the worker's own. */
static bool takes_part(const tarry_plan *plan, uint32_t worker, const uint64_t *psi)
{
    for (psi_walk at = psi_begin(plan, worker); psi_here(&at); psi_next(&at))
        if (bitset_test(psi, psi_own(&at)))
            return true;
    return false;
}

/* The server has the gradients of psi already: it answers itself for the worker, stripe by stripe,
 * also for one that has fallen silent since (left_ns is 0). */
static int answer_signal(tarry_sim *sim, uint32_t worker, const tarry_message *signal)
{
    if (!takes_part(sim->plan, worker, signal->psi))
        return TARRY_OK;
    for (uint32_t stripe = 0; stripe < sim->stripes; stripe++) {
        if (!bitset_test(signal->stripes, stripe))
            continue;
        sim_event answer = {
            .kind = SIM_TO_SERVER,
            .node = worker,
            .life = sim->workers[worker].life,
            .message = {.type = TARRY_MESSAGE_PART,
                        .round = signal->round,
                        .epoch = signal->epoch,
                        .attempt = signal->attempt,
                        .stripe = stripe},
        };
        int error = sim_schedule(sim, sim->now, &answer, NULL);
        if (error != TARRY_OK)
            return error;
    }
    return TARRY_OK;
}

/* Also what nobody will hear takes its way; beside the numbers of a sum among workers a few bytes
 * have the right of way. */
static uint64_t arrival_ns(tarry_sim *sim, uint32_t worker, uint64_t bytes)
{
    uint64_t *told_ns = &sim->workers[worker].told_ns, time;
    if (sim_sums_everywhere(sim))
        time = network_after(sim->now, network_hop(&sim->network));
    else
        time = star_down(&sim->network, worker, sim->now, bytes);
    return *told_ns = network_later(*told_ns, time);
}

/* What travels with a ROUND: parameters, or the changes of the view that the worker lacks, or all
 * of that where it is shorter. */
static uint64_t parameters_for(const tarry_sim *sim, uint32_t worker, uint64_t round)
{
    const tarry_compress form = form_of_view(&sim->settings.server);
    const uint64_t factor = form_factor_numbers(form_of_parts(&sim->settings.server));
    const uint64_t whole = sim->settings.parameter_bytes + factor * sizeof(float);
    const uint64_t seen = sim->workers[worker].seen;
    if (sim_sums_everywhere(sim))
        return 0;
    if (form == TARRY_COMPRESS_NONE || seen == 0 || round + 1 - seen > view_kept(form))
        return whole;
    return (round + 1 - seen) *
           compress_bytes((compress_form){.kind = form}, whole / sizeof(float));
}

static int send_message(tarry_sim *sim, uint32_t worker, const tarry_message *message)
{
    sim_worker *node = &sim->workers[worker];
    uint64_t bytes = codec_size(&node->shape, message);
    if (message->type == TARRY_MESSAGE_ROUND) {
        bytes += parameters_for(sim, worker, message->round);
        node->seen = message->round + 1;
    }
    if (message->type == TARRY_MESSAGE_SIGNAL && sim_uploads_at_once(sim)) {
        int error = answer_signal(sim, worker, message);
        if (error != TARRY_OK)
            return error;
    }
    if (message->type == TARRY_MESSAGE_SIGNAL)
        sim->signalled_ns = sim->now;
    uint64_t arrival = arrival_ns(sim, worker, bytes);
    if (!node->there)
        return TARRY_OK;
    sim_event event = {.kind = SIM_TO_WORKER, .node = worker, .life = node->life};
    int error = copy_message(sim, worker, message, &event);
    return error == TARRY_OK ? sim_schedule(sim, arrival, &event, NULL) : error;
}

static int combine(tarry_sim *sim, const tarry_effect *effect)
{
    sim_event event = {
        .kind = SIM_COMBINED,
        .node = effect->worker,
        .message = {.round = effect->round, .attempt = effect->attempt, .stripe = effect->stripe},
    };
    return sim_schedule(sim, sim->now, &event, NULL);
}

/* What cards have carried. */
static void end_traffic(tarry_sim *sim)
{
    tarry_sim_traffic *all = &sim->traffic;
    all->root_in = sim->network.server.in.bytes;
    all->root_out = sim->network.server.out.bytes;
    for (uint32_t worker = 0; worker < sim->plan->workers; worker++) {
        const network_node *card = &sim->network.workers[worker];
        all->leaf_in = network_later(all->leaf_in, card->in.bytes);
        all->leaf_out = network_later(all->leaf_out, card->out.bytes);
    }
    if (sim->signalled_ns != TARRY_NEVER)
        all->sum_ns = sim->result.end_ns - sim->signalled_ns;
}

/* What travelled with the reports is counted as uploaded, and not what stands for it. */
static void end_round(tarry_sim *sim, const tarry_round_result *result)
{
    sim->done = true;
    sim->result = *result;
    if (sim_uploads_at_once(sim)) {
        sim->result.upload_bytes = sim->gradient_bytes;
        sim->result.control_messages -= sim->answers;
        sim->result.control_bytes -= sim->answers * CODEC_HEADER_BYTES;
    }
    sim->result.upload_bytes += sim->moved_bytes;
    end_traffic(sim);
}

/* Appends to the log. */
static int append(tarry_sim *sim, const tarry_effect *effect)
{
    const sim_event event = {.kind = SIM_LOGGED, .message = {.sum = effect->sum}};
    return sim_schedule(sim, network_after(sim->now, sim->settings.log_ns), &event, NULL);
}

/* Parameters that go out in one step share the card, where such messages do. */
static void share_card(tarry_sim *sim, const tarry_effects *effects)
{
    uint32_t count = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type != TARRY_EFFECT_SEND || effect->message.type != TARRY_MESSAGE_ROUND)
            continue;
        uint64_t own = parameters_for(sim, effect->worker, effect->message.round);
        count += own > NETWORK_SMALL;
        bytes += own > NETWORK_SMALL ? own : 0;
    }
    if (count > 0)
        star_share(&sim->network, sim->now, count, bytes / count);
}

int server_node_step(tarry_sim *sim, const tarry_event *event)
{
    const tarry_effects *effects;
    int error = tarry_server_step(sim->server, sim->now, event, &effects);
    if (error != TARRY_OK)
        return error;
    share_card(sim, effects);
    sim_observe(sim, TARRY_SIM_SERVER, event, effects);
    for (size_t i = 0; i < effects->count && error == TARRY_OK; i++) {
        const tarry_effect *effect = &effects->items[i];
        switch (effect->type) {
        case TARRY_EFFECT_SEND:
            error = send_message(sim, effect->worker, &effect->message);
            break;
        case TARRY_EFFECT_COMBINE:
            error = combine(sim, effect);
            break;
        case TARRY_EFFECT_DONE:
            end_round(sim, effect->result);
            break;
        case TARRY_EFFECT_CLEAR:
        case TARRY_EFFECT_REJECT:
        case TARRY_EFFECT_COMPUTE:
        case TARRY_EFFECT_CANCEL:
        case TARRY_EFFECT_ENCODE:
        case TARRY_EFFECT_FOLD:
        case TARRY_EFFECT_DROP:
        case TARRY_EFFECT_SETTLE:
        case TARRY_EFFECT_LEFT_OUT:
        case TARRY_EFFECT_REDUCE:
        case TARRY_EFFECT_ABANDON:
        case TARRY_EFFECT_FETCH:
        case TARRY_EFFECT_LOAD:
        case TARRY_EFFECT_STEP:
        case TARRY_EFFECT_REFUSE:
            break;
        case TARRY_EFFECT_LOG:
            error = append(sim, effect);
            break;
        }
    }
    return error;
}

static int take_message(tarry_sim *sim, const sim_event *event)
{
    const uint64_t bytes = codec_size(&sim->workers[event->node].shape, &event->message);
    const bool control = event->message.type != TARRY_MESSAGE_PART;
    sim->traffic.root_messages += control;
    sim->traffic.root_control_bytes += control ? bytes : 0;
    if (event->message.type == TARRY_MESSAGE_REPORT)
        sim->gradient_bytes += event->bytes - bytes;
    else if (sim_uploads_at_once(sim))
        sim->answers += event->message.type == TARRY_MESSAGE_PART;
    return server_node_step(sim, &(tarry_event){
                                     .type = TARRY_EVENT_MESSAGE,
                                     .worker = event->node,
                                     .message = &event->message,
                                 });
}

/* What a worker had not sent to its last byte when it fell silent does not arrive. */
static bool is_cut_off(const tarry_sim *sim, const sim_event *event)
{
    const sim_worker *node = &sim->workers[event->node];
    bool over = !node->there || node->life != event->life;
    return over && event->left_ns > node->silent_ns;
}

int server_node_take(tarry_sim *sim, const sim_event *event)
{
    sim_event onward = *event;
    switch (event->kind) {
    case SIM_AT_CARD:
        onward.kind = SIM_TO_SERVER;
        return sim_schedule(sim,
                            star_receive(&sim->network, sim->now, event->bytes, event->left_ns),
                            &onward, NULL);
    case SIM_TO_SERVER:
        return is_cut_off(sim, event) ? TARRY_OK : take_message(sim, event);
    case SIM_LOGGED:
        return server_node_step(
            sim, &(tarry_event){.type = TARRY_EVENT_LOGGED, .sum = event->message.sum});
    case SIM_JOINS:
        return server_node_step(sim,
                                &(tarry_event){.type = TARRY_EVENT_JOINED, .worker = event->node});
    default:
        break;
    }
    return server_node_step(sim, &(tarry_event){
                                     .type = TARRY_EVENT_COMBINED,
                                     .worker = event->node,
                                     .round = event->message.round,
                                     .attempt = event->message.attempt,
                                     .stripe = event->message.stripe,
                                 });
}
