/* SPDX-License-Identifier: Apache-2.0 */
#include <tarry/settings.h>

#include <math.h>

#include "compress/compress.h"
#include "compress/compress_lowrank.h"
#include "compress/view.h"
#include "protocol/form.h"

static const char *const names[TARRY_SETTING_COUNT] = {
    [TARRY_SETTING_NONE] = "",
    [TARRY_SETTING_WORKERS] = "workers",
    [TARRY_SETTING_CHUNKS] = "chunks",
    [TARRY_SETTING_PIECES] = "pieces",
    [TARRY_SETTING_REPLICATION] = "replication",
    [TARRY_SETTING_PARTS] = "parts",
    [TARRY_SETTING_DESIGN] = "design",
    [TARRY_SETTING_RACKS] = "racks",
    [TARRY_SETTING_ORDER] = "order",
    [TARRY_SETTING_CREDIT] = "credit",
    [TARRY_SETTING_KEEP] = "keep",
    [TARRY_SETTING_STOP] = "stop",
    [TARRY_SETTING_FILL] = "fill",
    [TARRY_SETTING_REPRODUCIBLE] = "reproducible",
    [TARRY_SETTING_COSTS] = "chunk-cost",
    [TARRY_SETTING_ADAPT] = "adapt",
    [TARRY_SETTING_SUM] = "sum",
    [TARRY_SETTING_COMPRESS] = "compress",
    [TARRY_SETTING_COMPRESS_DOWN] = "compress-down",
    [TARRY_SETTING_DP] = "dp",
    [TARRY_SETTING_SAMPLE] = "sample-chunks",
    [TARRY_SETTING_SECURE] = "secure",
};

const char *tarry_setting_name(tarry_setting setting)
{
    return names[setting];
}

void tarry_settings_init(tarry_settings *settings)
{
    *settings = (tarry_settings){.keep_auto = true};
    tarry_plan_settings_init(&settings->plan);
    tarry_server_settings_init(&settings->server);
    settings->plan.pieces = 0;
    settings->server.pick = TARRY_PICK_SHARE;
}

typedef bool settings_test(const tarry_settings *settings);

static bool always(const tarry_settings *settings)
{
    (void)settings;
    return true;
}

static bool is_dynamic(const tarry_settings *settings)
{
    return settings->server.pick != TARRY_PICK_PLAN;
}

static bool is_static(const tarry_settings *settings)
{
    return !is_dynamic(settings);
}

static bool counts_whole(const tarry_settings *settings)
{
    return settings->server.credit == TARRY_CREDIT_WHOLE;
}

static bool stops_exact(const tarry_settings *settings)
{
    return settings->server.stop == TARRY_STOP_EXACT;
}

static bool stops_by_time(const tarry_settings *settings)
{
    return settings->server.stop == TARRY_STOP_DEADLINE;
}

static bool stops_by_workers(const tarry_settings *settings)
{
    return settings->server.stop == TARRY_STOP_WORKERS;
}

static bool is_secure(const tarry_settings *settings)
{
    return settings->server.secure != 0;
}

/* Sums of integers are so at no price. */
static bool is_reproducible(const tarry_settings *settings)
{
    return settings->server.reproducible && !is_secure(settings);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool has_parts(const tarry_settings *settings)
{
    return settings->plan.parts > 1;
}

static bool keeps_credited(const tarry_settings *settings)
{
    return settings->server.keep == TARRY_KEEP_CREDITED && !settings->keep_auto;
}

static bool keeps_all(const tarry_settings *settings)
{
    return settings->server.keep == TARRY_KEEP_ALL && !settings->keep_auto;
}

static bool fills(const tarry_settings *settings)
{
    return settings->server.fill != TARRY_FILL_NONE;
}

static bool fills_stale(const tarry_settings *settings)
{
    return settings->server.fill == TARRY_FILL_STALE;
}

static bool compresses(const tarry_settings *settings)
{
    return settings->server.compress != TARRY_COMPRESS_NONE;
}

static bool compresses_down(const tarry_settings *settings)
{
    return settings->server.compress_down != TARRY_COMPRESS_NONE;
}

/* Sums come back in another form. */
static bool compresses_sums(const tarry_settings *settings)
{
    return compresses_down(settings) && settings->server.sum == TARRY_SUM_EVERYWHERE;
}

static bool feeds_back(const tarry_settings *settings)
{
    return compress_feeds_back(settings->server.compress);
}

static bool fills_scale(const tarry_settings *settings)
{
    return settings->server.fill == TARRY_FILL_SCALE;
}

static bool sums_everywhere(const tarry_settings *settings)
{
    return settings->server.sum == TARRY_SUM_EVERYWHERE;
}

static bool stops_by_error(const tarry_settings *settings)
{
    return settings->server.stop == TARRY_STOP_ERROR;
}

static bool is_noised(const tarry_settings *settings)
{
    return settings->noised;
}

static bool samples(const tarry_settings *settings)
{
    return settings->server.sample_chunks > 0;
}

static bool is_told_costs(const tarry_settings *settings)
{
    return settings->costs_told;
}

static bool adapts(const tarry_settings *settings)
{
    return settings->adapts;
}

static bool is_of_file(const tarry_settings *settings)
{
    return settings->plan.design == TARRY_DESIGN_FILE;
}

static bool parts_exceed_workers(const tarry_settings *settings)
{
    return settings->plan.parts > settings->plan.workers;
}

static bool stop_exceeds_workers(const tarry_settings *settings)
{
    return stops_by_workers(settings) && settings->server.workers_needed > settings->plan.workers;
}

static bool rack_exceeds_workers(const tarry_settings *settings)
{
    return settings->plan.rack_size > settings->plan.workers;
}

static bool copies_exceed_workers(const tarry_settings *settings)
{
    return !is_of_file(settings) && settings->plan.replication > settings->plan.workers;
}

static bool parts_exceed_copies(const tarry_settings *settings)
{
    return !is_of_file(settings) && settings->plan.parts > settings->plan.replication;
}

static bool sampled_exceed_chunks(const tarry_settings *settings)
{
    return !is_of_file(settings) && settings->server.sample_chunks > settings->plan.chunks;
}

/* What a setting may be, as far as others have to know. */
typedef enum trait {
    MORE_PARTS_THAN_WORKERS,
    MORE_NEEDED_THAN_WORKERS,
    MORE_IN_A_RACK_THAN_WORKERS,
    MORE_COPIES_THAN_WORKERS,
    MORE_PARTS_THAN_COPIES,
    MORE_SAMPLED_THAN_CHUNKS,
    ANY_WORKERS,
    ANY_CHUNKS,
    ANY_COPIES,
    SEVERAL_PARTS,
    DYNAMIC,
    STATIC,
    WHOLE,
    CREDITED,
    ALL_KEPT,
    EXACT,
    BY_TIME,
    BY_WORKERS,
    FILLED,
    STALE,
    REPRODUCIBLE,
    COSTS,
    ADAPTS,
    COMPRESSED,
    SUMS_COMPRESSED,
    FED_BACK,
    SCALED,
    EVERYWHERE,
    BY_ERROR,
    NOISED,
    SAMPLED,
    DOWN_COMPRESSED,
    SECURE,
} trait;

static const struct {
    tarry_setting setting;
    settings_test *holds;
    bool exceeds; /* the test compares its number with that of the other setting */
} traits[] = {
    [MORE_PARTS_THAN_WORKERS] = {TARRY_SETTING_PARTS, parts_exceed_workers, true},
    [MORE_NEEDED_THAN_WORKERS] = {TARRY_SETTING_STOP, stop_exceeds_workers, true},
    [MORE_IN_A_RACK_THAN_WORKERS] = {TARRY_SETTING_RACKS, rack_exceeds_workers, true},
    [MORE_COPIES_THAN_WORKERS] = {TARRY_SETTING_REPLICATION, copies_exceed_workers, true},
    [MORE_PARTS_THAN_COPIES] = {TARRY_SETTING_PARTS, parts_exceed_copies, true},
    [MORE_SAMPLED_THAN_CHUNKS] = {TARRY_SETTING_SAMPLE, sampled_exceed_chunks, true},
    [ANY_CHUNKS] = {TARRY_SETTING_CHUNKS, always, false},
    [ANY_WORKERS] = {TARRY_SETTING_WORKERS, always, false},
    [ANY_COPIES] = {TARRY_SETTING_REPLICATION, always, false},
    [SEVERAL_PARTS] = {TARRY_SETTING_PARTS, has_parts, false},
    [DYNAMIC] = {TARRY_SETTING_ORDER, is_dynamic, false},
    [STATIC] = {TARRY_SETTING_ORDER, is_static, false},
    [WHOLE] = {TARRY_SETTING_CREDIT, counts_whole, false},
    [CREDITED] = {TARRY_SETTING_KEEP, keeps_credited, false},
    [ALL_KEPT] = {TARRY_SETTING_KEEP, keeps_all, false},
    [EXACT] = {TARRY_SETTING_STOP, stops_exact, false},
    [BY_TIME] = {TARRY_SETTING_STOP, stops_by_time, false},
    [BY_WORKERS] = {TARRY_SETTING_STOP, stops_by_workers, false},
    [FILLED] = {TARRY_SETTING_FILL, fills, false},
    [STALE] = {TARRY_SETTING_FILL, fills_stale, false},
    [REPRODUCIBLE] = {TARRY_SETTING_REPRODUCIBLE, is_reproducible, false},
    [COSTS] = {TARRY_SETTING_COSTS, is_told_costs, false},
    [ADAPTS] = {TARRY_SETTING_ADAPT, adapts, false},
    [COMPRESSED] = {TARRY_SETTING_COMPRESS, compresses, false},
    [SUMS_COMPRESSED] = {TARRY_SETTING_COMPRESS_DOWN, compresses_sums, false},
    [FED_BACK] = {TARRY_SETTING_COMPRESS, feeds_back, false},
    [SCALED] = {TARRY_SETTING_FILL, fills_scale, false},
    [EVERYWHERE] = {TARRY_SETTING_SUM, sums_everywhere, false},
    [BY_ERROR] = {TARRY_SETTING_STOP, stops_by_error, false},
    [NOISED] = {TARRY_SETTING_DP, is_noised, false},
    [SAMPLED] = {TARRY_SETTING_SAMPLE, samples, false},
    [DOWN_COMPRESSED] = {TARRY_SETTING_COMPRESS_DOWN, compresses_down, false},
    [SECURE] = {TARRY_SETTING_SECURE, is_secure, false},
};

typedef struct rule {
    trait first, second;
    const char *reason;
} rule;

/* In the order in which defaults yield: numbers of workers and copies, what only a dynamic order
 * can do, the order, and all that goes by these. */
static const rule rules[] = {
    {MORE_PARTS_THAN_WORKERS, ANY_WORKERS, "each part takes a worker of its own"},
    {MORE_NEEDED_THAN_WORKERS, ANY_WORKERS, "that many workers never finish"},
    {MORE_IN_A_RACK_THAN_WORKERS, ANY_WORKERS, "a rack has some of the workers"},
    {MORE_COPIES_THAN_WORKERS, ANY_WORKERS, "each copy lies on a worker of its own"},
    {MORE_PARTS_THAN_COPIES, ANY_COPIES, "each part of a chunk takes a copy of its own"},
    {MORE_SAMPLED_THAN_CHUNKS, ANY_CHUNKS, "as many chunks are drawn as there are at most"},
    {ADAPTS, WHOLE, "a plan follows what a dynamic order learns"},
    {ADAPTS, BY_WORKERS, "a plan follows what a dynamic order learns"},
    {ADAPTS, REPRODUCIBLE, "a plan follows what is learned of times"},
    {COSTS, WHOLE, "only a dynamic order goes by what chunks cost"},
    {COSTS, BY_WORKERS, "only a dynamic order goes by what chunks cost"},
    {COSTS, REPRODUCIBLE, "only a dynamic order goes by what chunks cost"},
    {DYNAMIC, WHOLE, "in a dynamic order a worker does not finish all of its chunks"},
    {DYNAMIC, BY_WORKERS, "in a dynamic order a worker does not finish all of its chunks"},
    {DYNAMIC, REPRODUCIBLE, "a dynamic order depends on time"},
    {ADAPTS, STATIC, "with a static order nothing is learned that a plan could follow"},
    {COSTS, STATIC, "a static order does not go by what chunks cost"},
    {CREDITED, SEVERAL_PARTS, "with more than one part a worker has to keep all gradients"},
    {CREDITED, WHOLE, "with credit by whole worker a worker has to keep all gradients"},
    {CREDITED, REPRODUCIBLE, "which copies are credited depends on time"},
    {CREDITED, STALE, "a running sum holds no gradient of the round before"},
    {COMPRESSED, SEVERAL_PARTS, "decoding several parts would multiply what rounding one has cost"},
    {FED_BACK, EVERYWHERE, "what rounding lost would have to follow pieces of attempts that stand"},
    {SUMS_COMPRESSED, SEVERAL_PARTS, "among workers a sum of several parts comes back as float32"},
    {FED_BACK, SCALED, "what rounding lost would be multiplied with the sum"},
    {SAMPLED, WHOLE, "of a worker's chunks only some are sampled"},
    {SAMPLED, BY_WORKERS, "of a worker's chunks only some are sampled"},
    {SAMPLED, STALE, "a gradient of the round before was sampled with another chance"},
    {SAMPLED, ADAPTS, "chances are of chunks that the next plan does not have"},
    {SAMPLED, NOISED, "noise is measured for sums in which each chunk counts once"},
    {REPRODUCIBLE, BY_TIME, "a deadline depends on time"},
    {NOISED, EVERYWHERE, "noise is added by the server, before anybody else has the sum"},
    {NOISED, COMPRESSED, "what is rounded before the noise can change by more than one example"},
    {NOISED, SEVERAL_PARTS, "decoding several parts would multiply what rounding can change"},
    {NOISED, REPRODUCIBLE, "noise that can be drawn again hides nothing"},
    {NOISED, BY_TIME, "one example can decide whether its whole chunk is in time"},
    {NOISED, BY_ERROR, "one example can decide whether its whole chunk is in time"},
    {NOISED, BY_WORKERS, "one example can decide whether its whole chunk is in time"},
    {NOISED, FILLED, "what stands in for a chunk is bounded by no example"},
    {SECURE, EVERYWHERE, "parts are masked for a server that learns their sum alone"},
    {SECURE, SEVERAL_PARTS, "integers that wrap can't be multiplied, and parts of a chunk are"},
    {SECURE, WHOLE, "each chunk counts as one worker's copy"},
    {SECURE, ALL_KEPT, "each chunk counts as one worker's copy: integers have no average"},
    {SECURE, BY_TIME, "a sum without some chunks is another equation about the others"},
    {SECURE, BY_ERROR, "a sum without some chunks is another equation about the others"},
    {SECURE, BY_WORKERS, "a sum without some chunks is another equation about the others"},
    {SECURE, FILLED, "a sum without some chunks is another equation about the others"},
    {SECURE, SAMPLED, "a sum without some chunks is another equation about the others"},
    {SECURE, COMPRESSED, "masked integers look random: no form is shorter"},
    {SECURE, DOWN_COMPRESSED, "workers hold each other to the parameters as they were sent"},
    {SECURE, NOISED, "where the server learns sums alone, noise would have to come from workers"},
    {FILLED, EXACT, "an exact sum leaves nothing to fill"},
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

static bool is_broken(const rule *of, const tarry_settings *settings)
{
    return traits[of->first].holds(settings) && traits[of->second].holds(settings);
}

/* Nothing goes wrong with both, but one has no effect. */
static bool is_idle(const rule *of)
{
    return of->second == EXACT;
}

static int refuse(const rule *of, tarry_conflict *conflict)
{
    *conflict = (tarry_conflict){
        .first = traits[of->first].setting,
        .second = traits[of->second].setting,
        .exceeds = traits[of->first].exceeds,
        .reason = of->reason,
    };
    return TARRY_ERROR_ARGUMENT;
}

int tarry_settings_check(const tarry_settings *settings, tarry_conflict *conflict)
{
    for (size_t i = 0; i < RULES; i++)
        if (!is_idle(&rules[i]) && is_broken(&rules[i], settings))
            return refuse(&rules[i], conflict);
    return TARRY_OK;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Changes the setting so that it is in nobody's way; false if only what others are could help. */
static bool yield(tarry_settings *settings, tarry_setting setting)
{
    tarry_plan_settings *plan = &settings->plan;
    switch (setting) {
    case TARRY_SETTING_WORKERS:
        plan->workers = larger(larger(plan->workers, plan->parts), plan->rack_size);
        if (!is_of_file(settings))
            plan->workers = larger(plan->workers, plan->replication);
        if (stops_by_workers(settings))
            plan->workers = larger(plan->workers, settings->server.workers_needed);
        return true;
    case TARRY_SETTING_REPLICATION:
        plan->replication = larger(smaller(plan->replication, plan->workers), plan->parts);
        return true;
    case TARRY_SETTING_ORDER:
        settings->server.pick = TARRY_PICK_PLAN;
        return true;
    case TARRY_SETTING_KEEP:
        settings->server.keep = TARRY_KEEP_ALL;
        return true;
    case TARRY_SETTING_COSTS:
        settings->costs_told = false;
        return true;
    case TARRY_SETTING_ADAPT:
        settings->adapts = false;
        return true;
    default:
        return false;
    }
}

static bool is_given(uint32_t given, tarry_setting setting)
{
    return (given & TARRY_SETTING_BIT(setting)) != 0;
}

static uint32_t pieces_of(const tarry_plan_settings *plan)
{
    uint64_t units = (uint64_t)TARRY_USUAL_UNITS * plan->workers;
    if (plan->pieces != 0)
        return plan->pieces;
    if (plan->design == TARRY_DESIGN_FILE || plan->chunks >= units)
        return 1;
    return (uint32_t)((units + plan->chunks - 1) / plan->chunks);
}

int tarry_settings_settle(tarry_settings *settings, uint32_t given, tarry_conflict *conflict)
{
    tarry_settings settled = *settings;
    for (size_t i = 0; i < RULES; i++) {
        const rule *at = &rules[i];
        tarry_setting first = traits[at->first].setting, second = traits[at->second].setting;
        if (!is_broken(at, &settled))
            continue;
        bool done = is_idle(at) && !(is_given(given, first) && is_given(given, second));
        if (!done && !is_given(given, second))
            done = yield(&settled, second) && !is_broken(at, &settled);
        if (!done && !is_given(given, first))
            done = yield(&settled, first) && !is_broken(at, &settled);
        if (!done)
            return refuse(at, conflict);
    }
    settled.plan.pieces = pieces_of(&settled.plan);
    *settings = settled;
    return TARRY_OK;
}

/* ---- worker bytes ---- */

/* Vectors of a whole gradient that a worker has. */
static uint64_t worker_gradients(uint64_t load, const tarry_server_settings *server)
{
    if (server->keep == TARRY_KEEP_CREDITED)
        return server->ahead < load ? server->ahead + UINT64_C(1) : load;
    return server->fill == TARRY_FILL_STALE ? 2 * load : load;
}

/* Where workers make the sum each has that, too. */
static uint64_t worker_sums(const tarry_server_settings *server)
{
    return server->sum == TARRY_SUM_EVERYWHERE;
}

/* Numbers of its coded part. */
static uint64_t worker_part(uint32_t parts, uint64_t dimension)
{
    return (dimension + parts - 1) / parts;
}

/* The same of POWERSGD. */
static uint64_t lowrank_packed(const tarry_server_settings *server, size_t numbers)
{
    tarry_server_settings chosen = *server;
    chosen.stripe_length = form_stripe_length(server);
    const layout cut = layout_make(numbers, 1, chosen.stripe_length);
    return cut.stripes * form_packed_bytes(form_of(&chosen), &cut) + 2 * numbers * sizeof(float);
}

/* Bytes of the part in the form in which it is sent, where that is another, stripe by stripe; and
 * what rounding lost of it, twice: before and after the round in progress. Secure sums: its masked
 * stripes. */
static uint64_t worker_packed(const tarry_server_settings *server, uint64_t numbers)
{
    if (server->compress == TARRY_COMPRESS_NONE && server->secure == 0)
        return 0;
    if (server->compress == TARRY_COMPRESS_POWERSGD)
        return lowrank_packed(server, (size_t)numbers);
    bool cut = server->stripe_length > 0 && server->stripe_length < numbers; /* 0: it is chosen */
    uint64_t stripe = cut ? server->stripe_length : numbers;
    if (server->secure != 0)
        return (numbers + stripe - 1) / stripe * form_secure_bytes(server->secure, (size_t)stripe);
    uint64_t kept = compress_feeds_back(server->compress) ? 2 * numbers * sizeof(float) : 0;
    compress_form form = form_of(server);
    uint64_t exact = form.exact * sizeof(float);
    form.exact = 0;
    return (numbers + stripe - 1) / stripe * compress_bytes(form, (size_t)stripe) + exact + kept;
}

/* What the server takes for factors; and for a copy of the parameters that a factor follows, where
 * there is no view of them. */
static uint64_t lowrank_server(const tarry_server_settings *server, uint64_t dimension, bool copies)
{
    tarry_server_settings chosen = *server;
    chosen.stripe_length = form_stripe_length(server);
    const compress_lowrank low = lowrank_of(&chosen);
    const uint64_t factor = lowrank_factor_numbers(&low) * sizeof(float);
    return factors_bytes(&low) + factor + (copies ? dimension * sizeof(float) : 0);
}

/* Of a number of its coded part: an integer where sums are secure. */
static uint64_t part_number_bytes(const tarry_server_settings *server)
{
    return server->secure == 0 ? sizeof(float) : server->secure / 8;
}

uint64_t tarry_worker_bytes(uint64_t load, uint32_t parts, const tarry_server_settings *server,
                            uint64_t dimension)
{
    uint64_t vectors = worker_gradients(load, server) + worker_sums(server);
    uint64_t part = worker_part(parts, dimension);
    return vectors * dimension * sizeof(float) + part * part_number_bytes(server) +
           worker_packed(server, part);
}

tarry_memory tarry_memory_of(const tarry_plan *plan, const tarry_server_settings *server,
                             uint64_t dimension)
{
    tarry_memory memory = {.least = UINT64_MAX};
    for (uint32_t worker = 0; worker < tarry_plan_workers(plan); worker++) {
        uint64_t bytes = tarry_worker_bytes(tarry_plan_load(plan, worker), tarry_plan_parts(plan),
                                            server, dimension);
        memory.total += bytes;
        memory.least = bytes < memory.least ? bytes : memory.least;
        memory.most = bytes > memory.most ? bytes : memory.most;
    }
    if (form_of_view(server) != TARRY_COMPRESS_NONE)
        memory.server = view_bytes(form_of_view(server), dimension);
    if (server->compress == TARRY_COMPRESS_POWERSGD)
        memory.server += lowrank_server(server, dimension, memory.server == 0);
    return memory;
}

/* As far as all workers can run ahead within so many bytes. A worker that runs all of its usual
 * units ahead never waits for an answer. */
static uint32_t furthest_ahead(const tarry_settings *settings, uint64_t dimension, double bytes)
{
    double packed = (double)worker_packed(&settings->server, dimension);
    if (settings->server.secure != 0) /* more than a float32 each */
        packed += (double)dimension *
                  ((double)part_number_bytes(&settings->server) - (double)sizeof(float));
    double each = (bytes / settings->plan.workers - packed) / ((double)dimension * sizeof(float));
    double others = 2 + (double)worker_sums(&settings->server);
    return (uint32_t)fmin(fmax(floor(each) - others, TARRY_USUAL_AHEAD), TARRY_USUAL_UNITS);
}

void tarry_settings_keep(tarry_settings *settings, uint64_t dimension, double bytes,
                         bool ahead_given)
{
    tarry_server_settings *server = &settings->server;
    tarry_conflict conflict;
    if (!settings->keep_auto)
        return;
    settings->keep_auto = false;
    server->keep = TARRY_KEEP_CREDITED;
    if (tarry_settings_check(settings, &conflict) != TARRY_OK)
        server->keep = TARRY_KEEP_ALL;
    else if (!ahead_given)
        server->ahead = furthest_ahead(settings, dimension, bytes);
}
