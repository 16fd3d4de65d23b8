/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/cluster.h"

#include <string.h>

#include "base/bitset.h"
#include "worlds/invariants.h"

/* Times to compute are compute_time times the worker's slowness times 0..111 of these. */
enum { COMPUTE_UNITS = 16, LONGEST_HOLD = 3000 };

uint32_t cluster_chunks_of(const tarry_plan *plan, uint32_t worker, const uint64_t *positions)
{
    uint32_t chunks = 0;
    for (uint32_t slot = 0; positions != NULL && slot < tarry_plan_load(plan, worker); slot++)
        if (bitset_test(positions, slot))
            chunks |= UINT32_C(1) << tarry_plan_chunk(plan, worker, slot);
    return chunks;
}

static void break_while_encoding(cluster *it, uint32_t worker)
{
    static const item_type kinds[] = {ITEM_CRASH, ITEM_CRASH_SILENTLY, ITEM_CUT, ITEM_CUT_UNNOTICED,
                                      ITEM_RESTART_SERVER};
    random_stream details;
    if (it->encoding_breaks_left == 0 ||
        !draws_fault(&it->draws, FAULT_ENCODING, worker, it->breaks_while_encoding, &details))
        return;
    it->encoding_breaks_left--;
    uint64_t after = stream_between(&details, 0, it->encode_time);
    item_type type = kinds[stream_between(&details, 0, 4)];
    cluster_add(it, it->now + after, type, worker)->details = details;
}

static uint64_t encode_time(cluster *it, uint32_t worker)
{
    uint64_t time = draws_between(&it->draws, DRAW_ENCODE, worker, 0, it->encode_time);
    random_stream details;
    if (!draws_fault(&it->draws, FAULT_HOLD, worker, it->holds, &details))
        return time;
    time += stream_between(&details, 0, LONGEST_HOLD);
    cluster_disturb(it, it->now + time);
    return time;
}

static void begin_encoding(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    cluster_node *node = &it->nodes[worker];
    const tarry_plan *plan = cluster_plan_of(it, worker);
    if (node->encodes || node->replica.task != TASK_NONE)
        invariant_broken(it, "one_order_at_a_time", "worker %u encodes, in task %d", worker,
                         node->replica.task);
    node->encodes = true;
    uint64_t time = encode_time(it, worker);
    cluster_item *encoded = cluster_add(it, it->now + time, ITEM_ENCODED, worker);
    encoded->token = node->life;
    encoded->machine = node->machines;
    encoded->round = effect->round;
    encoded->attempt = effect->attempt;
    encoded->stripe = effect->stripe;
    encoded->size = (uint32_t)codec_size(&node->shape, &effect->message);
    codec_encode(&node->shape, &effect->message, encoded->frame);
    memset(&encoded->part, 0, sizeof(encoded->part));
    encoded->part.plan = node->plan;
    encoded->part.cut = node->cut;
    encoded->part.parameters = node->present.parameters;
    encoded->part.before = effect->round - (cluster_planted(it, PLANT_ENCODE_TOO_OLD) ? 2 : 1);
    uint32_t parts = tarry_plan_parts(plan), load = tarry_plan_load(plan, worker);
    invariants_of_z(it, worker);
    invariants_of_coefficients(it, worker, effect->coefficients);
    invariants_of_rows(it, worker, effect);
    for (uint32_t slot = 0; slot < load; slot++) {
        uint32_t chunk = tarry_plan_chunk(plan, worker, slot);
        bool stale =
            bitset_test(effect->stale, slot) || cluster_planted(it, PLANT_ENCODE_OTHER_ROUND);
        encoded->part.stale |= (uint32_t)stale << chunk;
        double once =
            cluster_planted(it, PLANT_ADD_ONCE) && node->times[chunk] > 0 ? node->times[chunk] : 1;
        for (uint32_t part = 0; part < parts; part++)
            encoded->part.u[chunk][part] =
                it->settings.keep == TARRY_KEEP_CREDITED
                    ? node->sum[chunk]
                    : (double)effect->coefficients[slot * parts + part] / once;
    }
    if (cluster_planted(it, PLANT_BEND_PART))
        encoded->part.u[tarry_plan_chunk(plan, worker, 0)][0] *= 1.5;
    if (cluster_planted(it, PLANT_ENCODE_UNFINISHED))
        encoded->part.u[tarry_plan_chunk(plan, worker, load - 1)][0] += 1;
    seen_check(it, worker, effect->round);
    feedback_encode(it, worker, effect->round, effect->stripe, &encoded->part);
    secure_encode(it, worker, effect, &encoded->part.masked);
    invariants_of_encoding(it, worker, encoded);
    break_while_encoding(it, worker);
}

/* About exponential, in whole numbers: the zeros before the first one bit, and a fraction. */
static void begin_computing(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    cluster_node *node = &it->nodes[worker];
    uint32_t bits = draws_between(&it->draws, DRAW_COMPUTE, worker, 0, UINT32_MAX - 1);
    uint64_t units = (uint64_t)__builtin_ctz(bits | 1 << 5) * COMPUTE_UNITS + (bits >> 8) % 32;
    uint64_t time = units * node->slowness * it->compute_time / COMPUTE_UNITS;
    cluster_item *computed = cluster_add(it, it->now + time, ITEM_COMPUTED, worker);
    node->token = computed->token = ++it->token;
    node->at = UINT32_C(1) << effect->chunk;
    computed->round = effect->round;
    computed->slot = effect->slot;
    random_stream details;
    computed->failed = draws_fault(&it->draws, FAULT_FAILURE, worker, it->failures, &details);
    invariants_of_plan(it, worker);
    invariants_of_sample(it, worker, effect->chunk);
    if (it->everywhere)
        invariants_of_computing(it, worker);
}

/* What was made so far is kept for those who ask; the new round has nothing yet. */
static void begin_record(cluster_node *node, cluster_record next)
{
    node->records[node->record_count++ % MAX_RECORDS] = node->present;
    node->present = next;
    node->failed = 0;
}

/* What the ROUND says of the worker's chunks: those that were not sampled are as good as failed. */
static void take_weights(cluster *it, uint32_t worker, const tarry_message *round)
{
    cluster_node *node = &it->nodes[worker];
    const tarry_plan *plan = cluster_plan_of(it, worker);
    for (uint32_t slot = 0; slot < tarry_plan_load(plan, worker); slot++) {
        uint32_t chunk = tarry_plan_chunk(plan, worker, slot);
        node->times[chunk] = round->weights != NULL ? (double)round->weights[slot] : 1;
        node->failed |= node->times[chunk] > 0 ? 0 : UINT32_C(1) << chunk;
    }
}

static void begin_round(cluster *it, uint32_t worker, const tarry_message *message,
                        const cargo *sent)
{
    cluster_node *node = &it->nodes[worker];
    begin_record(node, (cluster_record){
                           .epoch = message->epoch,
                           .round = message->round,
                           .parameters = it->everywhere ? history_number(&node->replica.state)
                                                        : sent->parameters,
                           .plan = sent->plan,
                       });
    take_weights(it, worker, message);
}

/* Keeps account of what the worker was told. */
static void take_order(const cluster *it, uint32_t worker, const tarry_message *message,
                       cluster_node *node)
{
    const tarry_plan *plan = cluster_plan_of(it, worker);
    switch (message->type) {
    case TARRY_MESSAGE_ROUND:
    case TARRY_MESSAGE_RESUME:
        node->computes = true;
        node->heard = message->attempt;
        node->barred = cluster_chunks_of(plan, worker, message->barred);
        break;
    case TARRY_MESSAGE_NEWS:
        /* With a running sum it waits for a signal that news have overtaken. */
        if (it->settings.keep == TARRY_KEEP_CREDITED && message->attempt > node->heard)
            node->computes = false;
        if (cluster_says_order(it, message))
            node->barred = cluster_chunks_of(plan, worker, message->barred);
        break;
    case TARRY_MESSAGE_SIGNAL:
        node->heard = message->attempt;
        node->computes = false;
        break;
    case TARRY_MESSAGE_ASK:
    case TARRY_MESSAGE_FINISH:
        node->computes = false;
        break;
    default:
        break;
    }
}

static void send_up(cluster *it, uint32_t worker, const tarry_message *sent)
{
    tarry_message message = *sent;
    if (cluster_planted(it, PLANT_MUTE))
        message.sequence = 0;
    if (cluster_connected(it, worker))
        cluster_send_up(it, worker, &message, NULL);
}

/* A finished gradient is folded or dropped. */
static void settle(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    cluster_node *node = &it->nodes[worker];
    uint32_t chunk = tarry_plan_chunk(cluster_plan_of(it, worker), worker, effect->slot);
    bool fold = effect->type == TARRY_EFFECT_FOLD || cluster_planted(it, PLANT_FOLD_UNCREDITED);
    invariants_of_fate(it, worker, chunk, fold);
    node->open &= ~(UINT32_C(1) << chunk);
    if (effect->begins || fold)
        invariants_of_z(it, worker);
    if (effect->begins)
        memset(node->sum, 0, sizeof(node->sum));
    if (fold)
        secure_fold(it, worker, chunk, effect->begins);
    if (fold)
        node->sum[chunk] += (cluster_planted(it, PLANT_FOLD_TWICE) ? 2 : 1) *
                            (cluster_planted(it, PLANT_ADD_ONCE) ? 1 : (double)effect->weight);
    if (fold && cluster_samples(it) && node->sum[chunk] > node->times[chunk] * (1 + 1e-6))
        invariant_broken(it, "no_chunk_counted_twice", "worker %u, chunk %u in its sum: %g of %g",
                         worker, chunk, node->sum[chunk], node->times[chunk]);
}

void cluster_step_worker(cluster *it, uint32_t worker, const tarry_event *event, const cargo *sent)
{
    cluster_node *node = &it->nodes[worker];
    const tarry_effects *effects;
    tarry_message forged;
    float weights[MAX_CHUNKS];
    tarry_event given = *event;
    if (cluster_planted(it, PLANT_OTHER_SAMPLE) && event->type == TARRY_EVENT_MESSAGE &&
        event->message->weights != NULL) {
        forged = *event->message;
        for (uint32_t slot = 0; slot < tarry_plan_load(cluster_plan_of(it, worker), worker); slot++)
            weights[slot] = forged.weights[slot] > 0 ? 0 : 2;
        forged.weights = weights;
        given.message = &forged;
    }
    int error = tarry_worker_step(node->machine, it->now, &given, &effects);
    if (error != TARRY_OK) {
        invariant_broken(it, "steps_succeed", "worker %u: %s", worker, tarry_error_text(error));
        return;
    }
    bool taken = effects->count == 0 || effects->items[0].type != TARRY_EFFECT_REJECT;
    if (taken && event->type == TARRY_EVENT_MESSAGE && event->message->type == TARRY_MESSAGE_ROUND)
        begin_round(it, worker, given.message, sent);
    if (taken && event->type == TARRY_EVENT_MESSAGE)
        take_order(it, worker, event->message, node);
    for (size_t i = 0; i < effects->count; i++) {
        const tarry_effect *effect = &effects->items[i];
        if (effect->type == TARRY_EFFECT_SEND)
            send_up(it, worker, &effect->message);
        else if (effect->type == TARRY_EFFECT_CANCEL)
            node->token = node->at = 0;
        else if (effect->type == TARRY_EFFECT_COMPUTE)
            begin_computing(it, worker, effect);
        else if (effect->type == TARRY_EFFECT_ENCODE)
            begin_encoding(it, worker, effect);
        else if (effect->type == TARRY_EFFECT_FOLD || effect->type == TARRY_EFFECT_DROP)
            settle(it, worker, effect);
        else if (effect->type == TARRY_EFFECT_SETTLE)
            feedback_settle(it, worker, effect);
        else if (effect->type == TARRY_EFFECT_REFUSE)
            invariant_broken(it, "honest_servers_are_believed", "worker %u says of the server: %s",
                             worker, tarry_refusal_text(effect->refusal));
        else if (it->everywhere)
            everywhere_worker_effect(it, worker, effect);
        invariants_of_memory(it, worker);
    }
    invariants_of_worker(it, worker);
}

void cluster_computed(cluster *it, const cluster_item *done)
{
    cluster_node *node = &it->nodes[done->worker];
    if (node->machine == NULL || done->token != node->token)
        return;
    node->token = node->at = 0;
    uint32_t chunk = tarry_plan_chunk(cluster_plan_of(it, done->worker), done->worker, done->slot);
    cluster_note(it, "worker %u: chunk %u %s", done->worker, chunk,
                 done->failed ? "failed" : "computed");
    *(done->failed ? &node->failed : &node->present.made) |= UINT32_C(1) << chunk;
    if (!done->failed && it->settings.keep == TARRY_KEEP_CREDITED)
        node->open |= UINT32_C(1) << chunk;
    cluster_step_worker(it, done->worker,
                        &(tarry_event){.type = TARRY_EVENT_COMPUTED,
                                       .round = done->round,
                                       .slot = done->slot,
                                       .failed = done->failed},
                        NULL);
}

/* What was begun under a plan before is sent all the same; the machine of now has no part in it. */
void cluster_encoded(cluster *it, const cluster_item *done)
{
    cluster_node *node = &it->nodes[done->worker];
    if (node->machine == NULL || done->token != node->life)
        return;
    uint64_t words[FRAME_WORDS];
    tarry_message message;
    if (!it->everywhere && cluster_connected(it, done->worker) && !done->part.masked.none &&
        codec_decode(&node->shape, done->frame, done->size, words, &message) == TARRY_OK)
        cluster_send_up(it, done->worker, &message, &done->part);
    if (done->machine != node->machines)
        return;
    node->encodes = false;
    if (it->everywhere && !(cluster_planted(it, PLANT_KEEP_PART) && done->attempt > 1))
        node->replica.part = done->part;
    cluster_step_worker(it, done->worker,
                        &(tarry_event){.type = TARRY_EVENT_ENCODED,
                                       .round = done->round,
                                       .attempt = done->attempt,
                                       .stripe = done->stripe},
                        NULL);
}

static bool is_record_of(const cluster_record *record, uint32_t epoch, uint64_t round,
                         uint32_t parameters, uint32_t plan)
{
    return record->epoch == epoch && record->round == round && record->parameters == parameters &&
           record->plan == plan;
}

uint32_t cluster_made(const cluster *it, uint32_t worker, uint32_t epoch, uint64_t round,
                      uint32_t parameters, uint32_t plan)
{
    const cluster_node *node = &it->nodes[worker];
    if (is_record_of(&node->present, epoch, round, parameters, plan))
        return node->present.made;
    for (uint32_t i = 0; i < node->record_count && i < MAX_RECORDS; i++)
        if (is_record_of(&node->records[i], epoch, round, parameters, plan))
            return node->records[i].made;
    return 0;
}

void cluster_return_later(cluster *it, uint32_t worker, uint32_t most, random_stream *details)
{
    if (it->nodes[worker].returning)
        return;
    it->nodes[worker].returning = true;
    cluster_add(it, it->now + stream_between(details, 0, most), ITEM_JOIN, worker);
}

static void drop_machine(cluster_node *node)
{
    tarry_worker_free(node->machine);
    node->machine = NULL;
    node->token = node->at = 0;
    node->computes = node->encodes = false;
}

int cluster_make_machine(cluster *it, uint32_t worker, uint32_t plan)
{
    cluster_node *node = &it->nodes[worker];
    const tarry_plan *of = it->plans[plan].plan;
    tarry_worker_settings settings = {
        .worker = worker,
        .server = it->settings,
        .last = history_last(&node->replica.state),
    };
    if (cluster_planted(it, PLANT_OTHER_LIMIT))
        settings.server.conditioning_limit = 1.01;
    if (cluster_planted(it, PLANT_RUN_TOO_FAR))
        settings.server.ahead++;
    tarry_worker *made;
    int error = tarry_worker_create(of, &settings, &it->allocator, &made, NULL);
    if (error != TARRY_OK)
        return error;
    if (it->everywhere)
        everywhere_turn(it, worker, made);
    drop_machine(node);
    feedback_forget(it, worker);
    node->machine = made;
    begin_record(node, (cluster_record){0});
    node->machines++;
    node->plan = plan;
    node->cut = cluster_planted(it, PLANT_KEEP_SPANS) ? 0 : plan;
    node->shape = cluster_shape(it, of, worker);
    node->holds = 0;
    for (uint32_t slot = 0; slot < tarry_plan_load(of, worker); slot++)
        node->holds |= UINT32_C(1) << tarry_plan_chunk(of, worker, slot);
    node->open = 0;
    memset(node->sum, 0, sizeof(node->sum));
    return TARRY_OK;
}

int cluster_connect(cluster *it, uint32_t worker)
{
    cluster_node *node = &it->nodes[worker];
    node->returning = node->preparing = node->turning = false;
    if (node->machine == NULL || node->plan != it->number) {
        int error = cluster_make_machine(it, worker, it->number);
        if (error != TARRY_OK)
            return error;
    }
    memory_network_connect(it->network, worker);
    cluster_note(it, "worker %u joins", worker);
    return secure_connect(it, worker);
}

void cluster_disconnect(cluster *it, uint32_t worker, bool noticed)
{
    cluster_node *node = &it->nodes[worker];
    it->notices = noticed;
    transport_close(memory_network_end(it->network, worker), TRANSPORT_COORDINATOR);
    node->turning = node->preparing = false;
}

void cluster_come_back(cluster *it, uint32_t worker)
{
    if (it->nodes[worker].returning)
        return;
    it->nodes[worker].returning = true;
    uint64_t time = draws_between(&it->draws, DRAW_NOTICE, worker, 1, 500);
    cluster_add(it, it->now + time, ITEM_JOIN, worker);
}

void cluster_crash(cluster *it, uint32_t worker, bool noticed, random_stream *details)
{
    cluster_node *node = &it->nodes[worker];
    if (node->machine == NULL)
        return;
    cluster_note(it, "worker %u crashes%s", worker, noticed ? "" : " silently");
    drop_machine(node);
    feedback_forget(it, worker);
    seen_forget(it, worker);
    everywhere_forget(it, worker);
    node->life++;
    cluster_disconnect(it, worker, noticed);
    if (stream_chance(details, 0.7))
        cluster_return_later(it, worker, stream_chance(details, 0.5) ? 200 : 3000, details);
}

void cluster_cut(cluster *it, uint32_t worker, bool noticed, random_stream *details)
{
    if (it->nodes[worker].machine == NULL)
        return;
    cluster_note(it, "worker %u loses its connection%s", worker, noticed ? "" : " unnoticed");
    cluster_disconnect(it, worker, noticed);
    uint32_t most = noticed ? 1000 : stream_chance(details, 0.5) ? 10 : 5000;
    cluster_return_later(it, worker, most, details);
}
