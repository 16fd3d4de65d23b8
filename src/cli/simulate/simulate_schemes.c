/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_schemes.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/options/keep.h"
#include "cli/options/parse.h"
#include "cli/options/stop_rule.h"

#define IGNORED_SHARE 0.05

/*
 * What each scheme fixes, in the words of its settings. Tandon et al., Gradient coding, ICML 2017
 * (cyclic, fractional); Ye and Abbe, Communication-computation efficient gradient coding, ICML 2018
 * (the same in parts). What stands apart from the machines is in sim/baseline.h.
 */
typedef struct fixed_setting {
    const char *key, *value;
} fixed_setting;

/* A scheme that is a model of its own: what it takes of the machines' settings. */
#define MODEL_SETTINGS(pieces_at_first)                                                            \
    {                                                                                              \
        {"design", "cyclic"}, {"order", "as-is"}, {"replication", "1"},                            \
            {"pieces", pieces_at_first}, {"parts", "1"}, {"credit", "chunk"}, {"keep", "all"},     \
            {"stop", "exact"}, {"fill", "none"}, {"upload", "whole"},                              \
    }

static const struct {
    const char *name;
    fixed_setting settings[11]; /* up to one without a key */
    baseline_kind model;
} schemes[] = {
    {.name = "uncoded",
     .settings = {{"design", "cyclic"},
                  {"order", "as-is"},
                  {"replication", "1"},
                  {"pieces", "1"},
                  {"parts", "1"},
                  {"credit", "chunk"},
                  {"keep", "all"},
                  {"stop", "exact"},
                  {"upload", "whole"}}},
    {.name = "ignore-stragglers",
     .settings = {{"design", "cyclic"},
                  {"order", "as-is"},
                  {"replication", "1"},
                  {"pieces", "1"},
                  {"parts", "1"},
                  {"credit", "whole"},
                  {"keep", "all"},
                  {"stop", "ignore"},
                  {"upload", "whole"}}},
    {.name = "dropcompute", .settings = MODEL_SETTINGS("16"), .model = BASELINE_DROPCOMPUTE},
    {.name = "queue", .settings = MODEL_SETTINGS("16"), .model = BASELINE_QUEUE},
    {.name = "ring", .settings = MODEL_SETTINGS("1"), .model = BASELINE_RING},
    {.name = "cyclic",
     .settings = {{"design", "cyclic"},
                  {"order", "as-is"},
                  {"pieces", "1"},
                  {"credit", "whole"},
                  {"keep", "all"},
                  {"stop", "original"},
                  {"upload", "whole"}}},
    {.name = "fractional",
     .settings = {{"design", "fractional"},
                  {"order", "as-is"},
                  {"pieces", "1"},
                  {"credit", "whole"},
                  {"keep", "all"},
                  {"stop", "original"},
                  {"upload", "whole"}}},
    {.name = "multi-message",
     .settings = {{"parts", "1"},
                  {"credit", "chunk"},
                  {"keep", "all"},
                  {"stop", "exact"},
                  {"upload", "each"}}},
    {.name = "partial", .settings = {{"credit", "chunk"}, {"keep", "all"}, {"stop", "exact"}}},
    {.name = "tarry", .settings = {{"order", "dynamic"}, {"credit", "chunk"}, {"stop", "exact"}}},
    {.name = "own", .settings = {{NULL, NULL}}},
};

#define SCHEME_COUNT (sizeof(schemes) / sizeof(schemes[0]))

static int read_ahead(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return keep_read_ahead(text, &((scheme_settings *)values)->server.ahead, diagnostic);
}

static int read_design(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return plan_design_read(text, &((scheme_settings *)values)->plan, diagnostic);
}

static int read_order(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return plan_order_read(text, &((scheme_settings *)values)->plan, diagnostic);
}

static int read_racks(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return plan_racks_read(text, &((scheme_settings *)values)->plan, diagnostic);
}

static int read_replication(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    scheme_settings *settings = values;
    return list_whole(text, 1, SIMULATE_MOST_COUNT, &settings->replications, diagnostic);
}

static int read_pieces(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    scheme_settings *settings = values;
    return list_whole(text, 1, SIMULATE_MOST_COUNT, &settings->piece_counts, diagnostic);
}

static int read_parts(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    scheme_settings *settings = values;
    if (strncmp(text, "auto", 4) == 0) {
        settings->part_counts.count = 1;
        return plan_parts_read(text, &settings->part_counts.values[0], &settings->adaptive_parts,
                               diagnostic);
    }
    int error = list_whole(text, 1, SIMULATE_MOST_COUNT, &settings->part_counts, diagnostic);
    if (error == TARRY_OK)
        settings->adaptive_parts = false;
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
        int error = stop_rule_read(text, &settings->server, diagnostic);
        if (error != TARRY_OK)
            return error;
        settings->stop_kind = SCHEME_STOP_GIVEN;
    }
    return TARRY_OK;
}

static int read_adapt(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return adapt_read(text, &((scheme_settings *)values)->adapt_rule, diagnostic);
}

static const option_choice credits[] = {
    {"chunk", TARRY_CREDIT_CHUNK},
    {"whole", TARRY_CREDIT_WHOLE},
    {NULL, 0},
};

static const option_choice fills[] = {
    {"none", TARRY_FILL_NONE},
    {"scale", TARRY_FILL_SCALE},
    {"stale", TARRY_FILL_STALE},
    {NULL, 0},
};

static const option_choice uploads[] = {
    {"coded", TARRY_SIM_UPLOAD_CODED},
    {"each", TARRY_SIM_UPLOAD_EACH},
    {"whole", TARRY_SIM_UPLOAD_WHOLE},
    {NULL, 0},
};

static const option_choice costs[] = {
    {"learned", SCHEME_COSTS_LEARNED},
    {"known", SCHEME_COSTS_KNOWN},
    {"equal", SCHEME_COSTS_EQUAL},
    {NULL, 0},
};

#define FIELD(name) .offset = offsetof(scheme_settings, name)

const option_entry scheme_option_entries[] = {
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
         "fix it (default 1)",
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
    {.name = "design",
     .argument = "DESIGN",
     .help = "Which worker holds which chunk, in schemes that don't fix it, as for tarry plan "
             "(default random)",
     .kind = OPTION_TEXT,
     .read = read_design,
     FIELD(plan.design)},
    {.name = "order",
     .argument = "ORDER",
     .help = "Sequence in which a worker computes its chunks, in schemes that don't fix it: "
             "optimal (default), random, as-is or dynamic[:RULE] (see tarry plan)",
     .kind = OPTION_TEXT,
     .read = read_order,
     FIELD(plan.order)},
    {.name = "racks",
     .argument = "K|FILE",
     .help = "Workers that share their fate, over which random designs and moves spread copies, as "
             "for tarry plan (default 0)",
     .kind = OPTION_TEXT,
     .read = read_racks,
     FIELD(plan.racks)},
    {.name = "credit",
     .argument = "CREDIT",
     .help = "What counts in own schemes: each finished chunk (chunk, default) or a worker that "
             "finished all of its chunks (whole)",
     .kind = OPTION_CHOICE,
     .choices = credits,
     FIELD(server.credit)},
    {.name = "keep",
     .argument = "WHICH",
     .help =
         "Finished gradients that a worker keeps until the sum: all (default), or a running sum "
         "of those that are credited (credited)",
     .kind = OPTION_CHOICE,
     .choices = keep_choices,
     FIELD(server.keep)},
    {.name = "ahead",
     .argument = "N",
     .help = "With keep=credited: finished gradients that may wait for the server's answer while a "
             "worker computes the next (default auto: as many as --latency takes, at least 3)",
     .kind = OPTION_TEXT,
     .read = read_ahead,
     FIELD(ahead)},
    {.name = "stop",
     .argument = "RULE",
     .help = "When a round of own schemes ends: exact (default), deadline:SECONDS, error:EPS, "
             "workers:K; original (all workers but replication - parts), ignore (all but "
             "--ignore) or deadline (the last --deadline)",
     .kind = OPTION_TEXT,
     .read = read_stop,
     FIELD(stop)},
    {.name = "fill",
     .argument = "HOW",
     .help = "What stands in for the chunks that a stop rule leaves missing: nothing (none, "
             "default), the average of the others (scale) or their gradient of the round before "
             "(stale)",
     .kind = OPTION_CHOICE,
     .choices = fills,
     FIELD(server.fill)},
    {.name = "costs",
     .argument = "WHAT",
     .help = "What the server goes by in dynamic orders: costs of chunks that it learns over the "
             "rounds (learned, default), is told before each round (known) or takes for equal "
             "(equal)",
     .kind = OPTION_CHOICE,
     .choices = costs,
     FIELD(costs)},
    {.name = "adapt",
     .argument = "K[,SHARE]",
     .help = "In schemes of dynamic order, let the plan follow every K rounds what was learned: up "
             "to SHARE (default 0.01) of all copies move to faster workers, heavy chunks are split "
             "and light ones merged (default 0: it stays)",
     .kind = OPTION_TEXT,
     .read = read_adapt,
     FIELD(adapt)},
    {.name = "upload",
     .argument = "HOW",
     .help = "What workers of own schemes send: one coded part (coded, default), every finished "
             "gradient (each), or one coded part at once when all of their chunks are finished "
             "(whole)",
     .kind = OPTION_CHOICE,
     .choices = uploads,
     FIELD(upload)},
    {.name = "ignore",
     .argument = "S",
     .help = "Workers that ignore-stragglers does not wait for (default 5 % of them)",
     .kind = OPTION_U32,
     .most = SIMULATE_MOST_COUNT,
     FIELD(ignore)},
};

const size_t scheme_option_count = sizeof(scheme_option_entries) / sizeof(scheme_option_entries[0]);

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
    settings->server.stop = TARRY_STOP_DEADLINE;
    settings->server.deadline_ns = deadline_ns;
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
        .ahead = "auto",
        .upload = TARRY_SIM_UPLOAD_CODED,
        .ignore = UINT32_MAX,
        .model.backups = true,
    };
    plan_options_init(&settings->plan);
    tarry_server_settings_init(&settings->server);
    settings->server.ahead = KEEP_AHEAD_AUTO;
}

static int set_key(scheme_settings *settings, const char *key, const char *value,
                   tarry_diagnostic *diagnostic)
{
    option_group group = {NULL, own_entries, sizeof(own_entries) / sizeof(own_entries[0]),
                          settings};
    for (size_t i = 0; i < group.count; i++) {
        if (strcmp(own_entries[i].name, key) == 0)
            return option_set(&group, key, value, diagnostic);
    }
    group.entries = scheme_option_entries;
    group.count = scheme_option_count;
    return option_set(&group, key, value, diagnostic);
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
    return model == BASELINE_NONE || strcmp(key, "name") == 0 || strcmp(key, "pieces") == 0 ||
           (model == BASELINE_DROPCOMPUTE && strcmp(key, "deadline") == 0);
}

/* What the scheme fixes; its pieces only where nothing is said of them. */
static int fix_settings(size_t kind, scheme_settings *settings, tarry_diagnostic *diagnostic)
{
    const whole_list *given = &settings->piece_counts;
    bool cut = given->count > 1 || given->values[0] > 1;
    settings->model.kind = schemes[kind].model;
    settings->upload_fixed = false;
    for (const fixed_setting *fixed = schemes[kind].settings; fixed->key != NULL; fixed++) {
        if (strcmp(fixed->key, "pieces") == 0 && strcmp(fixed->value, "1") != 0 && cut)
            continue;
        settings->upload_fixed |= strcmp(fixed->key, "upload") == 0;
        int error = set_key(settings, fixed->key, fixed->value, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
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
    return error;
}

const char *simulate_credit_name(tarry_credit credit)
{
    return option_choice_name(credits, (int)credit);
}

const char *simulate_fill_name(tarry_fill fill)
{
    return option_choice_name(fills, (int)fill);
}

const char *simulate_upload_name(tarry_sim_upload upload)
{
    return option_choice_name(uploads, (int)upload);
}
