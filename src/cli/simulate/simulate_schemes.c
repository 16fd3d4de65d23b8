/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_schemes.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/parse.h"
#include "cli/options/stop_rule.h"

#define IGNORED_SHARE 0.05

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
    tarry_plan_settings *plan = &settings->run.settings.plan;
    if (strncmp(text, "auto", 4) == 0) {
        settings->part_counts.count = 1;
        return run_parts_read(text, &settings->part_counts.values[0], &plan->adaptive_parts,
                              diagnostic);
    }
    int error = list_whole(text, 1, SIMULATE_MOST_COUNT, &settings->part_counts, diagnostic);
    if (error == TARRY_OK)
        plan->adaptive_parts = false;
    return error;
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
    {"grid", TARRY_SIM_GRID},
    {"tree", TARRY_SIM_TREE},
    {"auto", TARRY_SIM_CHOSEN},
    {"ring", TARRY_SIM_RING},
    {NULL, 0},
};

static const option_choice costs[] = {
    {"learned", SCHEME_COSTS_LEARNED},
    {"known", SCHEME_COSTS_KNOWN},
    {"equal", SCHEME_COSTS_EQUAL},
    {NULL, 0},
};

#define FIELD(name) .offset = offsetof(scheme_settings, name)

static const option_entry scheme_entries[] = {
    {.name = "replication",
     .argument = "R,R...",
     .help = "Workers that hold each chunk, in schemes that don't fix it (default 8)",
     .kind = OPTION_TEXT,
     .read = read_replication,
     FIELD(replication)},
    {.name = "pieces",
     .argument = "P,P...",
     .help =
         "Pieces that each chunk is cut into, each on workers of its own, in schemes that don't "
         "fix it (default 1, in tarry auto: as many as make 8 per worker)",
     .kind = OPTION_TEXT,
     .read = read_pieces,
     FIELD(pieces)},
    {.name = "parts",
     .argument = "L,L...",
     .help = "Parts that a gradient is cut into, in schemes that don't fix it; at most the "
             "replication (default 1); auto[:L] as for tarry train",
     .kind = OPTION_TEXT,
     .read = read_parts,
     FIELD(parts)},
    {.name = "stop",
     .argument = "RULE",
     .help = "When a round of own schemes ends: exact (default), deadline:SECONDS, error:EPS, "
             "workers:K; original (all workers but replication - parts), ignore (all but "
             "--ignore) or deadline (the last --deadline)",
     .kind = OPTION_TEXT,
     .read = read_stop,
     FIELD(stop)},
    {.name = "costs",
     .argument = "WHAT",
     .help = "What the server goes by in dynamic orders: costs of chunks that it learns over the "
             "rounds (learned, default), is told before each round (known) or takes for equal "
             "(equal)",
     .kind = OPTION_CHOICE,
     .choices = costs,
     FIELD(costs)},
    {.name = "upload",
     .argument = "HOW",
     .help = "What workers of own schemes send: one coded part (coded, default), every finished "
             "gradient (each), or one coded part at once when all of their chunks are finished "
             "(whole)",
     .kind = OPTION_CHOICE,
     .choices = uploads,
     FIELD(upload)},
    {.name = "sum",
     .argument = "WHERE",
     .help =
         "Where a sum is made: at the server, to which coded parts go and from which parameters "
         "come (server, default), or among the workers, which all get it: directly, as tarry "
         "train does it (everywhere), in rows and columns of workers (grid), over two binary "
         "trees (tree), by what takes least of these (auto), or by a ring all-reduce (ring)",
     .kind = OPTION_CHOICE,
     .choices = ways,
     FIELD(sum)},
    {.name = "ignore",
     .argument = "S",
     .help = "Workers that ignore-stragglers and coco-ef do not wait for (default 5 % of them)",
     .kind = OPTION_U32,
     .most = SIMULATE_MOST_COUNT,
     FIELD(ignore)},
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
    {.name = "deadline", .kind = OPTION_TEXT, .read = read_deadline, FIELD(deadline)},
    {.name = "backup", .kind = OPTION_TEXT, .read = read_backup, FIELD(backup)},
    {.name = "name", .kind = OPTION_TEXT, .read = read_name, FIELD(name)},
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

void scheme_groups(scheme_settings *settings, option_group groups[SCHEME_GROUPS])
{
    groups[0] = OPTION_GROUP("What a scheme does not fix itself", scheme_entries, settings);
    groups[0].note = run_options_note;
    groups[1] = run_options_group(RUN_LAYOUT, NULL, &settings->run);
    groups[2] = run_options_group(RUN_RULES, NULL, &settings->run);
}

static int set_key(scheme_settings *settings, const char *key, const char *value,
                   tarry_diagnostic *diagnostic)
{
    option_group groups[1 + SCHEME_GROUPS] = {OPTION_GROUP(NULL, own_entries, settings)};
    scheme_groups(settings, groups + 1);
    return option_set(groups, 1 + SCHEME_GROUPS, key, value, diagnostic);
}

uint32_t scheme_ignored(uint32_t workers)
{
    return (uint32_t)lround(IGNORED_SHARE * workers);
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

char *scheme_item_end(char *text, bool whole)
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

int scheme_read(char *text, scheme_settings *settings, tarry_diagnostic *diagnostic)
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
