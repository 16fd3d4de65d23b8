/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate_schemes.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/keep.h"
#include "cli/parse.h"
#include "cli/stop_rule.h"

#define IGNORED_SHARE 0.05

/*
 * What each scheme fixes, in the words of its settings. Tandon et al., Gradient coding, ICML 2017
 * (cyclic, fractional); Ye and Abbe, Communication-computation efficient gradient coding, ICML 2018
 * (the same in parts); Giladi et al., DropCompute, NeurIPS 2023.
 */
typedef struct fixed_setting {
    const char *key, *value;
} fixed_setting;

static const struct {
    const char *name;
    fixed_setting settings[9]; /* up to one without a key */
} schemes[] = {
    {"uncoded",
     {{"design", "cyclic"},
      {"order", "as-is"},
      {"replication", "1"},
      {"pieces", "1"},
      {"parts", "1"},
      {"credit", "chunk"},
      {"keep", "all"},
      {"stop", "exact"}}},
    {"ignore-stragglers",
     {{"design", "cyclic"},
      {"order", "as-is"},
      {"replication", "1"},
      {"pieces", "1"},
      {"parts", "1"},
      {"credit", "whole"},
      {"keep", "all"},
      {"stop", "ignore"}}},
    {"dropcompute",
     {{"design", "cyclic"},
      {"order", "as-is"},
      {"replication", "1"},
      {"pieces", "1"},
      {"parts", "1"},
      {"credit", "chunk"},
      {"keep", "all"},
      {"stop", "deadline"}}},
    {"cyclic",
     {{"design", "cyclic"},
      {"order", "as-is"},
      {"pieces", "1"},
      {"credit", "whole"},
      {"keep", "all"},
      {"stop", "original"}}},
    {"fractional",
     {{"design", "fractional"},
      {"order", "as-is"},
      {"pieces", "1"},
      {"credit", "whole"},
      {"keep", "all"},
      {"stop", "original"}}},
    {"multi-message",
     {{"parts", "1"}, {"credit", "chunk"}, {"keep", "all"}, {"stop", "exact"}, {"upload", "each"}}},
    {"partial", {{"credit", "chunk"}, {"keep", "all"}, {"stop", "exact"}}},
    {"tarry", {{"order", "dynamic"}, {"credit", "chunk"}, {"stop", "exact"}}},
    {"own", {{NULL, NULL}}},
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
     .help = "What workers of own schemes send: one coded part (coded, default) or every finished "
             "gradient (each)",
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
    int error = parse_real(text, 0, SIMULATE_MOST_SECONDS, true, &seconds, diagnostic);
    if (error != TARRY_OK)
        return error;
    settings->stop_kind = SCHEME_STOP_GIVEN;
    settings->server.stop = TARRY_STOP_DEADLINE;
    settings->server.deadline_ns = (uint64_t)ceil(seconds * 1e9);
    return TARRY_OK;
}

/* The keys that are none of the shared flags. */
static const option_entry own_entries[] = {
    {.name = "deadline", .kind = OPTION_TEXT, .read = read_deadline, FIELD(deadline)},
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

/* The end of the item that begins at `text`: a comma at which a scheme begins (`whole`) or a key
 * does, or the end. */
static char *item_end(char *text, bool whole)
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

/* Reads one scheme, cutting `text` up in place. */
static int read_scheme(char *text, scheme_settings *settings, tarry_diagnostic *diagnostic)
{
    char *colon = strchr(text, ':');
    if (colon != NULL)
        *colon = '\0';
    size_t kind = find_scheme(text);
    if (kind == SCHEME_COUNT)
        return unknown_scheme(text, diagnostic);
    int error = TARRY_OK;
    for (const fixed_setting *fixed = schemes[kind].settings; fixed->key != NULL; fixed++) {
        error = set_key(settings, fixed->key, fixed->value, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    char *key = colon != NULL ? colon + 1 : NULL;
    while (error == TARRY_OK && key != NULL) {
        char *end = item_end(key, false);
        char *next = *end != '\0' ? end + 1 : NULL;
        *end = '\0';
        char *equals = strchr(key, '=');
        if (equals == NULL)
            return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not KEY=VALUE", key);
        *equals = '\0';
        error = set_key(settings, key, equals + 1, diagnostic);
        key = next;
    }
    return error;
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
    switch (server->stop) {
    case TARRY_STOP_EXACT:
        snprintf(variant->stop, sizeof(variant->stop), "exact");
        break;
    case TARRY_STOP_DEADLINE:
        snprintf(variant->stop, sizeof(variant->stop), "deadline:%.9g",
                 (double)server->deadline_ns * 1e-9);
        break;
    case TARRY_STOP_ERROR:
        snprintf(variant->stop, sizeof(variant->stop), "error:%.9g", server->error_limit);
        break;
    case TARRY_STOP_WORKERS:
        snprintf(variant->stop, sizeof(variant->stop), "workers:%u", server->workers_needed);
        break;
    }
    if (server->stop == TARRY_STOP_WORKERS && server->pick != TARRY_PICK_PLAN)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "order=dynamic doesn't go with stop=workers:K, original or ignore");
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
    const char *obstacle = keep_obstacle(parts, &variant->server);
    if (variant->upload == TARRY_SIM_UPLOAD_EACH)
        obstacle = "upload";
    if (variant->server.keep == TARRY_KEEP_CREDITED && obstacle != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "keep=credited goes with one part, credit=chunk and upload=coded; the %s "
                        "is another one",
                        obstacle);
    int error = TARRY_OK;
    if (file || variant->plan.rack_size > 0 || variant->plan.rack_file != NULL)
        error = least_replication(&variant->plan, &variant->plan.replication, diagnostic);
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
        char *end = item_end(label, true);
        char *next = *end != '\0' ? end + 1 : NULL;
        cut[end - label] = '\0';
        *end = '\0';
        *settings = *defaults;
        tarry_diagnostic why;
        error = read_scheme(cut, settings, &why);
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
