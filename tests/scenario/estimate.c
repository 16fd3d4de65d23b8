/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate.h"

#include <string.h>

#include "invariants.h"

static void add_sum(cluster *it, const tarry_effect *effect)
{
    uint64_t time = it->now + cluster_draw_time(it, it->sum_time);
    it->last_sum = time > it->last_sum ? time : it->last_sum;
    bool clear = effect->type == TARRY_EFFECT_CLEAR;
    cluster_item *sum =
        cluster_add(it, it->last_sum, clear ? ITEM_CLEAR : ITEM_COMBINE, effect->worker);
    sum->round = effect->round;
    sum->attempt = effect->attempt;
    sum->stripe = effect->stripe;
    if (!clear)
        sum->part = it->inbox[effect->worker][effect->stripe];
}

void estimate_clear(cluster *it, uint32_t stripe)
{
    if (it->planted == PLANT_FORGET_CLEAR)
        return;
    memset(it->estimate[stripe], 0, sizeof(it->estimate[stripe]));
    it->summed[stripe] = 0;
}

/* C_i += R[., worker] u_i, for every chunk i. */
void estimate_add_part(cluster *it, const cluster_item *done)
{
    invariants_of_sum(it, done->worker, done->stripe);
    for (uint32_t chunk = 0; chunk < it->model.chunks; chunk++)
        for (uint32_t p = 0; p < it->model.parts; p++)
            for (uint32_t q = 0; q < it->model.parts; q++)
                it->estimate[done->stripe][chunk][p][q] +=
                    tarry_plan_decode_weight(it->plan, p, done->worker) * done->part.u[chunk][q];
}

static bool is_sum(item_type type)
{
    return type == ITEM_CLEAR || type == ITEM_COMBINE;
}

/* A round that is over has its estimate: what is still to be carried out then, is, in its order. */
static void settle_sums(cluster *it)
{
    for (;;) {
        size_t next = it->count;
        for (size_t i = 0; i < it->count; i++)
            if (is_sum(it->items[i].type) &&
                (next == it->count || it->items[i].sequence < it->items[next].sequence))
                next = i;
        if (next == it->count)
            return;
        if (it->items[next].type == ITEM_CLEAR)
            estimate_clear(it, it->items[next].stripe);
        else
            estimate_add_part(it, &it->items[next]);
        it->items[next] = it->items[--it->count];
    }
}

void estimate_carry_out(cluster *it, const tarry_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        tarry_effect_type type = effects->items[i].type;
        if (type == TARRY_EFFECT_CLEAR || type == TARRY_EFFECT_COMBINE)
            add_sum(it, &effects->items[i]);
        if (type == TARRY_EFFECT_DONE)
            settle_sums(it);
    }
}
