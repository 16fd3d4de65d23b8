/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/run_options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tarry/server.h>
#include <tarry/settings.h>

#include "base/diagnostic.h"
#include "base/hex.h"
#include "base/number.h"
#include "cli/options/gone.h"
#include "cli/options/machine_room.h"
#include "cli/options/options.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"

#define DEFAULT_SHARE 0.01
#define MOST_ROUNDS 1000000

/* Reads K or K,SHARE; without SHARE it is 1 %. Errors: FORMAT, with a diagnostic; nothing changes
 * then. */
static int adapt_read(const char *text, adapt_rule *rule, tarry_diagnostic *diagnostic)
{
    adapt_rule read = {.share = DEFAULT_SHARE};
    char rounds[32];
    size_t length = strcspn(text, ",");
    uint64_t every;
    if (length >= sizeof(rounds))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%.200s' is not K or K,SHARE", text);
    snprintf(rounds, sizeof(rounds), "%.*s", (int)length, text);
    int error = parse_whole(rounds, 0, MOST_ROUNDS, &every, diagnostic);
    if (error == TARRY_OK && text[length] == ',')
        error = parse_real(text + length + 1, 0, 1, false, &read.share, diagnostic);
    if (error != TARRY_OK)
        return error;
    read.every = (uint32_t)every;
    *rule = read;
    return TARRY_OK;
}

/* ---- compress form ---- */

#define MILLIONTHS 1e6

static const struct {
    const char *name;
    tarry_compress form;
} forms[] = {
    {"none", TARRY_COMPRESS_NONE}, {"bf16", TARRY_COMPRESS_BF16}, {"int8", TARRY_COMPRESS_INT8},
    {"int4", TARRY_COMPRESS_INT4}, {"sign", TARRY_COMPRESS_SIGN},
};

/* The form, and nothing of any other. */
static void set_form(tarry_compress form, tarry_server_settings *server)
{
    server->compress = form;
    server->compress_share = 0;
    server->compress_rank = 0;
}

static int read_powersgd(const char *text, tarry_server_settings *server,
                         tarry_diagnostic *diagnostic)
{
    uint64_t rank;
    int error = parse_whole(text, 1, TARRY_COMPRESS_RANK_MOST, &rank, diagnostic);
    if (error != TARRY_OK)
        return error;
    set_form(TARRY_COMPRESS_POWERSGD, server);
    server->compress_rank = (uint32_t)rank;
    return TARRY_OK;
}

static int read_topk(const char *text, tarry_server_settings *server, tarry_diagnostic *diagnostic)
{
    double share;
    if (strchr(text, ':') != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'topk:%s': %s", text,
                        gone_option("compress:topk:dense"));
    int error = parse_real(text, 1 / MILLIONTHS, TARRY_COMPRESS_SHARE_MOST / MILLIONTHS, false,
                           &share, diagnostic);
    if (error != TARRY_OK)
        return error;
    set_form(TARRY_COMPRESS_TOPK, server);
    server->compress_share = (uint32_t)lround(share * MILLIONTHS);
    return TARRY_OK;
}

int compress_form_read(const char *text, tarry_server_settings *server,
                       tarry_diagnostic *diagnostic)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strcmp(text, forms[i].name) != 0)
            continue;
        set_form(forms[i].form, server);
        return TARRY_OK;
    }
    if (strncmp(text, "powersgd:", 9) == 0)
        return read_powersgd(text + 9, server, diagnostic);
    if (strncmp(text, "topk:", 5) != 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "'%s' is not one of none, bf16, int8, int4, sign, topk:F, powersgd:R",
                        text);
    return read_topk(text + 5, server, diagnostic);
}

/* --sample-chunks: how many chunks a round draws. */

/* Reads K, or K:uniform, which is the same, into the settings. Errors: FORMAT. */
static int sample_rule_read(const char *text, tarry_server_settings *server,
                            tarry_diagnostic *diagnostic)
{
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    char number[24];
    uint64_t chunks;
    if (colon != NULL && strcmp(colon, ":norm") == 0)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s': %s", text,
                        gone_option("sample-chunks:norm"));
    if ((colon != NULL && strcmp(colon, ":uniform") != 0) || length >= sizeof(number))
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not K or K:uniform", text);
    snprintf(number, sizeof(number), "%.*s", (int)length, text);
    int error = parse_whole(number, 0, UINT32_MAX - 1, &chunks, diagnostic);
    if (error != TARRY_OK)
        return error;
    server->sample_chunks = (uint32_t)chunks;
    return TARRY_OK;
}

/* ---- options ---- */

#define MOST_COUNT 1000000
#define MOST_SECONDS 1e9
#define LEAST_SILENCE 0.1

static const option_choice credits[] = {
    {"chunk", TARRY_CREDIT_CHUNK},
    {"whole", TARRY_CREDIT_WHOLE},
    {NULL, 0},
};

static const option_choice keeps[] = {
    {"all", TARRY_KEEP_ALL},
    {"credited", TARRY_KEEP_CREDITED},
    {"auto", KEEP_AUTO},
    {NULL, 0},
};

static const option_choice downs[] = {
    {"none", TARRY_COMPRESS_NONE},
    {"bf16", TARRY_COMPRESS_BF16},
    {"int8", TARRY_COMPRESS_INT8},
    {NULL, 0},
};

static const option_choice fills[] = {
    {"none", TARRY_FILL_NONE},
    {"scale", TARRY_FILL_SCALE},
    {"stale", TARRY_FILL_STALE},
    {NULL, 0},
};

static const option_choice places[] = {
    {"server", TARRY_SUM_SERVER},
    {"everywhere", TARRY_SUM_EVERYWHERE},
    {NULL, 0},
};

static const option_choice designs[] = {
    {"cyclic", TARRY_DESIGN_CYCLIC},
    {"fractional", TARRY_DESIGN_FRACTIONAL},
    {"random", TARRY_DESIGN_RANDOM},
};

static const struct {
    const char *name;
    tarry_order order;
    tarry_pick pick;
} orders[] = {
    {"optimal", TARRY_ORDER_OPTIMAL, TARRY_PICK_PLAN},
    {"random", TARRY_ORDER_RANDOM, TARRY_PICK_PLAN},
    {"as-is", TARRY_ORDER_AS_IS, TARRY_PICK_PLAN},
    {"dynamic", TARRY_ORDER_OPTIMAL, TARRY_PICK_SHARE},
};

static tarry_plan_settings *plan_of(void *values)
{
    return &((run_options *)values)->settings.plan;
}

static tarry_server_settings *server_of(void *values)
{
    return &((run_options *)values)->settings.server;
}

static int refuse_value(const char *option, const char *text, const char *known,
                        tarry_diagnostic *diagnostic)
{
    const char *gone = gone_value(option, text);
    if (gone != NULL)
        return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' %s", text, gone);
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' is not one of %s", text, known);
}

static int read_design(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    tarry_plan_settings *plan = plan_of(values);
    for (size_t i = 0; i < sizeof(designs) / sizeof(designs[0]); i++) {
        if (strcmp(text, designs[i].name) == 0) {
            plan->design = (tarry_design)designs[i].value;
            plan->file = NULL;
            return TARRY_OK;
        }
    }
    if (strncmp(text, "file:", 5) != 0 || text[5] == '\0')
        return refuse_value("design", text, "cyclic, fractional, random, file:PATH", diagnostic);
    plan->design = TARRY_DESIGN_FILE;
    plan->file = text + 5;
    return TARRY_OK;
}

static int read_order(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        if (strcmp(text, orders[i].name) != 0)
            continue;
        plan_of(values)->order = orders[i].order;
        server_of(values)->pick = orders[i].pick;
        return TARRY_OK;
    }
    return refuse_value("order", text, "optimal, random, as-is, dynamic", diagnostic);
}

int run_parts_check(const char *text, tarry_diagnostic *diagnostic)
{
    if (strncmp(text, "auto", 4) != 0)
        return TARRY_OK;
    return diagnose(diagnostic, TARRY_ERROR_FORMAT, "'%s' %s", text, gone_value("parts", "auto"));
}

static int read_parts(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    uint64_t parts;
    int error = run_parts_check(text, diagnostic);
    if (error == TARRY_OK)
        error = parse_whole(text, 1, MOST_COUNT, &parts, diagnostic);
    if (error == TARRY_OK)
        plan_of(values)->parts = (uint32_t)parts;
    return error;
}

static int read_racks(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    uint64_t size = 0;
    bool named = text[strspn(text, "0123456789")] != '\0';
    int error = named ? TARRY_OK : parse_whole(text, 0, MOST_COUNT, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    plan_of(values)->rack_size = (uint32_t)size;
    plan_of(values)->rack_file = named ? text : NULL;
    return TARRY_OK;
}

static int read_stop(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return stop_rule_read(text, server_of(values), diagnostic);
}

static int read_compress(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return compress_form_read(text, server_of(values), diagnostic);
}

static int read_sample(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    return sample_rule_read(text, server_of(values), diagnostic);
}

static int read_ahead(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    uint64_t number = AHEAD_AUTO;
    if (strcmp(text, "auto") != 0) {
        int error = parse_whole(text, 0, AHEAD_AUTO - 1, &number, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    server_of(values)->ahead = (uint32_t)number;
    return TARRY_OK;
}

/* What a trace or another SPEC says is told; whether it can be read is found out when it is. */
static int read_chunk_cost(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    (void)diagnostic;
    ((run_options *)values)->settings.costs_told = strcmp(text, "learned") != 0;
    server_of(values)->learn_costs = strcmp(text, "equal") != 0;
    return TARRY_OK;
}

static int read_adapt(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    run_options *options = values;
    int error = adapt_read(text, &options->adapt_rule, diagnostic);
    if (error == TARRY_OK)
        options->settings.adapts = options->adapt_rule.every != 0;
    return error;
}

#define FIELD(name) .offset = offsetof(run_options, name)

static const option_entry size_entries[] = {
    {.name = "workers",
     .argument = "M",
     .help = "Workers (default 8)",
     .kind = OPTION_U32,
     FIELD(settings.plan.workers),
     .least = 1,
     .most = MOST_COUNT},
    {.name = "chunks",
     .argument = "N",
     .help = "Shares of the data, the unit of work (default 8)",
     .kind = OPTION_U32,
     FIELD(settings.plan.chunks),
     .least = 1,
     .most = MOST_COUNT},
    {.name = "pieces",
     .argument = "P",
     .help = "Pieces that each chunk is cut into, each on workers of its own: they are then the "
             "unit of work (default: as many as make 8 per worker)",
     .kind = OPTION_U32,
     FIELD(settings.plan.pieces),
     .least = 1,
     .most = MOST_COUNT},
    {.name = "replication",
     .argument = "R",
     .help = "Workers that hold each chunk (default 3)",
     .kind = OPTION_U32,
     FIELD(settings.plan.replication),
     .least = 1,
     .most = MOST_COUNT},
    {.name = "parts",
     .argument = "L",
     .help = "Parts that a gradient is cut into; a worker uploads one coded part (default 1)",
     .kind = OPTION_TEXT,
     FIELD(parts),
     .read = read_parts},
    {.name = "seed",
     .argument = "S",
     .help = "Seed of everything that is drawn (default 1)",
     .kind = OPTION_U64,
     FIELD(settings.plan.seed),
     .most = INT64_MAX},
};

static const option_entry layout_entries[] = {
    {.name = "design",
     .argument = "DESIGN",
     .help = "Which worker holds which chunk: cyclic, fractional, random (default) or file:PATH",
     .kind = OPTION_TEXT,
     FIELD(design),
     .read = read_design},
    {.name = "order",
     .argument = "ORDER",
     .help = "Sequence in which a worker computes its chunks: dynamic, by what others have done; "
             "or as planned: optimal, random or as-is (default dynamic, in tarry simulate optimal)",
     .kind = OPTION_TEXT,
     FIELD(order),
     .read = read_order},
    {.name = "racks",
     .argument = "K|FILE",
     .help =
         "Workers that share their fate: racks of K in the order of their ids, or a file with a "
         "rack's name per worker; random designs and moves spread copies over them (default 0: "
         "none known)",
     .kind = OPTION_TEXT,
     FIELD(racks),
     .read = read_racks},
};

static const option_entry rule_entries[] = {
    {.name = "credit",
     .argument = "CREDIT",
     .help = "What counts: each finished chunk (chunk, default) or a worker that finished all of "
             "its chunks (whole)",
     .kind = OPTION_CHOICE,
     .choices = credits,
     FIELD(settings.server.credit)},
    {.name = "keep",
     .argument = "WHICH",
     .help = "Finished gradients that a worker keeps until the sum: all, or a running sum of those "
             "that are credited, and few gradients at any number of chunks (credited; with one "
             "part); auto (default): credited if the other settings allow it",
     .kind = OPTION_CHOICE,
     .choices = keeps,
     FIELD(keep)},
    {.name = "ahead",
     .argument = "N",
     .help =
         "With credited: finished gradients that may wait for the server's answer while a "
         "worker computes the next (default auto: 3, or, if --keep auto chose credited, up to 8 "
         "as far as a quarter of the memory holds them; in simulations as many as answers "
         "take, at least 3)",
     .kind = OPTION_TEXT,
     .read = read_ahead,
     FIELD(ahead)},
    {.name = "fill",
     .argument = "HOW",
     .help = "What stands in for the chunks that the stop rule leaves missing: nothing (none, "
             "default), the average of the others (scale) or their gradient of the round before "
             "(stale)",
     .kind = OPTION_CHOICE,
     .choices = fills,
     FIELD(settings.server.fill)},
    {.name = "compress",
     .argument = "FORM",
     .help =
         "The form in which workers send their coded parts, with one part: float32 (none, "
         "default), bf16 (half as long), int8 (a byte a number, rounded by chance), and, with "
         "what rounding lost in the next round's part: int4 (half a byte), sign (a bit), "
         "topk:F (the largest numbers alone, a share F of all) or powersgd:R (of each matrix its "
         "product with a thin one of R columns). With --sum everywhere none, bf16 or int8, as they "
         "go to the worker that sums them",
     .kind = OPTION_TEXT,
     .read = read_compress,
     FIELD(compress)},
    {.name = "compress-down",
     .argument = "FORM",
     .help =
         "The form in which parameters come down to workers: float32 (none, default), or what "
         "has changed in bf16 (half as long) or int8 (a byte a number, rounded by chance). With "
         "--sum everywhere that of the sum on its way from who sums it to all, with one part",
     .kind = OPTION_CHOICE,
     .choices = downs,
     FIELD(settings.server.compress_down)},
    {.name = "sample-chunks",
     .argument = "K",
     .help =
         "Each round draws chunks, K on average and each as likely as any, and computes those "
         "only; they count more, so that the mean of the sum is the sum of all chunks (default 0: "
         "all take part)",
     .kind = OPTION_TEXT,
     .read = read_sample,
     FIELD(sample)},
    {.name = "adapt",
     .argument = "K[,SHARE]",
     .help = "With a dynamic order, let the plan follow every K rounds what was learned: up to "
             "SHARE (default 0.01) of all copies move to faster workers, heavy chunks are split "
             "and light ones merged (default 0: it stays)",
     .kind = OPTION_TEXT,
     .read = read_adapt,
     FIELD(adapt)},
};

static const option_entry end_entries[] = {
    {.name = "stop",
     .argument = "RULE",
     .help = "When a round ends: exact (default), deadline:SECONDS, error:EPS or workers:K",
     .kind = OPTION_TEXT,
     .read = read_stop,
     FIELD(stop)},
    {.name = "sum",
     .argument = "PLACE",
     .help = "Where sums are made: at the server, which has the parameters (server, default), or "
             "among the workers, which all have them and step alike (everywhere)",
     .kind = OPTION_CHOICE,
     .choices = places,
     FIELD(settings.server.sum)},
    {.name = "chunk-cost",
     .argument = "SPEC",
     .help = "What a dynamic order takes chunks to cost: learned over the rounds (learned, "
             "default), all the same (equal), or given, by the steps of a trace (trace:FILE)",
     .kind = OPTION_TEXT,
     .read = read_chunk_cost,
     FIELD(chunk_cost)},
    {.name = "reproducible",
     .help = "Sum in the order of workers, so that a run repeats to the bit",
     .kind = OPTION_FLAG,
     FIELD(settings.server.reproducible)},
};

static const option_entry limit_entries[] = {
    {.name = "silence",
     .argument = "SECONDS",
     .help = "The least time without a word after which a worker counts as lost, and a sum among "
             "workers of which nothing moves as failed (default 2)",
     .kind = OPTION_REAL,
     .low = LEAST_SILENCE,
     .high = MOST_SECONDS,
     FIELD(silence)},
    {.name = "attempt-limit",
     .argument = "SECONDS",
     .help =
         "With --sum everywhere: when an attempt to sum is given up although fewer than half of "
         "the workers have answered (default 60; 0: never)",
     .kind = OPTION_REAL,
     .high = MOST_SECONDS,
     FIELD(attempt_limit)},
    {.name = "digest-steps",
     .argument = "N",
     .help = "With --sum everywhere: workers' parameters are compared, by digests, after so many "
             "steps each; who differs from most loads theirs (default 16; 0: never)",
     .kind = OPTION_U32,
     .most = UINT32_MAX,
     FIELD(settings.server.digest_steps)},
};

option_group run_options_group(run_table which, const char *title, run_options *options)
{
    const option_group groups[] = {
        [RUN_SIZE] = OPTION_GROUP(title, size_entries, options),
        [RUN_LAYOUT] = OPTION_GROUP(title, layout_entries, options),
        [RUN_RULES] = OPTION_GROUP(title, rule_entries, options),
        [RUN_END] = OPTION_GROUP(title, end_entries, options),
        [RUN_LIMITS] = OPTION_GROUP(title, limit_entries, options),
    };
    option_group group = groups[which];
    group.note = run_options_note;
    return group;
}

void run_options_groups(run_options *options, option_group groups[RUN_GROUPS])
{
    groups[0] = run_options_group(RUN_SIZE, "The plan", options);
    groups[1] = run_options_group(RUN_LAYOUT, NULL, options);
    groups[2] = run_options_group(RUN_RULES, "Rounds", options);
    groups[3] = run_options_group(RUN_END, NULL, options);
}

void run_options_init(run_options *options)
{
    *options = (run_options){
        .keep = KEEP_AUTO,
        .design = "random",
        .order = "dynamic",
        .parts = "1",
        .stop = "exact",
        .compress = "none",
        .sample = "0",
        .ahead = "auto",
        .chunk_cost = "learned",
    };
    tarry_settings_init(&options->settings);
    options->silence = (double)options->settings.server.silence_ns * 1e-9;
    options->attempt_limit = (double)options->settings.server.attempt_limit_ns * 1e-9;
    options->settings.server.ahead = AHEAD_AUTO;
}

void run_options_note(void *values, const char *name)
{
    run_options *options = values;
    for (int setting = 1; setting < TARRY_SETTING_COUNT; setting++)
        if (strcmp(tarry_setting_name((tarry_setting)setting), name) == 0)
            options->given |= TARRY_SETTING_BIT(setting);
    if (strcmp(name, "attempt-limit") == 0 || strcmp(name, "digest-steps") == 0)
        options->among_workers = name;
    options->settings.server.silence_ns = (uint64_t)rint(options->silence * 1e9);
    options->settings.server.attempt_limit_ns = (uint64_t)rint(options->attempt_limit * 1e9);
    options->settings.keep_auto = options->keep == KEEP_AUTO;
    if (!options->settings.keep_auto)
        options->settings.server.keep = (tarry_keep)options->keep;
}

bool run_options_given(const run_options *options, tarry_setting setting)
{
    return (options->given & TARRY_SETTING_BIT(setting)) != 0;
}

void run_conflict_text(const tarry_conflict *conflict, const option_group *groups, size_t count,
                       bool flags, char *text, size_t size)
{
    const char *dashes = flags ? "--" : "";
    const char *names[] = {tarry_setting_name(conflict->first),
                           tarry_setting_name(conflict->second)};
    char first[128], second[128];
    option_value_text(groups, count, names[0], first, sizeof(first));
    option_value_text(groups, count, names[1], second, sizeof(second));
    /* One that only a third setting makes a conflict, which the reason tells of. */
    const bool told = conflict->first == TARRY_SETTING_COMPRESS_DOWN;
    snprintf(text, size, "%s%s: %s%s%s %s%s%s%s%s%s", dashes, names[0], first,
             first[0] != '\0' ? " " : "",
             conflict->exceeds ? "is more than" : "cannot be combined with", dashes, names[1],
             second[0] != '\0' ? " " : "", second, told ? ": " : "", told ? conflict->reason : "");
}

int run_options_settle(run_options *options)
{
    tarry_conflict conflict;
    if (options->among_workers != NULL && options->settings.server.sum != TARRY_SUM_EVERYWHERE)
        return complain(EXIT_USAGE, "--%s: has no meaning without --sum everywhere",
                        options->among_workers);
    if (tarry_settings_settle(&options->settings, options->given, &conflict) == TARRY_OK) {
        if (options->settings.server.pick == TARRY_PICK_PLAN &&
            !run_options_given(options, TARRY_SETTING_ORDER))
            options->order = "optimal";
        return OPTIONS_PROCEED;
    }
    char text[384];
    option_group groups[RUN_GROUPS];
    run_options_groups(options, groups);
    run_conflict_text(&conflict, groups, RUN_GROUPS, true, text, sizeof(text));
    return complain(EXIT_USAGE, "%s", text);
}

const char *run_keep_name(tarry_keep keep)
{
    return option_choice_name(keeps, (int)keep);
}

const char *run_credit_name(tarry_credit credit)
{
    return option_choice_name(credits, (int)credit);
}

const char *run_fill_name(tarry_fill fill)
{
    return option_choice_name(fills, (int)fill);
}

const char *run_down_name(tarry_compress form)
{
    return option_choice_name(downs, (int)form);
}

/* ---- stop rule ---- */
#define MOST_WORKERS 1000000

int stop_rule_read(const char *text, tarry_server_settings *server, tarry_diagnostic *diagnostic)
{
    if (strcmp(text, "exact") == 0) {
        server->stop = TARRY_STOP_EXACT;
        return TARRY_OK;
    }
    int error;
    if (strncmp(text, "deadline:", 9) == 0) {
        double seconds;
        error = parse_real(text + 9, 0, MOST_SECONDS, true, &seconds, diagnostic);
        if (error == TARRY_OK) {
            server->stop = TARRY_STOP_DEADLINE;
            server->deadline_ns = (uint64_t)ceil(seconds * 1e9);
        }
    } else if (strncmp(text, "error:", 6) == 0) {
        error = parse_real(text + 6, 0, 1, false, &server->error_limit, diagnostic);
        if (error == TARRY_OK)
            server->stop = TARRY_STOP_ERROR;
    } else if (strncmp(text, "workers:", 8) == 0) {
        uint64_t needed;
        error = parse_whole(text + 8, 1, MOST_WORKERS, &needed, diagnostic);
        if (error == TARRY_OK) {
            server->stop = TARRY_STOP_WORKERS;
            server->workers_needed = (uint32_t)needed;
        }
    } else {
        error = diagnose(diagnostic, TARRY_ERROR_FORMAT,
                         "'%s' is not one of exact, deadline:SECONDS, error:EPS, workers:K", text);
    }
    return error;
}

/* What the options of a run come to: its settings on this machine, and its plan. */

/* The share of the memory that gradients may take if workers run ahead by their own choice. */
#define GENEROUS_SHARE 0.25

double run_generous_bytes(void)
{
    return GENEROUS_SHARE * machine_room_find("", false).memory_bytes;
}

tarry_server_settings run_options_server(const run_options *options, uint64_t dimension)
{
    tarry_settings settings = options->settings;
    settings.server.compress_seed = settings.server.sample_seed = settings.plan.seed;
    if (settings.server.compress == TARRY_COMPRESS_POWERSGD)
        settings.server.stripe_length = 0; /* chosen by the runtime */
    bool ahead_given = settings.server.ahead != AHEAD_AUTO;
    if (!ahead_given)
        settings.server.ahead = TARRY_USUAL_AHEAD;
    tarry_settings_keep(&settings, dimension, run_generous_bytes(), ahead_given);
    return settings.server;
}

uint64_t run_options_units(const run_options *options)
{
    return (uint64_t)options->settings.plan.chunks * options->settings.plan.pieces;
}

const char *run_unit_name(const run_options *options)
{
    return options->settings.plan.pieces > 1 ? "pieces" : "chunks";
}

int run_options_plan(const run_options *options, tarry_plan **plan)
{
    tarry_diagnostic why;
    int error = tarry_plan_create(&options->settings.plan, NULL, plan, &why);
    if (error == TARRY_OK)
        return OPTIONS_PROCEED;
    if (error == TARRY_ERROR_NO_MEMORY)
        return complain(EXIT_FAILED, "%s", why.text);
    return complain(error == TARRY_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED, "plan: %s", why.text);
}

json_t *run_ahead_json(tarry_keep keep, uint32_t ahead)
{
    return keep == TARRY_KEEP_CREDITED ? json_integer(ahead) : json_null();
}

/* ---- report ---- */

void plan_digest_text(const tarry_plan *plan, char text[2 * TARRY_DIGEST_SIZE + 1])
{
    uint8_t digest[TARRY_DIGEST_SIZE];
    tarry_plan_digest(plan, digest);
    hex_put(text, digest, TARRY_DIGEST_SIZE);
}

static json_t *loads_json(const tarry_plan *plan)
{
    json_t *loads = json_array();
    for (uint32_t worker = 0; loads != NULL && worker < tarry_plan_workers(plan); worker++)
        loads = json_append(loads, json_integer(tarry_plan_load(plan, worker)));
    return loads;
}

/* One rack per worker and how copies are spread over them; null if none are known. */
static json_t *racks_json(const tarry_plan *plan)
{
    if (tarry_plan_racks(plan) == 0)
        return json_null();
    json_t *list = json_array();
    for (uint32_t worker = 0; list != NULL && worker < tarry_plan_workers(plan); worker++)
        list = json_append(list, json_integer(tarry_plan_rack(plan, worker)));
    tarry_rack_spread spread = tarry_plan_rack_spread(plan);
    return json_pack("{s:I, s:o, s:I, s:I, s:b}", "count", (json_int_t)tarry_plan_racks(plan),
                     "rack", list, "copies_together", (json_int_t)spread.most_together,
                     "copies_left", (json_int_t)spread.left, "any_may_die",
                     spread.left >= tarry_plan_parts(plan));
}

static json_t *conditioning_json(const tarry_plan *plan)
{
    tarry_conditioning conditioning = tarry_plan_conditioning(plan);
    return json_pack("{s:o, s:o, s:I, s:b}", "worst", number_json(conditioning.worst), "median",
                     number_json(conditioning.median), "subsets", (json_int_t)conditioning.subsets,
                     "complete", conditioning.complete);
}

json_t *run_plan_json(const run_options *options, const tarry_plan *plan)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
        uint32_t replication = tarry_plan_replication(plan, chunk);
        least = replication < least ? replication : least;
        most = replication > most ? replication : most;
    }
    char digest[2 * TARRY_DIGEST_SIZE + 1];
    plan_digest_text(plan, digest);
    uint32_t parts = tarry_plan_parts(plan);
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:o, s:s, s:I, s:o, s:s, s:o}", "workers",
        (json_int_t)tarry_plan_workers(plan), "chunks", (json_int_t)tarry_plan_chunks(plan),
        "pieces", (json_int_t)tarry_plan_pieces(plan), "parts", (json_int_t)parts, "replication",
        (json_int_t)least, "replication_most", (json_int_t)most, "loads", loads_json(plan), "q",
        (json_int_t)tarry_plan_q(plan, parts), "q_bound",
        (json_int_t)tarry_plan_q_bound(plan, parts), "conditioning", conditioning_json(plan),
        "digest", digest, "seed", (json_int_t)options->settings.plan.seed, "design",
        json_text(options->design), "order", options->order, "racks", racks_json(plan));
}

json_t *run_memory_json(const tarry_plan *plan, const tarry_server_settings *server,
                        uint64_t dimension)
{
    tarry_memory memory = tarry_memory_of(plan, server, dimension);
    return json_pack("{s:s, s:o, s:I, s:I, s:I}", "keep", run_keep_name(server->keep), "ahead",
                     run_ahead_json(server->keep, server->ahead), "memory_bytes",
                     (json_int_t)memory.most, "memory_bytes_total", (json_int_t)memory.total,
                     "memory_bytes_server", (json_int_t)memory.server);
}
