/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_options.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarry/error.h>
#include <tarry/sim.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/options/options.h"
#include "cli/options/run_options.h"
#include "cli/text/complain.h"
#include "compress/compress.h"
#include "sim/baseline.h"

#define SIMULATE_MOST_SECONDS 1e9

/* What the server knows of the chunks' costs. */
typedef enum scheme_costs {
    SCHEME_COSTS_LEARNED,
    SCHEME_COSTS_KNOWN,
    SCHEME_COSTS_EQUAL,
} scheme_costs;

/*
 * What each scheme fixes, in the words of its settings. Tandon et al., Gradient coding, ICML 2017
 * (cyclic, fractional); Ye and Abbe, Communication-computation efficient gradient coding, ICML 2018
 * (the same in parts); Li, Xiao and Skoglund, arXiv 2603.16353 (coco-ef). What stands apart from
 * the machines is in sim/baseline.h.
 */
typedef struct fixed_setting {
    const char *key, *value;
} fixed_setting;

/* As many as are named, up to one without a key. */
#define FIXED(...) ((const fixed_setting[]){__VA_ARGS__, {NULL, NULL}})

/* A scheme that is a model of its own: what it takes of the machines' settings. */
#define MODEL_SETTINGS(pieces_at_first)                                                            \
    FIXED({"design", "cyclic"}, {"order", "as-is"}, {"replication", "1"},                          \
          {"pieces", pieces_at_first}, {"parts", "1"}, {"credit", "chunk"}, {"keep", "all"},       \
          {"stop", "exact"}, {"fill", "none"}, {"compress", "none"}, {"compress-down", "none"},    \
          {"upload", "whole"}, {"sample-chunks", "0"})

/* A model whose sum is made in one way only. */
#define SUMMED_SETTINGS(pieces_at_first, way)                                                      \
    FIXED({"design", "cyclic"}, {"order", "as-is"}, {"replication", "1"},                          \
          {"pieces", pieces_at_first}, {"parts", "1"}, {"credit", "chunk"}, {"keep", "all"},       \
          {"stop", "exact"}, {"fill", "none"}, {"compress", "none"}, {"compress-down", "none"},    \
          {"upload", "whole"}, {"sum", way}, {"sample-chunks", "0"})

/* An original gradient code: of workers that have finished all, the server waits for enough. */
#define ORIGINAL_SETTINGS(layout)                                                                  \
    FIXED({"design", layout}, {"order", "as-is"}, {"pieces", "1"}, {"credit", "whole"},            \
          {"keep", "all"}, {"stop", "original"}, {"upload", "whole"})

static const struct {
    const char *name;
    const fixed_setting *settings;
    baseline_kind model;
} schemes[] = {
    {.name = "uncoded",
     .settings = FIXED({"design", "cyclic"}, {"order", "as-is"}, {"replication", "1"},
                       {"pieces", "1"}, {"parts", "1"}, {"credit", "chunk"}, {"keep", "all"},
                       {"stop", "exact"}, {"upload", "whole"})},
    {.name = "ignore-stragglers",
     .settings = FIXED({"design", "cyclic"}, {"order", "as-is"}, {"replication", "1"},
                       {"pieces", "1"}, {"parts", "1"}, {"credit", "whole"}, {"keep", "all"},
                       {"stop", "ignore"}, {"upload", "whole"})},
    {.name = "dropcompute", .settings = MODEL_SETTINGS("16"), .model = BASELINE_DROPCOMPUTE},
    {.name = "queue", .settings = SUMMED_SETTINGS("16", "server"), .model = BASELINE_QUEUE},
    {.name = "ring", .settings = SUMMED_SETTINGS("1", "ring"), .model = BASELINE_ALL_REDUCE},
    {.name = "direct",
     .settings = SUMMED_SETTINGS("1", "everywhere"),
     .model = BASELINE_ALL_REDUCE},
    {.name = "cyclic", .settings = ORIGINAL_SETTINGS("cyclic")},
    {.name = "fractional", .settings = ORIGINAL_SETTINGS("fractional")},
    {.name = "coco-ef",
     .settings = FIXED({"design", "cyclic"}, {"order", "as-is"}, {"pieces", "1"}, {"parts", "1"},
                       {"credit", "whole"}, {"keep", "all"}, {"stop", "ignore"},
                       {"compress", "sign"}, {"upload", "coded"})},
    {.name = "multi-message",
     .settings = FIXED({"parts", "1"}, {"credit", "chunk"}, {"keep", "all"}, {"stop", "exact"},
                       {"upload", "each"}, {"sum", "server"})},
    {.name = "partial", .settings = FIXED({"credit", "chunk"}, {"keep", "all"}, {"stop", "exact"})},
    {.name = "tarry",
     .settings =
         FIXED({"order", "dynamic"}, {"pieces", "auto"}, {"credit", "chunk"}, {"stop", "exact"})},
    {.name = "own", .settings = FIXED({NULL, NULL})},
};

#define SCHEME_COUNT (sizeof(schemes) / sizeof(schemes[0]))

static int read_replication(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    scheme_settings *settings = values;
    return list_whole(text, 1, SIMULATE_MOST_COUNT, &settings->replications, diagnostic);
}

static int read_pieces(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    scheme_settings *settings = values;
    if (strcmp(text, "auto") != 0)
        return list_whole(text, 1, SIMULATE_MOST_COUNT, &settings->piece_counts, diagnostic);
    settings->piece_counts = (whole_list){1, {0}};
    return TARRY_OK;
}

static int read_parts(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    scheme_settings *settings = values;
    int error = run_parts_check(text, diagnostic);
    return error == TARRY_OK
               ? list_whole(text, 1, SIMULATE_MOST_COUNT, &settings->part_counts, diagnostic)
               : error;
}

static int read_stop(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    scheme_settings *settings = values;
    if (strcmp(text, "ignore") == 0)
        settings->stop_kind = SCHEME_STOP_IGNORE;
    else if (strcmp(text, "original") == 0)
        settings->stop_kind = SCHEME_STOP_ORIGINAL;
    else if (strcmp(text, "deadline") == 0)
        settings->stop_kind = SCHEME_STOP_DEADLINE;
    else {
        int error = stop_rule_read(text, &settings->run.settings.server, diagnostic);
        if (error != TARRY_OK)
            return error;
        settings->stop_kind = SCHEME_STOP_GIVEN;
    }
    return TARRY_OK;
}

static const option_choice uploads[] = {
    {"coded", TARRY_SIM_UPLOAD_CODED},
    {"each", TARRY_SIM_UPLOAD_EACH},
    {"whole", TARRY_SIM_UPLOAD_WHOLE},
    {NULL, 0},
};

static const option_choice ways[] = {
    {"server", TARRY_SIM_STAR},
    {"everywhere", TARRY_SIM_DIRECT},
    {"ring", TARRY_SIM_RING},
    {NULL, 0},
};

static const option_choice costs[] = {
    {"learned", SCHEME_COSTS_LEARNED},
    {"known", SCHEME_COSTS_KNOWN},
    {"equal", SCHEME_COSTS_EQUAL},
    {NULL, 0},
};

#define SCHEME_FIELD(name) .offset = offsetof(scheme_settings, name)

static const option_entry cut_entries[] = {
    {.name = "replication",
     .argument = "R,R...",
     .help = "Workers that hold each chunk, in schemes that don't fix it (default 8)",
     .kind = OPTION_TEXT,
     .read = read_replication,
     SCHEME_FIELD(replication)},
    {.name = "pieces",
     .argument = "P,P...",
     .help =
         "Pieces that each chunk is cut into, each on workers of its own, in schemes that don't "
         "fix it (default 1, in tarry auto: as many as make 8 per worker)",
     .kind = OPTION_TEXT,
     .read = read_pieces,
     SCHEME_FIELD(pieces)},
    {.name = "parts",
     .argument = "L,L...",
     .help = "Parts that a gradient is cut into, in schemes that don't fix it; at most the "
             "replication (default 1)",
     .kind = OPTION_TEXT,
     .read = read_parts,
     SCHEME_FIELD(parts)},
};

static const option_entry common_entries[] = {
    {.name = "stop",
     .argument = "RULE",
     .help = "When a round of own schemes ends: exact (default), deadline:SECONDS, error:EPS, "
             "workers:K; original (all workers but replication - parts), ignore (all but "
             "--ignore) or deadline (the last --deadline)",
     .kind = OPTION_TEXT,
     .read = read_stop,
     SCHEME_FIELD(stop)},
    {.name = "costs",
     .argument = "WHAT",
     .help = "What the server goes by in dynamic orders: costs of chunks that it learns over the "
             "rounds (learned, default), is told before each round (known) or takes for equal "
             "(equal)",
     .kind = OPTION_CHOICE,
     .choices = costs,
     SCHEME_FIELD(costs)},
    {.name = "upload",
     .argument = "HOW",
     .help = "What workers of own schemes send: one coded part (coded, default), every finished "
             "gradient (each), or one coded part at once when all of their chunks are finished "
             "(whole)",
     .kind = OPTION_CHOICE,
     .choices = uploads,
     SCHEME_FIELD(upload)},
    {.name = "sum",
     .argument = "WHERE",
     .help =
         "Where a sum is made: at the server, to which coded parts go and from which parameters "
         "come (server, default), or among the workers, which all get it: directly, as tarry "
         "train does it (everywhere), or by a ring all-reduce (ring)",
     .kind = OPTION_CHOICE,
     .choices = ways,
     SCHEME_FIELD(sum)},
    {.name = "ignore",
     .argument = "S",
     .help = "Workers that ignore-stragglers and coco-ef do not wait for (default 5 % of them)",
     .kind = OPTION_U32,
     .most = SIMULATE_MOST_COUNT,
     SCHEME_FIELD(ignore)},
};

static int read_name(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)values;
    if (strlen(text) <= 60)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is longer than 60 characters", text);
}

static int read_deadline(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    scheme_settings *settings = values;
    double seconds;
    const bool local = settings->model.kind == BASELINE_DROPCOMPUTE;
    if (local && strcmp(text, "auto") == 0)
        return TARRY_OK; /* as it is unless it is given */
    int error = parse_real(text, 0, SIMULATE_MOST_SECONDS, true, &seconds, diagnostic);
    if (error != TARRY_OK)
        return error;
    uint64_t deadline_ns = (uint64_t)ceil(seconds * 1e9);
    if (local) {
        settings->model.deadline_ns = deadline_ns;
        return TARRY_OK;
    }
    settings->stop_kind = SCHEME_STOP_GIVEN;
    settings->run.settings.server.stop = TARRY_STOP_DEADLINE;
    settings->run.settings.server.deadline_ns = deadline_ns;
    return TARRY_OK;
}

static int read_backup(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    scheme_settings *settings = values;
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not one of yes, no", text);
    settings->model.backups = text[0] == 'y';
    return TARRY_OK;
}

/* The keys that are none of the shared flags. */
static const option_entry own_entries[] = {
    {.name = "deadline", .kind = OPTION_TEXT, .read = read_deadline, SCHEME_FIELD(deadline)},
    {.name = "backup", .kind = OPTION_TEXT, .read = read_backup, SCHEME_FIELD(backup)},
    {.name = "name", .kind = OPTION_TEXT, .read = read_name, SCHEME_FIELD(name)},
};

void scheme_settings_init(scheme_settings *settings)
{
    *settings = (scheme_settings){
        .replication = "8",
        .replications = {1, {8}},
        .pieces = "1",
        .piece_counts = {1, {1}},
        .parts = "1",
        .part_counts = {1, {1}},
        .stop = "exact",
        .upload = TARRY_SIM_UPLOAD_CODED,
        .ignore = UINT32_MAX,
        .model.backups = true,
    };
    run_options_init(&settings->run);
    settings->run.order = "optimal";
    settings->run.settings.server.pick = TARRY_PICK_PLAN;
}

option_group scheme_cuts_group(scheme_settings *settings)
{
    option_group group = OPTION_GROUP("What a scheme does not fix itself", cut_entries, settings);
    group.note = run_options_note;
    return group;
}

static void scheme_groups(scheme_settings *settings, option_group groups[SCHEME_GROUPS])
{
    groups[0] = scheme_cuts_group(settings);
    groups[1] = OPTION_GROUP(NULL, common_entries, settings);
    groups[1].note = run_options_note;
    groups[2] = run_options_group(RUN_LAYOUT, NULL, &settings->run);
    groups[3] = run_options_group(RUN_RULES, NULL, &settings->run);
}

static int set_key(scheme_settings *settings, const char *key, const char *value,
                   tarry_diagnostic *diagnostic)
{
    option_group groups[1 + SCHEME_GROUPS] = {OPTION_GROUP(NULL, own_entries, settings)};
    scheme_groups(settings, groups + 1);
    return option_set(groups, 1 + SCHEME_GROUPS, key, value, diagnostic);
}

static size_t find_scheme(const char *name)
{
    size_t i = 0;
    while (i < SCHEME_COUNT && strcmp(schemes[i].name, name) != 0)
        i++;
    return i;
}

static int unknown_scheme(const char *name, tarry_diagnostic *diagnostic)
{
    char known[256] = "";
    for (size_t i = 0; i < SCHEME_COUNT; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "", schemes[i].name);
    }
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not one of %s", name, known);
}

/* The end of the item that begins at `text`: a comma at which a scheme begins (`whole`) or a key
 * does, or the end. */
static char *scheme_item_end(char *text, bool whole)
{
    for (char *comma = strchr(text, ','); comma != NULL; comma = strchr(comma + 1, ',')) {
        size_t word = strcspn(comma + 1, "=:,");
        bool key = comma[1 + word] == '=';
        bool number = isdigit((unsigned char)comma[1]);
        if (!number && (!whole || !key))
            return comma;
    }
    return text + strlen(text);
}

/* Whether `key` can be set by hand: models have few settings, and some of their own. */
static bool takes_key(baseline_kind model, const char *key)
{
    if (strcmp(key, "backup") == 0)
        return model == BASELINE_QUEUE;
    bool drops = model == BASELINE_DROPCOMPUTE;
    return model == BASELINE_NONE || strcmp(key, "name") == 0 || strcmp(key, "pieces") == 0 ||
           (drops && (strcmp(key, "deadline") == 0 || strcmp(key, "sum") == 0));
}

/*
 * What the scheme fixes; its pieces only where nothing is said of them. A flag that has no effect
 * beside that is as if it had not been given: it is meant for other schemes.
 */
static int fix_settings(size_t kind, scheme_settings *settings, tarry_diagnostic *diagnostic)
{
    const uint32_t flags = settings->run.given;
    bool cut = (flags & TARRY_SETTING_BIT(TARRY_SETTING_PIECES)) != 0;
    settings->model.kind = schemes[kind].model;
    settings->upload_fixed = false;
    settings->run.given = 0;
    for (const fixed_setting *fixed = schemes[kind].settings; fixed->key != NULL; fixed++) {
        if (strcmp(fixed->key, "pieces") == 0 && strcmp(fixed->value, "1") != 0 && cut)
            continue;
        settings->upload_fixed |= strcmp(fixed->key, "upload") == 0;
        int error = set_key(settings, fixed->key, fixed->value, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    settings->fixed = settings->run.given;
    settings->run.given |= flags;
    if (settings->fixed != 0)
        settings->run.given &= ~TARRY_SETTING_BIT(TARRY_SETTING_ADAPT);
    if ((settings->fixed & TARRY_SETTING_BIT(TARRY_SETTING_STOP)) != 0)
        settings->run.given &= ~TARRY_SETTING_BIT(TARRY_SETTING_FILL);
    return TARRY_OK;
}

/* Reads one scheme over what *settings has, cutting `text` up in place. Errors: FORMAT and
 * NO_MEMORY, with a diagnostic. */
static int scheme_read(char *text, scheme_settings *settings, tarry_diagnostic *diagnostic)
{
    char *colon = strchr(text, ':');
    if (colon != NULL)
        *colon = '\0';
    size_t kind = find_scheme(text);
    if (kind == SCHEME_COUNT)
        return unknown_scheme(text, diagnostic);
    int error = fix_settings(kind, settings, diagnostic);
    const uint32_t flags = settings->run.given & ~settings->fixed;
    settings->run.given = settings->fixed;
    char *key = colon != NULL ? colon + 1 : NULL;
    while (error == TARRY_OK && key != NULL) {
        char *end = scheme_item_end(key, false);
        char *next = *end != '\0' ? end + 1 : NULL;
        *end = '\0';
        char *equals = strchr(key, '=');
        if (equals == NULL)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not KEY=VALUE", key);
        *equals = '\0';
        if (!takes_key(settings->model.kind, key))
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "%s: no setting of this scheme", key);
        settings->upload_fixed &= strcmp(key, "upload") != 0;
        error = set_key(settings, key, equals + 1, diagnostic);
        key = next;
    }
    settings->fixed = settings->run.given;
    settings->run.given |= flags;
    return error;
}

const char *simulate_sum_name(tarry_sim_way way)
{
    return option_choice_name(ways, (int)way);
}

const char *simulate_upload_name(tarry_sim_upload upload)
{
    return option_choice_name(uploads, (int)upload);
}

/* ---- variants ---- */

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

/* In a ring numbers are float32. */
static int check_hops(const scheme_settings *settings, const simulate_variant *variant,
                      tarry_diagnostic *diagnostic)
{
    const tarry_server_settings *server = &variant->run.settings.server;
    const bool up = server->compress != TARRY_COMPRESS_NONE;
    if (!up && server->compress_down == TARRY_COMPRESS_NONE)
        return TARRY_OK;
    if (settings->model.kind != BASELINE_NONE || settings->sum != TARRY_SIM_RING)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "%s=%s goes with sum=server or everywhere: in a ring each hop would round",
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

/* How far ahead it takes that no worker waits for an answer, where messages take `latency_seconds`
 * each way and a chunk `chunk_seconds` or not much less; at least the usual number. */
static uint32_t ahead_of(double latency_seconds, double chunk_seconds)
{
    const double margin = 1.25; /* for chunks that take less than they should */
    double chunks = ceil(margin * 2 * latency_seconds / chunk_seconds);
    return (uint32_t)fmin(fmax(chunks, TARRY_USUAL_AHEAD), AHEAD_AUTO - 1);
}

/* What --keep and --ahead come to, with links that take their time. */
static void settle_keep(const scheme_frame *frame, simulate_variant *variant)
{
    tarry_settings *settings = &variant->run.settings;
    if (settings->server.ahead == AHEAD_AUTO)
        settings->server.ahead = ahead_of(
            (double)frame->sim.link.latency_ns * 1e-9,
            ((double)frame->sim.chunk_ns / settings->plan.pieces + (double)frame->sim.overhead_ns) *
                1e-9);
    if (variant->sim.upload != TARRY_SIM_UPLOAD_CODED && settings->keep_auto) {
        settings->keep_auto = false;
        settings->server.keep = TARRY_KEEP_ALL;
    }
    tarry_settings_keep(settings, frame->sim.dimension, 0, true);
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
    size_t larger = memory_room(*capacity, variants->count + 1, 16);
    simulate_variant *items =
        memory_grow(NULL, variants->items, variants->count, larger, sizeof(*items));
    if (items == NULL)
        return diagnose_no_memory(diagnostic, "schemes");
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

/* ---- links ---- */

enum { FIRST_SIZE = 32 };

/* Cuts the text at its comma; what is behind it, or NULL after a complaint. */
static const char *cut(const char *text, char first[FIRST_SIZE], const char *form,
                       tarry_diagnostic *diagnostic)
{
    const char *comma = strchr(text, ',');
    if (comma == NULL || (size_t)(comma - text) >= FIRST_SIZE) {
        diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not %s", text, form);
        return NULL;
    }
    memcpy(first, text, (size_t)(comma - text));
    first[comma - text] = '\0';
    return comma + 1;
}

/* Reads "SECONDS,SD". Errors: FORMAT. */
static int jitter_links_read(const char *text, jitter_links *links, tarry_diagnostic *diagnostic)
{
    char mean[FIRST_SIZE];
    const char *second = cut(text, mean, "SECONDS,SD", diagnostic);
    if (second == NULL)
        return TARRY_ERROR_FORMAT;
    int error = parse_real(mean, 0, SIMULATE_MOST_SECONDS, false, &links->mean, diagnostic);
    return error == TARRY_OK ? parse_real(second, 0, 1e6, false, &links->spread, diagnostic)
                             : error;
}

/* ---- options ---- */

#define MOST_DIMENSION 100000000000

static int read_deadlines(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    simulate_options *options = values;
    return list_ascending(text, SIMULATE_MOST_SECONDS, &options->deadlines, diagnostic);
}

static int read_jitter(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    simulate_options *options = values;
    return jitter_links_read(text, &options->waits, diagnostic);
}

#define FIELD(name) .offset = offsetof(simulate_options, name)

static const option_entry scheme_entries[] = {
    {.name = "scheme",
     .argument = "LIST",
     .help = "What to compare: uncoded, ignore-stragglers, dropcompute, queue, ring, direct, "
             "cyclic, fractional, coco-ef, multi-message, partial, tarry or own, each with "
             "settings of its own if need be, as in partial:parts=2,order=random (default "
             "uncoded,cyclic,partial)",
     .kind = OPTION_TEXT,
     FIELD(scheme)},
    {.name = "deadline",
     .argument = "T,T...",
     .help = "Times in seconds, or FROM:TO:STEPS, at which the error of a sum that ends there is "
             "worked out",
     .kind = OPTION_TEXT,
     .read = read_deadlines,
     FIELD(deadline)},
};

static const option_entry model_entries[] = {
    {.name = "workers",
     .argument = "M",
     .help = "Workers (default 200)",
     .kind = OPTION_U32,
     .least = 1,
     .most = SIMULATE_MOST_COUNT,
     FIELD(workers)},
    {.name = "chunks",
     .argument = "N",
     .help = "Shares of the data, the units of work (default 200)",
     .kind = OPTION_U32,
     .least = 1,
     .most = SIMULATE_MOST_COUNT,
     FIELD(chunks)},
    {.name = "straggler",
     .argument = "SPEC",
     .help = "What a chunk takes, and who is slow or dies: terms joined by '+', see "
             "tarry-simulate(1) (default exp:1)",
     .kind = OPTION_TEXT,
     FIELD(straggler)},
    {.name = "chunk-time",
     .argument = "SECONDS",
     .help = "What a chunk takes if the SPEC adds no seconds of its own (default 1)",
     .kind = OPTION_REAL,
     .high = SIMULATE_MOST_SECONDS,
     .open = true,
     FIELD(chunk_seconds)},
    {.name = "overhead",
     .argument = "SECONDS",
     .help = "What each chunk, or each of its pieces, takes besides, however small (default 0)",
     .kind = OPTION_REAL,
     .high = SIMULATE_MOST_SECONDS,
     FIELD(overhead)},
    {.name = "chunk-cost",
     .argument = "SPEC",
     .help = "How chunks differ: uniform (default), lognormal:SD[/run] or trace:FILE",
     .kind = OPTION_TEXT,
     FIELD(chunk_cost)},
};

static const option_entry link_entries[] = {
    {.name = "latency",
     .argument = "SECONDS",
     .help = "Of a message between the server and a worker, each way (default 0)",
     .kind = OPTION_REAL,
     .high = SIMULATE_MOST_SECONDS,
     FIELD(latency)},
    {.name = "message-time",
     .argument = "SECONDS",
     .help = "What each message of a sum among workers takes besides, of the cards of both that "
             "exchange it (default 0)",
     .kind = OPTION_REAL,
     .high = SIMULATE_MOST_SECONDS,
     FIELD(message_time)},
    {.name = "bandwidth",
     .argument = "B",
     .help = "Bytes per second of each worker's link, each way (default: sizes don't matter)",
     .kind = OPTION_REAL,
     .high = 1e18,
     .open = true,
     FIELD(bandwidth)},
    {.name = "server-bandwidth",
     .argument = "B",
     .help = "Bytes per second of the server's network card, each way (default: no limit)",
     .kind = OPTION_REAL,
     .high = 1e18,
     .open = true,
     FIELD(server_bandwidth)},
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a gradient, 4 bytes each (default 1)",
     .kind = OPTION_U64,
     .least = 1,
     .most = MOST_DIMENSION,
     FIELD(dimension)},
};

static const option_choice cards[] = {
    {"queue", false},
    {"share", true},
    {NULL, 0},
};

static const option_entry message_entries[] = {
    {.name = "card",
     .argument = "HOW",
     .help = "How parameters that go out together pass the server's card: one worker's after the "
             "other's "
             "(queue, default), or all at once, as connections do (share)",
     .kind = OPTION_CHOICE,
     .choices = cards,
     FIELD(card_shared)},
    {.name = "link-jitter",
     .argument = "SECONDS,SD",
     .help = "What each message waits besides the latency: a lognormal time of that mean, whose "
             "standard deviation is SD times the mean (default none)",
     .kind = OPTION_TEXT,
     .read = read_jitter,
     FIELD(jitter)},
    {.name = "parameter-bytes",
     .argument = "B",
     .help = "Bytes that go to each worker at first (default: those of a gradient)",
     .kind = OPTION_U64,
     .most = MOST_DIMENSION,
     FIELD(parameter_bytes)},
    {.name = "silence",
     .argument = "SECONDS",
     .help = "Least time without an answer after which the server counts a worker as lost "
             "(default 2)",
     .kind = OPTION_REAL,
     .high = SIMULATE_MOST_SECONDS,
     .open = true,
     FIELD(silence)},
};

static const option_entry run_entries[] = {
    {.name = "rounds",
     .argument = "R",
     .help = "Rounds of each trial, in which workers and what the server knows of them last; "
             "figures are of the last one (default 1)",
     .kind = OPTION_U32,
     .least = 1,
     .most = 100000,
     FIELD(rounds)},
    {.name = "seed",
     .argument = "S",
     .help = "Seed of everything that is drawn (default 1)",
     .kind = OPTION_U64,
     .most = INT64_MAX,
     FIELD(seed)},
    {.name = "jobs",
     .argument = "N",
     .help = "Trials at the same time (default: the machine's cores); no figure depends on it",
     .kind = OPTION_U32,
     .least = 1,
     .most = SIMULATE_MOST_JOBS,
     FIELD(jobs)},
    {.name = "quiet", .help = "Print nothing but errors", .kind = OPTION_FLAG, FIELD(quiet)},
};

static const option_entry output_entries[] = {
    {.name = "trials",
     .argument = "N",
     .help = "Trials of each scheme, all schemes with the same draws (default 100)",
     .kind = OPTION_U64,
     .least = 1,
     .most = 100000000,
     FIELD(trials)},
    {.name = "plan-per-trial",
     .help = "Draw plans anew in every trial",
     .kind = OPTION_FLAG,
     FIELD(plan_per_trial)},
    {.name = "report",
     .argument = "FILE.json",
     .help = "Write the results as JSON",
     .kind = OPTION_TEXT,
     FIELD(report)},
};

void simulate_options_init(simulate_options *options)
{
    *options = (simulate_options){
        .command = "simulate",
        .scheme = "uncoded,cyclic,partial",
        .workers = 200,
        .chunks = 200,
        .straggler = "exp:1",
        .chunk_cost = "uniform",
        .chunk_seconds = 1,
        .bandwidth = INFINITY,
        .server_bandwidth = INFINITY,
        .dimension = 1,
        .parameter_bytes = UINT64_MAX,
        .silence = 2,
        .trials = 100,
        .rounds = 1,
        .seed = 1,
    };
    scheme_settings_init(&options->defaults);
}

static void note_workers(void *values, const char *name)
{
    simulate_options *options = values;
    options->workers_given = options->workers_given || strcmp(name, "workers") == 0;
}

void simulate_world_groups(simulate_options *options, const option_words *words,
                           option_group groups[SIMULATE_WORLD_GROUPS])
{
    groups[0] = OPTION_GROUP("Workers and chunks", model_entries, options);
    groups[0].note = note_workers;
    groups[1] = OPTION_GROUP("Links and gradients", link_entries, options);
    groups[2] = OPTION_GROUP("Trials and output", run_entries, options);
    for (size_t i = 0; i < SIMULATE_WORLD_GROUPS; i++)
        groups[i].words = words;
}

void simulate_options_groups(simulate_options *options, option_group groups[SIMULATE_GROUPS])
{
    option_group world[SIMULATE_WORLD_GROUPS], *more = groups + 1 + SCHEME_GROUPS;
    simulate_world_groups(options, NULL, world);
    groups[0] = OPTION_GROUP("Schemes", scheme_entries, options);
    scheme_groups(&options->defaults, groups + 1);
    more[0] = world[0];
    more[1] = world[1];
    more[2] = OPTION_GROUP(NULL, message_entries, options);
    more[3] = world[2];
    more[4] = OPTION_GROUP(NULL, output_entries, options);
}

scheme_frame simulate_options_frame(const simulate_options *options)
{
    const real_list *deadlines = &options->deadlines;
    scheme_frame frame = {
        .workers = options->workers,
        .chunks = options->chunks,
        .seed = options->seed,
        .last_deadline = deadlines->count > 0 ? deadlines->values[deadlines->count - 1] : NAN,
    };
    tarry_sim_settings *sim = &frame.sim;
    tarry_sim_settings_init(sim);
    sim->server.silence_ns = (uint64_t)ceil(options->silence * 1e9);
    sim->chunk_ns = (uint64_t)ceil(options->chunk_seconds * 1e9);
    sim->overhead_ns = (uint64_t)ceil(options->overhead * 1e9);
    sim->dimension = (size_t)options->dimension;
    sim->parameter_bytes = (size_t)options->parameter_bytes;
    sim->link.latency_ns = (uint64_t)llround(options->latency * 1e9);
    sim->link.message_ns = (uint64_t)llround(options->message_time * 1e9);
    sim->link.jitter_ns = (uint64_t)llround(options->waits.mean * 1e9);
    sim->link.jitter_spread = options->waits.spread;
    sim->link.bytes_per_second = options->bandwidth;
    sim->server_bytes_per_second = options->server_bandwidth;
    sim->card_shared = options->card_shared != 0;
    return frame;
}

uint32_t simulate_usual_jobs(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > SIMULATE_MOST_JOBS ? SIMULATE_MOST_JOBS : (uint32_t)cores;
}
