/* SPDX-License-Identifier: Apache-2.0 */
#include "worlds/cluster.h"

enum {
    FEWER_WORKERS = 7,          /* of most worlds: more takes longer, and finds less */
    MOST_CODED_REPLICATION = 6, /* with more than one part: sets of workers have to be judged */
    LONGEST_COMPUTE = 7,        /* see begin_computing */
    MOST_AHEAD = 4,
};

static uint32_t between(cluster *it, uint32_t least, uint32_t most)
{
    return draws_between(&it->draws, DRAW_SETUP, 0, least, most);
}

static bool chance(cluster *it, double probability)
{
    return draws_chance(&it->draws, DRAW_SETUP, 0, probability);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void draw_plan_settings(const cluster_job *job, tarry_plan_settings *settings)
{
    random_stream stream = draws_of_group(job->seed, job->run / CLUSTER_PLAN_RUNS);
    tarry_plan_settings_init(settings);
    uint32_t most = stream_chance(&stream, 0.8) ? FEWER_WORKERS : MAX_WORKERS;
    settings->workers = stream_between(&stream, stream_chance(&stream, 0.1) ? 1 : 2, most);
    settings->chunks = stream_between(&stream, 1, MAX_CHUNKS);
    uint32_t least = stream_chance(&stream, 0.3) ? 1 : (settings->workers + 1) / 2;
    settings->replication = stream_between(&stream, least, settings->workers);
    settings->parts = stream_between(&stream, 1, smaller(settings->replication, MAX_PARTS));
    if (job->secure)
        settings->parts = 1;
    if (settings->parts > 1)
        settings->replication = smaller(settings->replication, MOST_CODED_REPLICATION);
    settings->design =
        (tarry_design)stream_between(&stream, TARRY_DESIGN_CYCLIC, TARRY_DESIGN_RANDOM);
    settings->order = (tarry_order)stream_between(&stream, TARRY_ORDER_OPTIMAL, TARRY_ORDER_AS_IS);
    settings->seed = random_u64(&stream);
}

static int draw_plan(cluster *it)
{
    tarry_plan_settings settings;
    draw_plan_settings(&it->job, &settings);
    int error = cluster_first_plan(it, &settings);
    if (error != TARRY_OK)
        return error;
    it->plan = it->plans[0].plan;
    it->workers = settings.workers;
    cluster_note(it, "%u workers, %u chunks, replication %u, %u parts, design %d, order %d",
                 settings.workers, settings.chunks, settings.replication, settings.parts,
                 settings.design, settings.order);
    return TARRY_OK;
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
    settings->credit = chance(it, 0.3) ? TARRY_CREDIT_WHOLE : TARRY_CREDIT_CHUNK;
    settings->reproducible = settings->stop != TARRY_STOP_DEADLINE && chance(it, 0.25);
    /* Some limits so tight that sets of workers fail them. */
    settings->conditioning_limit = chance(it, 0.7) ? 1000 : 1.02 + between(it, 0, 200) * .01;
    if (tarry_plan_parts(it->plan) == 1 && chance(it, 0.5)) {
        settings->keep = TARRY_KEEP_CREDITED;
        /* From a stream that nothing else is drawn from: other worlds stay what they are. */
        settings->ahead = draws_between(&it->draws, DRAW_SETUP, 1, 0, MOST_AHEAD);
        settings->credit = TARRY_CREDIT_CHUNK;
        settings->reproducible = false;
    }
    bool fixed = settings->credit == TARRY_CREDIT_WHOLE || settings->reproducible ||
                 settings->stop == TARRY_STOP_WORKERS;
    if (!fixed && chance(it, 0.9))
        settings->pick = TARRY_PICK_SHARE;
    it->stripes = between(it, 1, MAX_STRIPES);
    settings->stripe_length = between(it, 1, 9);
    settings->dimension = (it->stripes - 1) * settings->stripe_length +
                          between(it, 1, (uint32_t)settings->stripe_length);
    settings->dimension *= tarry_plan_parts(it->plan);
    if (settings->stop != TARRY_STOP_EXACT)
        settings->fill = (tarry_fill)between(
            it, TARRY_FILL_NONE,
            settings->keep == TARRY_KEEP_CREDITED ? TARRY_FILL_SCALE : TARRY_FILL_STALE);
}

/* From a stream of their own, so that other worlds stay what they are. */
static void draw_sample(cluster *it)
{
    enum { STREAM = 4 };
    tarry_server_settings *settings = &it->settings;
    draws *from = &it->draws;
    bool may_sample = settings->credit == TARRY_CREDIT_CHUNK &&
                      settings->stop != TARRY_STOP_WORKERS && settings->fill != TARRY_FILL_STALE &&
                      !it->secure.on;
    if (!may_sample || !draws_chance(from, DRAW_SETUP, STREAM, 0.3))
        return;
    settings->sample_chunks =
        draws_between(from, DRAW_SETUP, STREAM, 1, tarry_plan_chunks(it->plan));
    settings->sample_seed = draws_between(from, DRAW_SETUP, STREAM, 0, UINT32_MAX - 1);
    cluster_note(it, "%u chunks sampled", settings->sample_chunks);
}

/* Where everyone gets the sum: from a stream of their own, so that the rest is as it is where the
 * server does. */
static void draw_everywhere(cluster *it)
{
    tarry_server_settings *settings = &it->settings;
    settings->sum = TARRY_SUM_EVERYWHERE;
    /* Of no use any more: worlds that broke once stay what they are. */
    (void)draws_chance(&it->draws, DRAW_SETUP, 2, 0.9);
    settings->voters_grace_ns = draws_between(&it->draws, DRAW_SETUP, 2, 1, 4000);
    it->everywhere = true;
    if (settings->fill == TARRY_FILL_STALE)
        settings->fill = TARRY_FILL_SCALE;
    it->reorder_down = false;
    it->transfer_time = draws_between(&it->draws, DRAW_SETUP, 2, 0, 200);
    it->engine_faults = draws_chance(&it->draws, DRAW_SETUP, 2, 0.5) ? 0 : 0.1;
    it->transfer_faults = draws_chance(&it->draws, DRAW_SETUP, 2, 0.5) ? 0 : 0.2;
    /* What goes wrong without a hang ends sooner, as a rule. */
    settings->attempt_limit_ns = 3 * settings->silence_ns + 4 * (uint64_t)it->transfer_time +
                                 it->stripes * (uint64_t)it->encode_time;
    if (cluster_planted(it, PLANT_NO_LIMIT))
        settings->attempt_limit_ns = 0;
    if (cluster_planted(it, PLANT_NO_PAUSE))
        settings->attempts_most = UINT32_MAX;
    settings->digest_steps = draws_between(&it->draws, DRAW_SETUP, 2, 0, 2);
    it->flips = draws_chance(&it->draws, DRAW_SETUP, 2, 0.7) ? 0 : 0.1;
    /* From a stream of its own: other worlds stay what they are. */
    if (draws_chance(&it->draws, DRAW_SETUP, 4, 0.4) && tarry_plan_parts(it->plan) == 1) {
        static const tarry_compress ways[][2] = {{TARRY_COMPRESS_INT8, TARRY_COMPRESS_NONE},
                                                 {TARRY_COMPRESS_NONE, TARRY_COMPRESS_INT8},
                                                 {TARRY_COMPRESS_INT8, TARRY_COMPRESS_INT8}};
        const tarry_compress *way = ways[draws_between(&it->draws, DRAW_SETUP, 4, 0, 2)];
        settings->compress = way[0];
        settings->compress_down = way[1];
    }
    cluster_note(it, "everyone gets the sum: grace %llu, transfers within %u",
                 (unsigned long long)settings->voters_grace_ns, it->transfer_time);
}

static void draw_conditions(cluster *it)
{
    tarry_server_settings *settings = &it->settings;
    it->delay = chance(it, 0.2) ? 0 : between(it, 1, 100);
    /* An answer to a probe is back in time unless somebody pauses. */
    settings->silence_ns = 3 * it->delay + between(it, 100, 2000);
    it->reorder_up = chance(it, 0.5);
    it->reorder_down = chance(it, 0.15);
    it->duplicates = chance(it, 0.5) ? 0 : 0.2;
    it->failures = chance(it, 0.7) ? 0 : 0.1;
    it->strays = chance(it, 0.5) ? 0 : 0.2;
    it->holds = chance(it, 0.7) ? 0 : 0.1;
    it->compute_time = between(it, 5, 200);
    it->encode_time = chance(it, 0.3) ? 0 : between(it, 1, 100);
    it->sum_time = chance(it, 0.5) ? 0 : between(it, 1, 200);
    it->rounds = between(it, 2, 4);
    cluster_note(
        it,
        "pick %d, stop %d, deadline %llu, error %g, workers %u, credit %d, fill %d%s%s, limit %g, "
        "%u stripes, "
        "silence %llu, ahead %u%s%s",
        settings->pick, settings->stop, (unsigned long long)settings->deadline_ns,
        settings->error_limit, settings->workers_needed, settings->credit, settings->fill,
        settings->reproducible ? ", reproducible" : "",
        settings->keep == TARRY_KEEP_CREDITED ? ", keep credited" : "",
        settings->conditioning_limit, it->stripes, (unsigned long long)settings->silence_ns,
        settings->ahead, it->reorder_up ? ", reports out of order" : "",
        it->reorder_down ? ", orders out of order" : "");
}

/*
 * How long a round may last with nothing going wrong any more. Whoever is gone has been given up
 * after twenty times silence_ns: probes go out within 3/8 of it, and the limit to their answers,
 * learned from answers of up to 3 times as long, is at most 15 times. Each worker that is left out
 * costs at most another attempt: the chunk that the signal interrupted, the way there and back, all
 * stripes encoded and summed.
 */
void cluster_find_bound(cluster *it)
{
    uint64_t load = 0, slowness = 0;
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        uint32_t own = tarry_plan_load(it->plan, worker);
        load = own > load ? own : load;
        if (it->nodes[worker].slowness > slowness)
            slowness = it->nodes[worker].slowness;
    }
    uint64_t chunk = LONGEST_COMPUTE * slowness * it->compute_time, attempts = it->workers + 1;
    it->patience = it->settings.silence_ns / 8 + chunk / 4 + 4 * it->delay + 4;
    uint64_t upload = it->stripes * (uint64_t)it->encode_time + it->sum_time + 4 * it->delay;
    /* With TARRY_KEEP_CREDITED a signal voids copies without a fate, and answers are waited for. */
    uint64_t open = it->settings.ahead + 1;
    if (it->settings.keep == TARRY_KEEP_CREDITED)
        upload += open * chunk + (open + load) * 2 * it->delay;
    if (it->everywhere) /* a sum, fetches, the log, steps; and who was away catches up */
        upload += 10 * (it->transfer_time + 4 * (uint64_t)it->delay) + it->settings.silence_ns;
    it->bound = 20 * it->settings.silence_ns + (load + attempts) * chunk + attempts * upload;
    if (it->settings.stop == TARRY_STOP_DEADLINE)
        it->bound += it->settings.deadline_ns;
}

static void plan_fault(cluster *it, uint32_t horizon, random_stream *details)
{
    item_type last = it->everywhere ? ITEM_PART_WORKERS : ITEM_RESTART_SERVER;
    item_type type = (item_type)stream_between(details, ITEM_CRASH, last);
    uint64_t time = stream_between(details, 0, horizon);
    uint32_t worker = stream_between(details, 0, it->workers - 1);
    cluster_add(it, time, type, worker)->details = *details;
}

/* At random times; and, in the middle of the coded parts, some more crashes. */
static void plan_faults(cluster *it)
{
    uint32_t horizon = it->rounds * tarry_plan_chunks(it->plan) * it->compute_time + 500;
    uint32_t faults = chance(it, 0.2) ? 0 : between(it, 1, 7);
    random_stream details;
    for (uint32_t i = 0; i < faults; i++)
        if (draws_fault(&it->draws, FAULT_PLANNED, 0, 1, &details))
            plan_fault(it, horizon, &details);
    if (draws_fault(&it->draws, FAULT_PLANNED, 0, 0.05, &details))
        cluster_add(it, stream_between(&details, 0, horizon), ITEM_ABORT, 0)->round = 0;
    for (uint32_t saves = between(it, 0, 3); saves > 0; saves--)
        cluster_add(it, between(it, 0, horizon), ITEM_SAVE, 0);
    it->breaks_while_encoding = chance(it, 0.5) ? 0 : 0.2;
    it->encoding_breaks_left = 3;
}

static void invite_workers(cluster *it)
{
    for (uint32_t worker = 0; worker < it->workers; worker++) {
        cluster_node *node = &it->nodes[worker];
        node->slowness = chance(it, 0.3) ? between(it, 1, 10) : 1;
        uint64_t arrival = between(it, 0, 50);
        random_stream details;
        if (draws_fault(&it->draws, FAULT_ABSENT, worker, 0.05, &details)) {
            if (stream_chance(&details, 0.3))
                continue; /* never comes */
            arrival = stream_between(&details, 50, 1000);
        }
        node->returning = true;
        cluster_add(it, arrival, ITEM_JOIN, worker);
    }
}

int cluster_set_up(cluster *it)
{
    int error = draw_plan(it);
    if (error != TARRY_OK)
        return error;
    draw_settings(it);
    draw_conditions(it);
    if (it->job.sum == TARRY_SUM_EVERYWHERE)
        draw_everywhere(it);
    secure_draw(it);
    feedback_draw(it);
    error = seen_draw(it);
    if (error != TARRY_OK)
        return error;
    draw_sample(it);
    while (!model_init(&it->model, it->plan, &it->settings))
        it->settings.conditioning_limit *= 1.01;
    cluster_take_plan(it, 0);
    error = cluster_make_server(it);
    if (error != TARRY_OK)
        return error;
    if (it->everywhere)
        everywhere_restore(it);
    cluster_save(it);
    invite_workers(it);
    cluster_find_bound(it);
    bool early = chance(it, 0.2); /* not all have arrived */
    cluster_add(it, early ? between(it, 0, 50) : between(it, 50, 100), ITEM_START, 0);
    plan_faults(it);
    return TARRY_OK;
}
