/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/run_options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/parse.h"
#include "cli/options/compress_form.h"
#include "cli/options/gone.h"
#include "cli/options/sample_rule.h"
#include "cli/options/stop_rule.h"
#include "cli/text/complain.h"
#include "protocol/form.h"

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

static const option_choice shapes[] = {
    {"auto", TARRY_SHAPE_AUTO},
    {"direct", TARRY_SHAPE_DIRECT},
    {"grid", TARRY_SHAPE_GRID},
    {"tree", TARRY_SHAPE_TREE},
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

int run_parts_read(const char *text, uint32_t *parts, bool *adaptive, tarry_diagnostic *diagnostic)
{
    uint64_t value = 0;
    bool chosen = strncmp(text, "auto", 4) == 0 && (text[4] == '\0' || text[4] == ':');
    if (!chosen || text[4] == ':') {
        int error = parse_whole(chosen ? text + 5 : text, 1, MOST_COUNT, &value, diagnostic);
        if (error != TARRY_OK)
            return error;
    }
    *parts = (uint32_t)value;
    *adaptive = chosen;
    return TARRY_OK;
}

static int read_parts(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    tarry_plan_settings *plan = plan_of(values);
    return run_parts_read(text, &plan->parts, &plan->adaptive_parts, diagnostic);
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
    run_options *options = values;
    return compress_form_read(text, server_of(values), &options->compress_last, diagnostic);
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
     .help = "Parts that a gradient is cut into; a worker uploads one coded part (default 1). "
             "auto[:L]: the server chooses in each round, up to L (default the replication, at "
             "most 4)",
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
             "part); auto (default): credited where all take more than a quarter of the memory",
     .kind = OPTION_CHOICE,
     .choices = keeps,
     FIELD(keep)},
    {.name = "ahead",
     .argument = "N",
     .help = "With credited: finished gradients that may wait for the server's answer while a "
             "worker computes the next (default auto: 3, or, where --keep auto chose credited, as "
             "many as a quarter of the memory holds; in simulations as many as --latency takes, at "
             "least 3)",
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
         "topk:F[:FIRST[:LAST]] (the largest numbers alone, a share F of all; the first and the "
         "last so many rounds are int4) or powersgd:R (of each matrix its product with a thin one "
         "of R columns). With --sum everywhere none, bf16 or int8, as they go to "
         "the worker that sums them",
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
    {.name = "shape",
     .argument = "SHAPE",
     .help =
         "With --sum everywhere: who sends what to whom between machines: direct, grid (rows and "
         "columns of workers), tree (few numbers, many workers), or what takes least (auto, "
         "default)",
     .kind = OPTION_CHOICE,
     .choices = shapes,
     FIELD(settings.server.shape)},
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
    if (strcmp(name, "attempt-limit") == 0 || strcmp(name, "digest-steps") == 0 ||
        strcmp(name, "shape") == 0)
        options->among_workers = name;
    options->settings.server.silence_ns = (uint64_t)rint(options->silence * 1e9);
    options->settings.server.attempt_limit_ns = (uint64_t)rint(options->attempt_limit * 1e9);
    options->settings.keep_auto = options->keep == KEEP_AUTO;
    if (!options->settings.keep_auto)
        options->settings.server.keep = (tarry_keep)options->keep;
}

void run_options_end(run_options *options, uint64_t rounds)
{
    compress_form_end(rounds, options->compress_last, &options->settings.server);
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
    const tarry_server_settings *server = &options->settings.server;
    if (form_rounds_among_workers(server) &&
        (server->shape == TARRY_SHAPE_GRID || server->shape == TARRY_SHAPE_TREE)) {
        const bool up = server->compress != TARRY_COMPRESS_NONE;
        return complain(
            EXIT_USAGE, "--shape: %s cannot be combined with --%s %s: each hop would round anew",
            option_choice_name(shapes, (int)server->shape), up ? "compress" : "compress-down",
            up ? options->compress : run_down_name(server->compress_down));
    }
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
