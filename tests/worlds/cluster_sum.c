/* SPDX-License-Identifier: Apache-2.0 */
/* The server's estimate: coded parts that are added up, and when. */
#include "worlds/cluster.h"
#include "worlds/invariants.h"

#include <string.h>

static void add_sum(cluster *it, const tarry_effect *effect)
{
    uint64_t time = it->now + draws_between(&it->draws, DRAW_SUM, 0, 0, it->sum_time);
    it->last_sum = time > it->last_sum ? time : it->last_sum;
    bool clear = effect->type == TARRY_EFFECT_CLEAR;
    cluster_item *sum =
        cluster_add(it, it->last_sum, clear ? ITEM_CLEAR : ITEM_COMBINE, effect->worker);
    sum->round = effect->round;
    sum->attempt = effect->attempt;
    sum->stripe = effect->stripe;
    sum->scale = cluster_planted(it, PLANT_FORGET_SCALE) ? 1 : effect->scale;
    if (!clear)
        sum->part = it->inbox[effect->worker][effect->stripe];
}

void cluster_clear_estimate(cluster *it, uint32_t stripe)
{
    if (cluster_planted(it, PLANT_FORGET_CLEAR))
        return;
    memset(it->estimate[stripe], 0, sizeof(it->estimate[stripe]));
    memset(it->filling[stripe], 0, sizeof(it->filling[stripe]));
    it->summed[stripe] = 0;
    feedback_clear(it, stripe);
    secure_clear(it, stripe);
}

/* C += scale R[., worker] u_i, for each unit of every chunk i, of the round that its gradient
 * belongs to. */
static void add_to_unit(cluster *it, const cluster_item *done, uint32_t chunk, uint32_t unit)
{
    bool stale = (done->part.stale >> chunk & 1) != 0;
    double(*sum)[MAX_PARTS] = (stale ? it->filling : it->estimate)[done->stripe][unit];
    const uint32_t parts = tarry_plan_parts(it->plan);
    for (uint32_t p = 0; p < parts; p++)
        for (uint32_t q = 0; q < parts; q++)
            sum[p][q] += done->scale * tarry_plan_decode_weight(it->plan, p, done->worker) *
                         done->part.u[chunk][q];
}

void cluster_add_part(cluster *it, const cluster_item *done)
{
    invariants_of_sum(it, done);
    feedback_add(it, done->worker, done->stripe, &done->part);
    secure_add(it, done->worker, done->stripe, &done->part.masked);
    /* A chunk that a wrong cut does not have stands for another one of it. */
    const cluster_plan *cut = &it->plans[done->part.cut];
    uint32_t chunks = tarry_plan_chunks(cut->plan);
    for (uint32_t chunk = 0; chunk < MAX_CHUNKS; chunk++)
        for (uint32_t unit = 0; unit < MAX_CHUNKS * GRAIN; unit++)
            if (cut->units[chunk % chunks][unit / GRAIN] >> unit % GRAIN & 1)
                add_to_unit(it, done, chunk, unit);
}

static bool is_sum(item_type type)
{
    return type == ITEM_CLEAR || type == ITEM_COMBINE;
}

/* The sum that is to be carried out next; count if there is none. */
static size_t next_sum(const cluster *it)
{
    size_t next = it->count;
    for (size_t i = 0; i < it->count; i++)
        if (is_sum(it->items[i].type) &&
            (next == it->count || it->items[i].sequence < it->items[next].sequence))
            next = i;
    return next;
}

/* A round that is over has its estimate: what is still to be carried out then, is, in its order. */
static void settle_sums(cluster *it)
{
    for (size_t next = next_sum(it); next < it->count; next = next_sum(it)) {
        if (it->items[next].type == ITEM_CLEAR)
            cluster_clear_estimate(it, it->items[next].stripe);
        else
            cluster_add_part(it, &it->items[next]);
        cluster_remove(it, next);
    }
}

void cluster_add_up(cluster *it, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        tarry_effect_type type = effects->items[i].type;
        if (it->everywhere && (type == TARRY_EFFECT_CLEAR || type == TARRY_EFFECT_COMBINE))
            invariant_broken(it, "who_sums_is_not_the_server", "effect %d", type);
        else if (type == TARRY_EFFECT_CLEAR || type == TARRY_EFFECT_COMBINE)
            add_sum(it, &effects->items[i]);
        if (type == TARRY_EFFECT_DONE)
            settle_sums(it);
        if (type == TARRY_EFFECT_DONE && effects->items[i].result->error == TARRY_OK) {
            feedback_round_over(it);
            secure_round_over(it);
        }
    }
}

void cluster_drop_sums(cluster *it)
{
    for (size_t next = next_sum(it); next < it->count; next = next_sum(it))
        cluster_remove(it, next);
    it->last_sum = 0;
}

void cluster_combine(cluster *it, const cluster_item *done)
{
    cluster_add_part(it, done);
    if (cluster_planted(it, PLANT_SUM_TWICE))
        cluster_add_part(it, done);
    cluster_step_server(it,
                        &(tarry_event){.type = TARRY_EVENT_COMBINED,
                                       .worker = done->worker,
                                       .round = done->round,
                                       .attempt = done->attempt,
                                       .stripe = done->stripe},
                        NULL);
}
