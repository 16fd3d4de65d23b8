/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/cluster.h"
#include "worlds/invariants.h"

#include <string.h>

bool history_begins(const history *shorter, const history *longer)
{
    bool same = shorter->count <= longer->count;
    for (uint32_t i = 0; same && i < shorter->count; i++)
        same = sum_id_same(&shorter->sums[i], &longer->sums[i]);
    return same;
}

tarry_sum_id history_last(const history *of)
{
    return of->count > 0 ? of->sums[of->count - 1] : (tarry_sum_id){0};
}

/* splitmix64's last steps: any change of a bit changes about half of them. */
static uint64_t mix(uint64_t bits)
{
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

uint64_t everywhere_digest(const tarry_sum_id *name)
{
    return mix(name->step << 32 ^ (uint64_t)name->term << 16 ^ name->attempt);
}

static uint64_t history_digest(const history *of)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < of->count; i++)
        digest = mix(digest + of->sums[i].digest);
    return digest;
}

uint64_t history_parameters(const history *of)
{
    return history_digest(of) ^ of->flipped;
}

uint32_t history_number(const history *of)
{
    return (uint32_t)history_digest(of);
}

static void answer(cluster *it, uint32_t worker, tarry_event event)
{
    cluster_step_worker(it, worker, &event, NULL);
}

void everywhere_worker_effect(cluster *it, uint32_t worker, const tarry_effect *effect)
{
    switch (effect->type) {
    case TARRY_EFFECT_REDUCE:
        everywhere_reduce(it, worker, effect);
        break;
    case TARRY_EFFECT_FETCH:
    case TARRY_EFFECT_LOAD:
        everywhere_transfer(it, worker, effect);
        break;
    case TARRY_EFFECT_STEP:
        everywhere_step(it, worker, effect);
        break;
    case TARRY_EFFECT_ABANDON:
        if (it->nodes[worker].replica.task == TASK_NONE ||
            it->nodes[worker].replica.task == TASK_STEP)
            invariant_broken(it, "abandons_what_it_does", "worker %u", worker);
        everywhere_end_task(it, worker);
        break;
    default:
        break;
    }
}

static void take_fetched(cluster *it, const cluster_item *due, tarry_event *event)
{
    const cluster_node *source = &it->nodes[due->from];
    event->type = TARRY_EVENT_FETCHED;
    event->failed = due->failed || source->machine == NULL ||
                    everywhere_parted(it, due->worker, due->from) ||
                    !sum_id_same(&source->replica.held, &due->sum);
    if (!event->failed) {
        it->nodes[due->worker].replica.held = due->sum;
        it->counts.fetches++;
    }
}

static void take_loaded(cluster *it, const cluster_item *due, tarry_event *event)
{
    replica *own = &it->nodes[due->worker].replica;
    event->type = TARRY_EVENT_LOADED;
    event->failed = due->failed || everywhere_parted(it, due->worker, due->from) ||
                    (due->from != due->worker && it->nodes[due->from].machine == NULL);
    if (event->failed)
        return;
    own->state = own->incoming;
    own->held = (tarry_sum_id){0};
    event->sum = history_last(&own->state);
    event->state = own->digests ? history_parameters(&own->state) : 0;
    it->counts.loads++;
    if (cluster_planted(it, PLANT_LATE_LOAD)) {
        cluster_item *again =
            cluster_add(it, it->now + it->settings.silence_ns, ITEM_LOADED, due->worker);
        again->token = due->token;
        again->failed = false;
    }
    invariants_of_state(it, due->worker);
}

/* An item of another task than the present one, or of none: planted errors. */
static void late_end(cluster *it, const cluster_item *due)
{
    replica *own = &it->nodes[due->worker].replica;
    if (it->nodes[due->worker].machine == NULL || due->failed)
        return;
    if (cluster_planted(it, PLANT_LATE_ENGINE) && due->type == ITEM_REDUCED)
        own->held = due->sum;
    if (cluster_planted(it, PLANT_LATE_LOAD) && due->type == ITEM_LOADED) {
        own->state = own->incoming;
        own->held = (tarry_sum_id){0};
    }
}

void everywhere_task_over(cluster *it, const cluster_item *due)
{
    cluster_node *node = &it->nodes[due->worker];
    replica *own = &node->replica;
    if (node->machine == NULL || own->task == TASK_NONE || due->token != own->token) {
        late_end(it, due);
        return;
    }
    tarry_event event = {.sum = due->sum, .from = due->from, .failed = due->failed};
    cluster_note(it, "worker %u: task %d over%s", due->worker, own->task,
                 due->failed ? ", failed" : "");
    own->task = TASK_NONE;
    if (due->type == ITEM_FETCHED) {
        take_fetched(it, due, &event);
    } else if (due->type == ITEM_LOADED) {
        take_loaded(it, due, &event);
    } else if (due->type == ITEM_STEPPED) {
        event.type = TARRY_EVENT_STEPPED;
        event.state = own->digests ? history_parameters(&own->state) : 0;
    } else {
        event.type = TARRY_EVENT_REDUCED;
        if (!due->failed)
            own->held = due->sum;
        else if (cluster_planted(it, PLANT_SUM_IN_PLACE))
            node->sum[0] += 0.5;
        invariants_of_reduced(it, due->worker);
    }
    answer(it, due->worker, event);
}

void everywhere_forget(cluster *it, uint32_t worker)
{
    everywhere_end_task(it, worker);
    memset(&it->nodes[worker].replica, 0, sizeof(it->nodes[worker].replica));
}

void everywhere_turn(cluster *it, uint32_t worker, tarry_worker *made)
{
    cluster_node *node = &it->nodes[worker];
    if (node->machine == NULL)
        return;
    everywhere_end_task(it, worker);
    int error = tarry_worker_adopt(made, node->machine, NULL);
    if (error != TARRY_OK)
        invariant_broken(it, "plans_follow_each_other", "worker %u: %s", worker,
                         tarry_error_text(error));
}
