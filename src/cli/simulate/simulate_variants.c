/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_variants.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "compress/compress.h"

/* Whether nothing of a worker is of use before it has finished all, as the simulator wants it. */
static bool counts_whole(const simulate_variant *variant)
{
    const tarry_settings *settings = &variant->run.settings;
    return settings->server.credit == TARRY_CREDIT_WHOLE ||
           (settings->plan.replication == 1 && settings->server.stop == TARRY_STOP_EXACT);
}

/* Writes the rule as an option has it. */
static void name_stop(const baseline_settings *model, simulate_variant *variant)
{
    const tarry_server_settings *server = &variant->run.settings.server;
    char *text = variant->stop;
    const size_t size = sizeof(variant->stop);
    bool local = model->kind == BASELINE_DROPCOMPUTE;
    uint64_t deadline_ns = local ? model->deadline_ns : server->deadline_ns;
    if (local && deadline_ns == 0)
        snprintf(text, size, "deadline:auto");
    else if (local || server->stop == TARRY_STOP_DEADLINE)
        snprintf(text, size, "deadline:%.9g", (double)deadline_ns * 1e-9);
    else if (server->stop == TARRY_STOP_ERROR)
        snprintf(text, size, "error:%.9g", server->error_limit);
    else if (server->stop == TARRY_STOP_WORKERS)
        snprintf(text, size, "workers:%u", server->workers_needed);
    else
        snprintf(text, size, "exact");
}

/* The rule as the options have it; with rules by workers, how many is known once copies and parts
 * are. */
static int choose_stop(const scheme_settings *settings, const scheme_frame *frame,
                       tarry_server_settings *server, tarry_diagnostic *diagnostic)
{
    switch (settings->stop_kind) {
    case SCHEME_STOP_GIVEN:
        break;
    case SCHEME_STOP_IGNORE:
        if (settings->ignore >= frame->workers)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "ignore: %u leaves none of %u workers",
                            settings->ignore, frame->workers);
        server->stop = TARRY_STOP_WORKERS;
        server->workers_needed = frame->workers - settings->ignore;
        break;
    case SCHEME_STOP_ORIGINAL:
        server->stop = TARRY_STOP_WORKERS;
        server->workers_needed = 1;
        break;
    case SCHEME_STOP_DEADLINE:
        if (isnan(frame->last_deadline))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "needs --deadline, or a setting deadline=SECONDS");
        server->stop = TARRY_STOP_DEADLINE;
        server->deadline_ns = (uint64_t)ceil(frame->last_deadline * 1e9);
        break;
    }
    return TARRY_OK;
}

/* In a ring, a grid or a tree numbers are float32. */
static int check_hops(const scheme_settings *settings, const simulate_variant *variant,
                      tarry_diagnostic *diagnostic)
{
    const tarry_server_settings *server = &variant->run.settings.server;
    const bool up = server->compress != TARRY_COMPRESS_NONE;
    if (!up && server->compress_down == TARRY_COMPRESS_NONE)
        return TARRY_OK;
    if (settings->model.kind != BASELINE_NONE || settings->sum == TARRY_SIM_STAR ||
        settings->sum == TARRY_SIM_DIRECT || settings->sum == TARRY_SIM_CHOSEN)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "%s=%s goes with sum=server, everywhere or auto: else each hop would round "
                    "anew",
                    up ? "compress" : "compress-down",
                    up ? variant->run.compress : run_down_name(server->compress_down));
}

/* How gradients travel has to suit the rest. */
static int settle_upload(const scheme_settings *settings, simulate_variant *variant,
                         tarry_diagnostic *diagnostic)
{
    tarry_sim_upload *upload = &variant->sim.upload;
    const tarry_settings *run = &variant->run.settings;
    /* An uncoded sum that may lack chunks takes what workers have when it asks them. */
    bool model = settings->model.kind != BASELINE_NONE;
    bool star = settings->sum == TARRY_SIM_STAR;
    if (*upload == TARRY_SIM_UPLOAD_WHOLE && settings->upload_fixed &&
        (!counts_whole(variant) || !(star || model)))
        *upload = TARRY_SIM_UPLOAD_CODED;
    if (*upload != TARRY_SIM_UPLOAD_CODED && !star && !model)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "upload=%s goes with sum=server",
                        simulate_upload_name(*upload));
    if (run->server.compress != TARRY_COMPRESS_NONE && *upload == TARRY_SIM_UPLOAD_EACH)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "compress=%s goes with another upload than each", variant->run.compress);
    if (compress_feeds_back(run->server.compress) && *upload != TARRY_SIM_UPLOAD_CODED)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "compress=%s goes with upload=coded",
                        variant->run.compress);
    if (run->server.sample_chunks > 0 && *upload != TARRY_SIM_UPLOAD_CODED)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "sample-chunks=%s goes with upload=coded",
                        variant->run.sample);
    if (*upload == TARRY_SIM_UPLOAD_WHOLE && !counts_whole(variant))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "upload=whole goes with credit=whole, or with one copy and stop=exact");
    if (*upload == TARRY_SIM_UPLOAD_EACH && run->plan.parts > 1)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "upload=each goes with one part only");
    if (*upload != TARRY_SIM_UPLOAD_CODED && !run->keep_auto &&
        run->server.keep == TARRY_KEEP_CREDITED)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "keep=credited goes with upload=coded");
    return TARRY_OK;
}

/* The least replication of a plan that files or racks may make impossible. FILE, also where a
 * file's text is at fault. */
static int least_replication(const tarry_plan_settings *settings, uint32_t *replication,
                             tarry_diagnostic *diagnostic)
{
    tarry_plan *plan;
    int error = tarry_plan_create(settings, NULL, &plan, diagnostic);
    if (error != TARRY_OK)
        return error == TARRY_ERROR_NO_MEMORY ? error : TARRY_ERROR_FILE;
    *replication = UINT32_MAX;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
        uint32_t holders = tarry_plan_replication(plan, chunk);
        *replication = holders < *replication ? holders : *replication;
    }
    tarry_plan_free(plan);
    return TARRY_OK;
}

/* The flags that don't go together are as they are for every command; what a scheme says itself
 * has its keys named. */
static int explain(const scheme_settings *settings, const scheme_frame *frame,
                   const tarry_conflict *conflict, tarry_diagnostic *diagnostic)
{
    char text[384];
    scheme_settings shown = *settings;
    shown.run.settings.plan.workers = frame->workers;
    option_group groups[SCHEME_GROUPS + 1];
    scheme_groups(&shown, groups);
    groups[SCHEME_GROUPS] = run_options_group(RUN_SIZE, NULL, &shown.run);
    uint32_t both = TARRY_SETTING_BIT(conflict->first) | TARRY_SETTING_BIT(conflict->second);
    bool by_flags = (settings->fixed & both) == 0;
    run_conflict_text(conflict, groups, SCHEME_GROUPS + 1, by_flags, text, sizeof(text));
    return diagnose(diagnostic, by_flags ? TARRY_ERROR_ARGUMENT : TARRY_ERROR_FORMAT, "%s", text);
}

/* One of the combinations that are swept. */
typedef struct combination {
    uint32_t replication, pieces, parts;
    bool alone; /* there is no other */
} combination;

/* Sets the variant's plan and rules, with defaults that yielded. *fits is false where its numbers
 * don't go together, and others of the sweep may. */
static int settle(const scheme_settings *settings, const scheme_frame *frame, const combination *of,
                  simulate_variant *variant, bool *fits, tarry_diagnostic *diagnostic)
{
    tarry_plan_settings *plan = &variant->run.settings.plan;
    tarry_conflict conflict;
    plan->workers = frame->workers;
    plan->chunks = frame->chunks;
    plan->seed = frame->seed;
    plan->pieces = of->pieces;
    plan->replication = of->replication;
    plan->parts = of->parts;
    if (settings->model.kind == BASELINE_NONE && settings->sum != TARRY_SIM_STAR)
        variant->run.settings.server.sum = TARRY_SUM_EVERYWHERE;
    uint32_t given = settings->run.given | TARRY_SETTING_BIT(TARRY_SETTING_WORKERS);
    int error = tarry_settings_settle(&variant->run.settings, given, &conflict);
    bool ordered = (given & TARRY_SETTING_BIT(TARRY_SETTING_ORDER)) != 0;
    if (error != TARRY_OK && conflict.first == TARRY_SETTING_ADAPT && !ordered) {
        /* The plans of static orders stay. */
        variant->run.settings.adapts = conflict.second != TARRY_SETTING_ORDER;
        error = tarry_settings_settle(&variant->run.settings, given, &conflict);
    }
    *fits = error == TARRY_OK || of->alone || !conflict.exceeds;
    if (error == TARRY_OK || !*fits)
        return TARRY_OK;
    return explain(settings, frame, &conflict, diagnostic);
}

/* What --keep and --ahead come to, with links that take their time. */
static void settle_keep(const scheme_frame *frame, simulate_variant *variant)
{
    tarry_settings *settings = &variant->run.settings;
    const tarry_plan_settings *plan = &settings->plan;
    if (settings->server.ahead == AHEAD_AUTO)
        settings->server.ahead = run_ahead_of(
            (double)frame->sim.link.latency_ns * 1e-9,
            ((double)frame->sim.chunk_ns / plan->pieces + (double)frame->sim.overhead_ns) * 1e-9);
    uint64_t copies = (uint64_t)plan->chunks * plan->pieces * plan->replication;
    bool coded = variant->sim.upload == TARRY_SIM_UPLOAD_CODED;
    tarry_settings_keep(settings, copies, frame->sim.dimension,
                        coded ? run_generous_bytes() : INFINITY, true);
}

static int make_variant(const scheme_settings *settings, const scheme_frame *frame,
                        const combination *of, simulate_variant *variant, bool *fits,
                        tarry_diagnostic *diagnostic)
{
    *variant =
        (simulate_variant){.run = settings->run, .sim = frame->sim, .model = settings->model};
    tarry_settings *run = &variant->run.settings;
    tarry_plan_settings *plan = &run->plan;
    variant->sim.upload = (tarry_sim_upload)settings->upload;
    variant->sim.way = (tarry_sim_way)settings->sum;
    variant->sim.costs_known = settings->costs == SCHEME_COSTS_KNOWN;
    variant->sim.vectors &= settings->upload != TARRY_SIM_UPLOAD_EACH;
    run->server.learn_costs = settings->costs == SCHEME_COSTS_LEARNED;
    int error = choose_stop(settings, frame, &run->server, diagnostic);
    if (error == TARRY_OK)
        error = settle(settings, frame, of, variant, fits, diagnostic);
    if (error != TARRY_OK || !*fits)
        return error;
    if (!run->adapts)
        variant->run.adapt_rule.every = 0;
    if (plan->design == TARRY_DESIGN_FILE || plan->rack_size > 0 || plan->rack_file != NULL)
        error = least_replication(plan, &plan->replication, diagnostic);
    if (error == TARRY_OK && settings->stop_kind == SCHEME_STOP_ORIGINAL)
        run->server.workers_needed = frame->workers - (plan->replication - plan->parts);
    variant->stored = settings->model.kind == BASELINE_QUEUE ? frame->workers : plan->replication;
    name_stop(&settings->model, variant);
    if (error == TARRY_OK)
        error = check_hops(settings, variant, diagnostic);
    if (error == TARRY_OK)
        error = settle_upload(settings, variant, diagnostic);
    if (error != TARRY_OK)
        return error;
    settle_keep(frame, variant);
    run_options_end(&variant->run, frame->rounds);
    const size_t stripe_length = frame->sim.server.stripe_length;
    const uint64_t silence_ns = frame->sim.server.silence_ns;
    variant->sim.server = run->server;
    variant->sim.server.stripe_length = stripe_length;
    variant->sim.server.silence_ns = silence_ns;
    return TARRY_OK;
}

static int grow(simulate_variants *variants, size_t *capacity, tarry_diagnostic *diagnostic)
{
    if (variants->count < *capacity)
        return TARRY_OK;
    size_t larger = *capacity == 0 ? 16 : *capacity * 2;
    simulate_variant *items = memory_allocate(NULL, larger, sizeof(*items));
    if (items == NULL)
        return diagnose_no_memory(diagnostic, "schemes");
    if (variants->count > 0)
        memcpy(items, variants->items, variants->count * sizeof(*items));
    memory_release(NULL, variants->items);
    variants->items = items;
    *capacity = larger;
    return TARRY_OK;
}

static int sweep(const scheme_settings *settings, const char *label, const scheme_frame *frame,
                 simulate_variants *variants, size_t *capacity, tarry_diagnostic *diagnostic)
{
    size_t before = variants->count;
    bool file = settings->run.settings.plan.design == TARRY_DESIGN_FILE;
    size_t pieces = settings->piece_counts.count, parts = settings->part_counts.count;
    size_t replications = file ? 1 : settings->replications.count;
    for (size_t i = 0; i < replications * pieces * parts; i++) {
        const combination of = {
            .replication = settings->replications.values[i / parts / pieces],
            .pieces = settings->piece_counts.values[i / parts % pieces],
            .parts = settings->part_counts.values[i % parts],
            .alone = replications * parts == 1,
        };
        bool fits = false;
        int error = grow(variants, capacity, diagnostic);
        if (error == TARRY_OK)
            error = make_variant(settings, frame, &of, &variants->items[variants->count], &fits,
                                 diagnostic);
        if (error != TARRY_OK)
            return error;
        if (fits)
            variants->items[variants->count++].scheme = label;
    }
    if (variants->count > before)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "no replication is at most the %u workers and at least the parts",
                    frame->workers);
}

int simulate_variants_read(const char *list, const scheme_settings *defaults,
                           const scheme_frame *frame, simulate_variants *variants,
                           tarry_diagnostic *diagnostic)
{
    simulate_variants read = {0};
    size_t capacity = 0, length = strlen(list);
    scheme_settings *settings = memory_allocate(NULL, 1, sizeof(*settings));
    /* Twice: as written, for labels, and to be cut up. */
    read.text = memory_allocate(NULL, 2 * (length + 1), 1);
    int error = TARRY_OK;
    if (settings == NULL || read.text == NULL)
        error = diagnose_no_memory(diagnostic, "schemes");
    char *label = read.text, *cut = NULL;
    if (error == TARRY_OK) {
        cut = label + length + 1;
        memcpy(label, list, length + 1);
        memcpy(cut, list, length + 1);
    }
    while (error == TARRY_OK && label != NULL) {
        char *end = scheme_item_end(label, true);
        char *next = *end != '\0' ? end + 1 : NULL;
        cut[end - label] = '\0';
        *end = '\0';
        *settings = *defaults;
        tarry_diagnostic why;
        error = scheme_read(cut, settings, &why);
        if (error == TARRY_OK)
            error = sweep(settings, settings->name != NULL ? settings->name : label, frame, &read,
                          &capacity, &why);
        if (error == TARRY_ERROR_ARGUMENT)
            diagnose(diagnostic, error, "%s", why.text);
        else if (error != TARRY_OK)
            diagnose(diagnostic, error, "--scheme: %s: %s", label, why.text);
        cut += end + 1 - label;
        label = next;
    }
    memory_release(NULL, settings);
    if (error != TARRY_OK)
        simulate_variants_free(&read);
    else
        *variants = read;
    return error;
}

void simulate_variants_free(simulate_variants *variants)
{
    memory_release(NULL, variants->items);
    memory_release(NULL, variants->text);
    *variants = (simulate_variants){0};
}
