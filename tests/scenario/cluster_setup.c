/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#include <assert.h>

static uint32_t between(cluster *it, uint32_t least, uint32_t most)
{
    return least + random_below(&it->random, most - least + 1);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void make_plan(cluster *it)
{
    tarry_plan_settings settings;
    tarry_plan_settings_init(&settings);
    settings.workers = between(it, 1, MAX_WORKERS);
    settings.chunks = between(it, 1, MAX_CHUNKS);
    uint32_t least = between(it, 1, settings.workers); /* more copies than just any number */
    settings.replication = between(it, least, settings.workers);
    settings.parts = between(it, 1, smaller(settings.replication, MAX_PARTS));
    settings.design = (tarry_design)between(it, TARRY_DESIGN_CYCLIC, TARRY_DESIGN_RANDOM);
    settings.order = (tarry_order)between(it, TARRY_ORDER_OPTIMAL, TARRY_ORDER_AS_IS);
    settings.seed = random_u64(&it->random);
    int error = tarry_plan_create(&settings, NULL, &it->plan, NULL);
    assert(error == TARRY_OK);
    (void)error;
}

static void draw_plan(cluster *it, uint64_t seed, uint32_t group)
{
    if (it->plan == NULL || it->plan_seed != seed || it->plan_group != group) {
        tarry_plan_free(it->plan);
        it->random = random_stream_make(seed, RANDOM_TEST, group, 1);
        make_plan(it);
        it->plan_seed = seed;
        it->plan_group = group;
    }
    it->workers = tarry_plan_workers(it->plan);
    cluster_note(it, "%u workers, %u chunks, %u parts", it->workers, tarry_plan_chunks(it->plan),
                 tarry_plan_parts(it->plan));
    for (uint32_t worker = 0; worker < it->workers; worker++)
        for (uint32_t slot = 0; slot < tarry_plan_load(it->plan, worker); slot++)
            cluster_note(it, "worker %u, position %u: chunk %u", worker, slot,
                         tarry_plan_chunk(it->plan, worker, slot));
}

static void draw_settings(cluster *it)
{
    tarry_server_settings *settings = &it->settings;
    uint32_t full = tarry_plan_chunks(it->plan) * tarry_plan_parts(it->plan);
    tarry_server_settings_init(settings);
    settings->stop = (tarry_stop)between(it, TARRY_STOP_EXACT, TARRY_STOP_WORKERS);
    settings->deadline_ns = between(it, 1, 2000);
    settings->error_limit = (double)between(it, 0, full / 2) / (double)full;
    settings->workers_needed = between(it, 1, it->workers);
    settings->credit = cluster_chance(it, 0.3) ? TARRY_CREDIT_WHOLE : TARRY_CREDIT_CHUNK;
    settings->reproducible = settings->stop != TARRY_STOP_DEADLINE && cluster_chance(it, 0.25);
    /* Some limits so tight that sets of workers fail them. */
    settings->conditioning_limit = cluster_chance(it, 0.7) ? 1000 : 1.5 + between(it, 0, 300) * .01;
    it->stripes = between(it, 1, MAX_STRIPES);
    settings->stripe_length = between(it, 1, 9);
    settings->part_length = (it->stripes - 1) * settings->stripe_length +
                            between(it, 1, (uint32_t)settings->stripe_length);

    it->delay = cluster_chance(it, 0.2) ? 0 : between(it, 1, 100);
    /* An answer to a probe is back in time unless somebody pauses. */
    settings->silence_ns = 3 * it->delay + between(it, 100, 2000);
    it->reorder_up = cluster_chance(it, 0.5);
    it->reorder_down = cluster_chance(it, 0.15);
    it->duplicates = cluster_chance(it, 0.5) ? 0 : 0.2;
    it->failures = cluster_chance(it, 0.7) ? 0 : 0.1;
    it->strays = cluster_chance(it, 0.5) ? 0 : 0.2;
    it->compute_time = between(it, 5, 200);
    it->encode_time = cluster_chance(it, 0.3) ? 0 : between(it, 1, 100);
    it->sum_time = cluster_chance(it, 0.5) ? 0 : between(it, 1, 200);
    it->rounds = between(it, 2, MAX_ROUNDS);
    cluster_note(it,
                 "stop %d, deadline %llu, error %g, workers %u, credit %d%s, limit %g, %u stripes, "
                 "silence %llu%s%s",
                 settings->stop, (unsigned long long)settings->deadline_ns, settings->error_limit,
                 settings->workers_needed, settings->credit,
                 settings->reproducible ? ", reproducible" : "", settings->conditioning_limit,
                 it->stripes, (unsigned long long)settings->silence_ns,
                 it->reorder_up ? ", reports out of order" : "",
                 it->reorder_down ? ", orders out of order" : "");
}

/* At random times; and, in the middle of the coded parts, some more crashes. */
static void plan_faults(cluster *it)
{
    uint32_t horizon = it->rounds * tarry_plan_chunks(it->plan) * it->compute_time + 500;
    uint32_t faults = cluster_chance(it, 0.2) ? 0 : between(it, 1, 6);
    for (uint32_t i = 0; i < faults; i++) {
        item_type fault = (item_type)between(it, ITEM_CRASH, ITEM_PAUSE_SERVER);
        uint64_t time = between(it, 0, horizon);
        cluster_add(it, time, fault, random_below(&it->random, it->workers));
    }
    if (cluster_chance(it, 0.05))
        cluster_add(it, between(it, 0, horizon), ITEM_ABORT, 0)->round = 0;
    it->crashes_while_encoding = cluster_chance(it, 0.5) ? 0 : 0.2;
    it->encoding_crashes_left = 3;
}

void cluster_set_up(cluster *it, uint64_t seed, uint32_t run)
{
    draw_plan(it, seed, run / RUNS_PER_PLAN);
    it->random = random_stream_make(seed, RANDOM_TEST, run, 0);
    draw_settings(it);
    while (!model_init(&it->model, it->plan, &it->settings, it->stripes))
        it->settings.conditioning_limit *= 1.01;
    int error = tarry_server_create(it->plan, &it->settings, NULL, &it->server, NULL);
    assert(error == TARRY_OK);
    (void)error;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        cluster_node *node = &it->nodes[worker];
        node->shape = codec_shape_of(it->plan, worker, it->stripes);
        node->speed = cluster_chance(it, 0.3) ? 1 + 9 * random_uniform(&it->random) : 1;
        if (cluster_chance(it, 0.05))
            continue; /* never comes */
        node->returning = true;
        cluster_add(it, between(it, 0, cluster_chance(it, 0.9) ? 50 : 1000), ITEM_JOIN, worker);
    }
    cluster_add(it, between(it, 20, 100), ITEM_START, 0);
    plan_faults(it);
}
