/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_variants.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/options/keep.h"

/* Whether nothing of a worker is of use before it has finished all, as the simulator wants it. */
static bool counts_whole(const simulate_variant *variant)
{
    const tarry_server_settings *server = &variant->server;
    return server->credit == TARRY_CREDIT_WHOLE ||
           (variant->plan.replication == 1 && server->stop == TARRY_STOP_EXACT);
}

/* Writes the rule as an option has it. */
static void name_stop(const baseline_settings *model, simulate_variant *variant)
{
    const tarry_server_settings *server = &variant->server;
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

static int settle_stop(const scheme_settings *settings, const scheme_frame *frame,
                       simulate_variant *variant, tarry_diagnostic *diagnostic)
{
    tarry_server_settings *server = &variant->server;
    uint32_t ignored = variant->plan.replication - variant->plan.parts;
    switch (settings->stop_kind) {
    case SCHEME_STOP_GIVEN:
        break;
    case SCHEME_STOP_IGNORE:
        ignored = settings->ignore;
        if (ignored >= frame->workers)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "ignore: %u leaves none of %u workers",
                            ignored, frame->workers);
        /* fall through */
    case SCHEME_STOP_ORIGINAL:
        server->stop = TARRY_STOP_WORKERS;
        server->workers_needed = frame->workers - ignored;
        break;
    case SCHEME_STOP_DEADLINE:
        if (isnan(frame->last_deadline))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                            "needs --deadline, or a setting deadline=SECONDS");
        server->stop = TARRY_STOP_DEADLINE;
        server->deadline_ns = (uint64_t)ceil(frame->last_deadline * 1e9);
        break;
    }
    if (server->stop == TARRY_STOP_WORKERS && server->workers_needed > frame->workers)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "stop: workers:%u is more than %u workers",
                        server->workers_needed, frame->workers);
    name_stop(&settings->model, variant);
    if (server->stop == TARRY_STOP_WORKERS && server->pick != TARRY_PICK_PLAN)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "order=dynamic doesn't go with stop=workers:K, original or ignore");
    /* An uncoded sum that may lack chunks takes what workers have when it asks them. */
    if (variant->upload == TARRY_SIM_UPLOAD_WHOLE && settings->upload_fixed &&
        !counts_whole(variant))
        variant->upload = TARRY_SIM_UPLOAD_CODED;
    if (variant->upload == TARRY_SIM_UPLOAD_WHOLE && !counts_whole(variant))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "upload=whole goes with credit=whole, or with one copy and stop=exact");
    if (variant->plan.adaptive_parts &&
        (server->stop == TARRY_STOP_WORKERS || server->credit == TARRY_CREDIT_WHOLE ||
         server->fill != TARRY_FILL_NONE))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "parts=auto goes with credit=chunk only, and not with stop=workers:K, "
                        "original or ignore, nor with a fill");
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

/* The variant of one replication and numbers of pieces and parts; *fits is false if there is none.
 */
static int make_variant(const scheme_settings *settings, const scheme_frame *frame,
                        uint32_t replication, uint32_t pieces, uint32_t parts,
                        simulate_variant *variant, bool *fits, tarry_diagnostic *diagnostic)
{
    bool file = settings->plan.plan.design == TARRY_DESIGN_FILE;
    *fits = file || (replication <= frame->workers && parts <= replication);
    if (parts == 0 && file)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "parts: with a design from a file say how many: auto:L");
    if (!*fits)
        return TARRY_OK;
    *variant = (simulate_variant){
        .design = settings->plan.design,
        .order = settings->plan.order,
        .racks = settings->plan.racks,
        .plan = settings->plan.plan,
        .server = settings->server,
        .upload = (tarry_sim_upload)settings->upload,
    };
    variant->server.pick = settings->plan.pick;
    variant->server.learn_costs = settings->costs == SCHEME_COSTS_LEARNED;
    variant->costs_known = settings->costs == SCHEME_COSTS_KNOWN;
    if (variant->server.pick != TARRY_PICK_PLAN)
        variant->adapt = settings->adapt_rule;
    if (variant->server.ahead == KEEP_AHEAD_AUTO)
        variant->server.ahead = keep_ahead_of(
            frame->latency_seconds, frame->chunk_seconds / pieces + frame->overhead_seconds);
    variant->plan.workers = frame->workers;
    variant->plan.chunks = frame->chunks;
    variant->plan.pieces = pieces;
    variant->plan.replication = replication;
    variant->plan.parts = parts != 0 ? parts : plan_auto_parts(replication);
    variant->plan.adaptive_parts = settings->adaptive_parts;
    variant->plan.seed = frame->seed;
    if (variant->plan.parts > 1 && variant->upload == TARRY_SIM_UPLOAD_EACH)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "upload=each goes with one part only");
    if (variant->server.pick != TARRY_PICK_PLAN && variant->server.credit == TARRY_CREDIT_WHOLE)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "order=dynamic goes with credit=chunk only");
    const char *obstacle = keep_obstacle(variant->plan.parts, &variant->server);
    if (variant->upload != TARRY_SIM_UPLOAD_CODED)
        obstacle = "upload";
    if (variant->server.keep == TARRY_KEEP_CREDITED && obstacle != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "keep=credited goes with one part, credit=chunk and upload=coded; the %s "
                        "is another one",
                        obstacle);
    int error = TARRY_OK;
    if (file || variant->plan.rack_size > 0 || variant->plan.rack_file != NULL)
        error = least_replication(&variant->plan, &variant->plan.replication, diagnostic);
    variant->model = settings->model;
    variant->stored =
        settings->model.kind == BASELINE_QUEUE ? frame->workers : variant->plan.replication;
    return error != TARRY_OK ? error : settle_stop(settings, frame, variant, diagnostic);
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
    bool file = settings->plan.plan.design == TARRY_DESIGN_FILE;
    size_t pieces = settings->piece_counts.count, parts = settings->part_counts.count;
    size_t replications = file ? 1 : settings->replications.count;
    for (size_t i = 0; i < replications * pieces * parts; i++) {
        bool fits = false;
        int error = grow(variants, capacity, diagnostic);
        if (error == TARRY_OK)
            error = make_variant(settings, frame, settings->replications.values[i / parts / pieces],
                                 settings->piece_counts.values[i / parts % pieces],
                                 settings->part_counts.values[i % parts],
                                 &variants->items[variants->count], &fits, diagnostic);
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
        if (error != TARRY_OK)
            diagnose(diagnostic, error, "%s: %s", label, why.text);
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
