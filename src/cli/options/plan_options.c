/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/plan_options.h"

#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "cli/options/parse.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "cli/text/report_json.h"

#define MOST_COUNT 1000000

static int read_design(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    plan_options *options = values;
    const option_choice designs[] = {
        {"cyclic", TARRY_DESIGN_CYCLIC}, {"fractional", TARRY_DESIGN_FRACTIONAL},
        {"random", TARRY_DESIGN_RANDOM}, {"projective", TARRY_DESIGN_PROJECTIVE},
        {"affine", TARRY_DESIGN_AFFINE}, {"difference", TARRY_DESIGN_DIFFERENCE},
    };
    for (size_t i = 0; i < sizeof(designs) / sizeof(designs[0]); i++) {
        if (strcmp(text, designs[i].name) == 0) {
            options->plan.design = (tarry_design)designs[i].value;
            options->plan.file = NULL;
            return TARRY_OK;
        }
    }
    if (strncmp(text, "file:", 5) != 0 || text[5] == '\0')
        return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                        "'%s' is not one of cyclic, fractional, random, projective, affine, "
                        "difference, file:PATH",
                        text);
    options->plan.design = TARRY_DESIGN_FILE;
    options->plan.file = text + 5;
    return TARRY_OK;
}

uint64_t plan_options_units(const plan_options *options)
{
    return (uint64_t)options->plan.chunks * options->plan.pieces;
}

const char *plan_unit_name(const plan_options *options)
{
    return options->plan.pieces > 1 ? "pieces" : "chunks";
}

int plan_design_read(const char *text, plan_options *options, tarry_diagnostic *diagnostic)
{
    return read_design(text, options, diagnostic);
}

static const struct {
    const char *name;
    tarry_order order;
    tarry_pick pick;
} orders[] = {
    {"optimal", TARRY_ORDER_OPTIMAL, TARRY_PICK_PLAN},
    {"random", TARRY_ORDER_RANDOM, TARRY_PICK_PLAN},
    {"as-is", TARRY_ORDER_AS_IS, TARRY_PICK_PLAN},
    {"dynamic", TARRY_ORDER_OPTIMAL, TARRY_PICK_SHARE},
    {"dynamic:share", TARRY_ORDER_OPTIMAL, TARRY_PICK_SHARE},
    {"dynamic:capacity", TARRY_ORDER_OPTIMAL, TARRY_PICK_CAPACITY},
    {"dynamic:fewest", TARRY_ORDER_OPTIMAL, TARRY_PICK_FEWEST},
};

static int read_order(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    plan_options *options = values;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        if (strcmp(text, orders[i].name) != 0)
            continue;
        options->plan.order = orders[i].order;
        options->pick = orders[i].pick;
        return TARRY_OK;
    }
    return diagnose(diagnostic, TARRY_ERROR_FORMAT,
                    "'%s' is not one of optimal, random, as-is, dynamic, dynamic:share, "
                    "dynamic:capacity, dynamic:fewest",
                    text);
}

int plan_order_read(const char *text, plan_options *options, tarry_diagnostic *diagnostic)
{
    return read_order(text, options, diagnostic);
}

int plan_parts_read(const char *text, uint32_t *parts, bool *adaptive, tarry_diagnostic *diagnostic)
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
    plan_options *options = values;
    return plan_parts_read(text, &options->plan.parts, &options->plan.adaptive_parts, diagnostic);
}

uint32_t plan_auto_parts(uint32_t replication)
{
    return replication < 4 ? replication : 4;
}

static int read_racks(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    plan_options *options = values;
    uint64_t size = 0;
    bool named = text[strspn(text, "0123456789")] != '\0';
    int error = named ? TARRY_OK : parse_whole(text, 0, MOST_COUNT, &size, diagnostic);
    if (error != TARRY_OK)
        return error;
    options->plan.rack_size = (uint32_t)size;
    options->plan.rack_file = named ? text : NULL;
    return TARRY_OK;
}

int plan_racks_read(const char *text, plan_options *options, tarry_diagnostic *diagnostic)
{
    return read_racks(text, options, diagnostic);
}

const option_entry plan_option_entries[] = {
    {.name = "workers",
     .argument = "M",
     .help = "Workers (default 8)",
     .kind = OPTION_U32,
     .offset = offsetof(plan_options, plan.workers),
     .least = 1,
     .most = MOST_COUNT},
    {.name = "chunks",
     .argument = "N",
     .help = "Shares of the data, the unit of work (default 8)",
     .kind = OPTION_U32,
     .offset = offsetof(plan_options, plan.chunks),
     .least = 1,
     .most = MOST_COUNT},
    {.name = "pieces",
     .argument = "P",
     .help = "Pieces that each chunk is cut into, each on workers of its own: they are then the "
             "unit of work (default 1)",
     .kind = OPTION_U32,
     .offset = offsetof(plan_options, plan.pieces),
     .least = 1,
     .most = MOST_COUNT},
    {.name = "replication",
     .argument = "R",
     .help = "Workers that hold each chunk (default 3)",
     .kind = OPTION_U32,
     .offset = offsetof(plan_options, plan.replication),
     .least = 1,
     .most = MOST_COUNT},
    {.name = "parts",
     .argument = "L",
     .help = "Parts that a gradient is cut into; a worker uploads one coded part (default 1). "
             "auto[:L]: the server chooses in each round, up to L (default the replication, at "
             "most 4)",
     .kind = OPTION_TEXT,
     .offset = offsetof(plan_options, parts),
     .read = read_parts},
    {.name = "design",
     .argument = "DESIGN",
     .help = "Which worker holds which chunk: cyclic, fractional, random (default), projective, "
             "affine, difference or file:PATH",
     .kind = OPTION_TEXT,
     .offset = offsetof(plan_options, design),
     .read = read_design},
    {.name = "order",
     .argument = "ORDER",
     .help = "Sequence in which a worker computes its chunks: optimal (default), random, as-is or "
             "dynamic[:RULE], by what others have done, with the rule share (default), capacity "
             "or fewest",
     .kind = OPTION_TEXT,
     .offset = offsetof(plan_options, order),
     .read = read_order},
    {.name = "racks",
     .argument = "K|FILE",
     .help =
         "Workers that share their fate: racks of K in the order of their ids, or a file with a "
         "rack's name per worker; random designs and moves spread copies over them (default 0: "
         "none known)",
     .kind = OPTION_TEXT,
     .offset = offsetof(plan_options, racks),
     .read = read_racks},
    {.name = "seed",
     .argument = "S",
     .help = "Seed of everything that is drawn (default 1)",
     .kind = OPTION_U64,
     .offset = offsetof(plan_options, plan.seed),
     .most = INT64_MAX},
};

const size_t plan_option_count = sizeof(plan_option_entries) / sizeof(plan_option_entries[0]);

void plan_options_init(plan_options *options)
{
    tarry_plan_settings_init(&options->plan);
    options->design = "random";
    options->order = "optimal";
    options->parts = "1";
}

int plan_options_make(const plan_options *options, tarry_plan **plan)
{
    tarry_plan_settings settings = options->plan;
    if (settings.design != TARRY_DESIGN_FILE) {
        if (settings.replication > settings.workers)
            return complain(EXIT_USAGE, "--replication: %u is more than the %u workers",
                            settings.replication, settings.workers);
        if (settings.parts > settings.replication)
            return complain(EXIT_USAGE, "--parts: %u is more than the replication of %u",
                            settings.parts, settings.replication);
    } else if (settings.parts == 0) {
        return complain(EXIT_USAGE, "--parts: with a design from a file say how many: auto:L");
    }
    if (settings.parts == 0)
        settings.parts = plan_auto_parts(settings.replication);
    tarry_diagnostic why;
    int error = tarry_plan_create(&settings, NULL, plan, &why);
    if (error == TARRY_OK)
        return OPTIONS_PROCEED;
    if (error == TARRY_ERROR_NO_MEMORY)
        return complain(EXIT_FAILED, "%s", why.text);
    return complain(error == TARRY_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED, "plan: %s", why.text);
}

void plan_digest_text(const tarry_plan *plan, char text[2 * TARRY_DIGEST_SIZE + 1])
{
    uint8_t digest[TARRY_DIGEST_SIZE];
    tarry_plan_digest(plan, digest);
    for (size_t i = 0; i < TARRY_DIGEST_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static json_t *loads_json(const tarry_plan *plan)
{
    json_t *loads = json_array();
    for (uint32_t worker = 0; loads != NULL && worker < tarry_plan_workers(plan); worker++) {
        if (json_array_append_new(loads, json_integer(tarry_plan_load(plan, worker))) != 0) {
            json_decref(loads);
            loads = NULL;
        }
    }
    return loads;
}

/* One rack per worker and how copies are spread over them; null if none are known. */
static json_t *racks_json(const tarry_plan *plan)
{
    if (tarry_plan_racks(plan) == 0)
        return json_null();
    json_t *list = json_array();
    for (uint32_t worker = 0; list != NULL && worker < tarry_plan_workers(plan); worker++) {
        if (json_array_append_new(list, json_integer(tarry_plan_rack(plan, worker))) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    tarry_rack_spread spread = tarry_plan_rack_spread(plan);
    return json_pack("{s:I, s:o, s:I, s:I, s:b}", "count", (json_int_t)tarry_plan_racks(plan),
                     "rack", list, "copies_together", (json_int_t)spread.most_together,
                     "copies_left", (json_int_t)spread.left, "any_may_die",
                     spread.left >= tarry_plan_least_parts(plan));
}

static json_t *conditioning_json(const tarry_plan *plan)
{
    tarry_conditioning conditioning = tarry_plan_conditioning(plan);
    return json_pack("{s:o, s:o, s:I, s:b}", "worst", number_json(conditioning.worst), "median",
                     number_json(conditioning.median), "subsets", (json_int_t)conditioning.subsets,
                     "complete", conditioning.complete);
}

json_t *plan_json(const plan_options *options, const tarry_plan *plan)
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
        "{s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:o, s:I, s:I, s:o, s:s, s:I, s:o, s:s, s:o}",
        "workers", (json_int_t)tarry_plan_workers(plan), "chunks",
        (json_int_t)tarry_plan_chunks(plan), "pieces", (json_int_t)tarry_plan_pieces(plan), "parts",
        (json_int_t)parts, "adaptive_parts", tarry_plan_least_parts(plan) < parts, "replication",
        (json_int_t)least, "replication_most", (json_int_t)most, "loads", loads_json(plan), "q",
        (json_int_t)tarry_plan_q(plan, parts), "q_bound",
        (json_int_t)tarry_plan_q_bound(plan, parts), "conditioning", conditioning_json(plan),
        "digest", digest, "seed", (json_int_t)options->plan.seed, "design",
        json_text(options->design), "order", options->order, "racks", racks_json(plan));
}
