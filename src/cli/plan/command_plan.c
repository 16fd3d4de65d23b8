/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/plan.h>
#include <tarry/version.h>

#include "base/quantile.h"
#include "cli/command.h"
#include "cli/options/run_options.h"
#include "cli/plan/advise.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"
#include "compress/compress_lowrank.h"
#include "plan/exposure/exposure.h"

#define PLAN_ENDURANCE_SEQUENCES 1000

#define PLAN_ENDURANCE_POINTS 32 /* of the curve, at most */

typedef struct plan_endurance {
    uint32_t any;                              /* deaths that are survived, whoever dies */
    double mean, p5, median, p95;              /* of random deaths that are survived */
    uint32_t sorted[PLAN_ENDURANCE_SEQUENCES]; /* the same in each sequence, ascending */
} plan_endurance;

typedef struct plan_exposure {
    uint32_t colluders;
    double chunks; /* original ones; as many as the plan has, in all */
    exposure_bound bound;
} plan_exposure;

/* How many deaths of workers a plan survives, as tarry plan prints it. */

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sequences of deaths are drawn from `seed`. Errors: NO_MEMORY. */
static int plan_endurance_measure(const tarry_plan *plan, uint64_t seed, plan_endurance *out)
{
    int error = tarry_plan_endures_random(plan, seed, PLAN_ENDURANCE_SEQUENCES, NULL, out->sorted);
    if (error != TARRY_OK)
        return error;
    double values[PLAN_ENDURANCE_SEQUENCES], sum = 0;
    qsort(out->sorted, PLAN_ENDURANCE_SEQUENCES, sizeof(*out->sorted), compare);
    for (size_t i = 0; i < PLAN_ENDURANCE_SEQUENCES; i++)
        sum += values[i] = out->sorted[i];
    out->any = tarry_plan_endures(plan);
    out->mean = sum / PLAN_ENDURANCE_SEQUENCES;
    out->p5 = quantile_of(values, PLAN_ENDURANCE_SEQUENCES, 0.05);
    out->median = quantile_of(values, PLAN_ENDURANCE_SEQUENCES, 0.5);
    out->p95 = quantile_of(values, PLAN_ENDURANCE_SEQUENCES, 0.95);
    return TARRY_OK;
}

/* Two lines, each after `start`. */
static void plan_endurance_print(const plan_endurance *endurance, const char *start)
{
    printf("%s%-21s any %u\n", start, "deaths survived", endurance->any);
    printf("%s%-21s %.1f on average, median %.4g, p5 %.4g, p95 %.4g, over %d sequences\n", start,
           "random deaths", endurance->mean, endurance->median, endurance->p5, endurance->p95,
           PLAN_ENDURANCE_SEQUENCES);
}

/* The share of sequences in which `deaths` are survived. */
static double share_survived(const plan_endurance *endurance, uint32_t deaths)
{
    size_t fewer = 0;
    while (fewer < PLAN_ENDURANCE_SEQUENCES && endurance->sorted[fewer] < deaths)
        fewer++;
    return 1 - (double)fewer / PLAN_ENDURANCE_SEQUENCES;
}

/* From none to the most that any sequence survives, at equal distances. */
static json_t *curve_json(const plan_endurance *endurance)
{
    uint32_t most = endurance->sorted[PLAN_ENDURANCE_SEQUENCES - 1];
    uint32_t step = most / PLAN_ENDURANCE_POINTS + 1;
    json_t *list = json_array();
    for (uint32_t deaths = 0; list != NULL && deaths <= most; deaths += step)
        list = json_append(list, json_pack("{s:I, s:f}", "deaths", (json_int_t)deaths, "share",
                                           share_survived(endurance, deaths)));
    return list;
}

/* NULL if there is no memory. */
static json_t *plan_endurance_json(const plan_endurance *endurance)
{
    return json_pack("{s:I, s:{s:I, s:f, s:f, s:f, s:f, s:o}}", "deaths_survived",
                     (json_int_t)endurance->any, "random_deaths_survived", "sequences",
                     (json_int_t)PLAN_ENDURANCE_SEQUENCES, "mean", endurance->mean, "p5",
                     endurance->p5, "median", endurance->median, "p95", endurance->p95, "curve",
                     curve_json(endurance));
}

/* How much of the data colluding workers never hold, as tarry plan prints it. */

/* Errors: NO_MEMORY. */
static int plan_exposure_measure(const tarry_plan *plan, uint32_t colluders, plan_exposure *out)
{
    exposure *held;
    int error = exposure_create(NULL, &held);
    if (error != TARRY_OK)
        return error;
    error = exposure_add_plan(held, plan, NULL);
    if (error == TARRY_OK)
        error = exposure_unheld(held, colluders, EXPOSURE_STEPS, &out->bound);
    exposure_free(held);
    out->colluders = colluders;
    out->chunks = tarry_plan_origins(plan);
    return error;
}

static double share_unheld(const plan_exposure *figures)
{
    return (double)figures->bound.unheld / (double)figures->bound.samples;
}

/* One line, after `start`. */
static void plan_exposure_print(const plan_exposure *figures, const char *start)
{
    printf("%s%-21s %s %.4g %% of the data is held by none of %u worker%s, whoever %s\n", start,
           "never held", figures->bound.exact ? "exactly" : "at least", 100 * share_unheld(figures),
           figures->colluders, figures->colluders == 1 ? "" : "s",
           figures->colluders == 1 ? "it is" : "they are");
}

/* NULL if there is no memory. */
static json_t *plan_exposure_json(const plan_exposure *figures)
{
    return json_pack("{s:I, s:f, s:f, s:b}", "colluders", (json_int_t)figures->colluders,
                     "never_held_chunks", figures->chunks * share_unheld(figures),
                     "never_held_share", share_unheld(figures), "exact", (int)figures->bound.exact);
}

/* tarry plan: an assignment's figures. */

typedef struct plan_command_options {
    run_options run;
    tarry_server_settings server; /* with what --keep comes to */
    uint64_t dimension;           /* d */
    tarry_matrix square;          /* --compress powersgd: what stands for its matrices */
    uint32_t colluders;           /* T; 0: they are not asked for */
    bool json;
    bool show;
} plan_command_options;

/* What is worked out of a plan beside its own figures. */
typedef struct plan_figures {
    plan_endurance endurance;
    plan_exposure exposure;
} plan_figures;

static const option_entry print_entries[] = {
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a gradient, for memory and upload (default 1e6)",
     .kind = OPTION_U64,
     .offset = offsetof(plan_command_options, dimension),
     .least = 1,
     .most = 100000000000},
    {.name = "secure-colluders",
     .argument = "T",
     .help = "Print how much of the data no T workers ever hold, whoever they are",
     .kind = OPTION_U32,
     .offset = offsetof(plan_command_options, colluders),
     .least = 1,
     .most = UINT32_MAX},
    {.name = "json",
     .help = "Print the figures as JSON",
     .kind = OPTION_FLAG,
     .offset = offsetof(plan_command_options, json)},
    {.name = "show",
     .help = "Print the assignment too, as --design file:PATH reads it",
     .kind = OPTION_FLAG,
     .offset = offsetof(plan_command_options, show)},
};

/* Per worker and round. */
static uint64_t upload_bytes(const tarry_plan *plan, uint64_t dimension)
{
    uint32_t parts = tarry_plan_parts(plan);
    return (dimension + parts - 1) / parts * sizeof(float);
}

typedef uint32_t plan_count(const tarry_plan *plan, uint32_t index);

static void print_spread(const char *start, const char *name, const tarry_plan *plan,
                         plan_count *count_of, uint32_t count)
{
    uint32_t least = UINT32_MAX, most = 0;
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = count_of(plan, i);
        least = value < least ? value : least;
        most = value > most ? value : most;
        sum += value;
    }
    printf("%s%-21s least %u, mean %.4g, most %u\n", start, name, least, sum / count, most);
}

static void print_bytes(const char *start, const char *name, uint64_t least, uint64_t most,
                        const char *more, uint64_t total)
{
    char low[NUMBER_TEXT_SIZE], high[NUMBER_TEXT_SIZE], all[NUMBER_TEXT_SIZE];
    bytes_text((double)least, low);
    bytes_text((double)most, high);
    bytes_text((double)total, all);
    if (least == most)
        printf("%s%-21s %s%s, %s in all\n", start, name, high, more, all);
    else
        printf("%s%-21s %s to %s%s, %s in all\n", start, name, low, high, more, all);
}

static const char *copies_word(uint32_t count)
{
    return count == 1 ? "copy" : "copies";
}

/* How copies are over_racks over racks, and whether any single one may die. */
static void print_racks(const char *start, const tarry_plan_settings *settings,
                        const tarry_plan *plan)
{
    uint32_t racks = tarry_plan_racks(plan), needed = tarry_plan_parts(plan);
    tarry_rack_spread over_racks = tarry_plan_rack_spread(plan);
    if (racks == 0)
        return;
    printf("%s%-21s %u, of %u", start, "racks", racks, over_racks.least);
    if (over_racks.most > over_racks.least)
        printf(" to %u", over_racks.most);
    /* A random design puts two into one rack for no other reason. */
    bool few = over_racks.most_together > 1 && settings->design == TARRY_DESIGN_RANDOM;
    printf(" worker%s; at most %u %s of a chunk in one%s\n", over_racks.most == 1 ? "" : "s",
           over_racks.most_together, copies_word(over_racks.most_together),
           few ? ", as there are fewer racks than copies" : "");
    printf("%s%-21s %s: each chunk keeps %u %s, and needs %u\n", start, "any single rack",
           over_racks.left >= needed ? "may die" : "may not die", over_racks.left,
           copies_word(over_racks.left), needed);
}

static void print_text(const plan_command_options *options, const tarry_plan *plan,
                       const plan_figures *figures)
{
    /* With --show the figures are comments of a design's file. */
    const char *start = options->show ? "# " : "";
    const tarry_plan_settings *settings = &options->run.settings.plan;
    uint32_t parts = tarry_plan_parts(plan), workers = tarry_plan_workers(plan);
    char number[NUMBER_TEXT_SIZE], bound[NUMBER_TEXT_SIZE], name[24];
    printf("%s%-21s %u\n", start, "workers", workers);
    if (settings->pieces > 1)
        printf("%s%-21s %u: %u cut into %u pieces each\n", start, "chunks", tarry_plan_chunks(plan),
               settings->chunks, settings->pieces);
    else
        printf("%s%-21s %u\n", start, "chunks", tarry_plan_chunks(plan));
    printf("%s%-21s %s, seed %" PRIu64 "\n", start, "design", options->run.design, settings->seed);
    print_spread(start, "chunks per worker", plan, tarry_plan_load, workers);
    print_spread(start, "workers per chunk", plan, tarry_plan_replication, tarry_plan_chunks(plan));
    printf("%s%-21s %u\n", start, "parts", parts);
    print_racks(start, settings, plan);
    whole_text(tarry_plan_q(plan, parts), number);
    whole_text(tarry_plan_q_bound(plan, parts), bound);
    snprintf(name, sizeof(name), "Q_%u", parts);
    printf("%s%-21s %s chunks at worst (no order below %s)\n", start, name, number, bound);
    tarry_conditioning conditioning = tarry_plan_conditioning(plan);
    whole_text(conditioning.subsets, number);
    if (parts == 1)
        printf("%s%-21s perfect with one part\n", start, "conditioning");
    else
        printf("%s%-21s worst %.4g, median %.4g, over %s %s of %u workers\n", start, "conditioning",
               conditioning.worst, conditioning.median, number,
               conditioning.complete ? "subsets" : "sampled subsets", parts);
    plan_endurance_print(&figures->endurance, start);
    if (options->colluders > 0)
        plan_exposure_print(&figures->exposure, start);
    tarry_memory memory = tarry_memory_of(plan, &options->server, options->dimension);
    uint64_t upload = upload_bytes(plan, options->dimension);
    print_bytes(start, "memory per worker", memory.least, memory.most, "", memory.total);
    print_bytes(start, "upload per worker", upload, upload, " per round", upload * workers);
    char digest[2 * TARRY_DIGEST_SIZE + 1];
    plan_digest_text(plan, digest);
    printf("%s%-21s %s\n", start, "digest", digest);
    for (uint32_t worker = 0; options->show && worker < workers; worker++) {
        for (uint32_t position = 0; position < tarry_plan_load(plan, worker); position++)
            printf("%s%u", position > 0 ? " " : "", tarry_plan_chunk(plan, worker, position));
        printf(tarry_plan_load(plan, worker) == 0 ? "-\n" : "\n");
    }
}

static json_t *assignment_json(const tarry_plan *plan)
{
    json_t *workers = json_array();
    for (uint32_t worker = 0; workers != NULL && worker < tarry_plan_workers(plan); worker++) {
        json_t *chunks = json_array();
        for (uint32_t position = 0; position < tarry_plan_load(plan, worker); position++)
            chunks = json_append(chunks, json_integer(tarry_plan_chunk(plan, worker, position)));
        workers = json_append(workers, chunks);
    }
    return workers;
}

/* Q_l for every l that the plan allows. */
static json_t *q_json(const tarry_plan *plan)
{
    uint32_t most = UINT32_MAX;
    for (uint32_t chunk = 0; chunk < tarry_plan_chunks(plan); chunk++) {
        uint32_t replication = tarry_plan_replication(plan, chunk);
        most = replication < most ? replication : most;
    }
    json_t *list = json_array();
    for (uint32_t copies = 1; list != NULL && copies <= most; copies++) {
        json_t *entry = json_pack("{s:I, s:I, s:I}", "copies", (json_int_t)copies, "q",
                                  (json_int_t)tarry_plan_q(plan, copies), "q_bound",
                                  (json_int_t)tarry_plan_q_bound(plan, copies));
        list = json_append(list, entry);
    }
    return list;
}

static int print_json(const plan_command_options *options, const tarry_plan *plan,
                      const plan_figures *figures)
{
    uint64_t upload = upload_bytes(plan, options->dimension);
    json_t *report = json_pack("{s:s, s:s, s:I}", "command", "plan", "version", tarry_version(),
                               "dimension", (json_int_t)options->dimension);
    json_t *plain = run_plan_json(&options->run, plan);
    json_t *memory = run_memory_json(plan, &options->server, options->dimension);
    json_t *costs =
        json_pack("{s:I, s:I, s:o}", "upload_bytes", (json_int_t)upload, "upload_bytes_total",
                  (json_int_t)(upload * tarry_plan_workers(plan)), "q_by_copies", q_json(plan));
    json_t *deaths = plan_endurance_json(&figures->endurance);
    int failed = json_object_update(report, plain) | json_object_update(report, memory) |
                 json_object_update(report, costs) | json_object_update(report, deaths);
    if (options->colluders > 0)
        failed |= json_object_set_new(report, "secure", plan_exposure_json(&figures->exposure));
    if (options->show)
        failed |= json_object_set_new(report, "assignment", assignment_json(plan));
    failed |= json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    printf("\n");
    json_decref(deaths);
    json_decref(costs);
    json_decref(memory);
    json_decref(plain);
    json_decref(report);
    return failed == 0 ? EXIT_DONE : complain(EXIT_FAILED, "plan: the report cannot be made");
}

/* Whether the other job of this command is asked for, which has options of its own. */
static bool asks_for_advice(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--advise") == 0)
            return true;
    return false;
}

int command_plan(int argc, char **argv)
{
    if (asks_for_advice(argc, argv))
        return command_plan_advise(argc, argv);
    plan_command_options options = {.dimension = 1000000};
    run_options *run = &options.run;
    run_options_init(run);
    option_group groups[RUN_GROUPS + 1];
    run_options_groups(run, groups);
    groups[RUN_GROUPS] = OPTION_GROUP("What is printed", print_entries, &options);
    const option_command command = {
        "plan",
        "Prints an assignment's figures: loads, replication, how many chunks it may take "
        "(Q_l), conditioning, deaths survived, memory and upload per worker. With --advise, "
        "recommends replication, "
        "pieces and parts instead (tarry plan --advise --help).",
        groups, sizeof(groups) / sizeof(groups[0])};
    config_file *file;
    tarry_plan *plan = NULL;
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = run_options_settle(run);
    if (status == OPTIONS_PROCEED)
        status = run_options_plan(run, &plan);
    if (status == OPTIONS_PROCEED)
        options.server = run_options_server(run, options.dimension);
    if (options.server.compress == TARRY_COMPRESS_POWERSGD) { /* only the length is known */
        options.square = lowrank_square(options.dimension);
        options.server.compress_matrices = &options.square;
        options.server.compress_matrix_count = 1;
    }
    plan_figures figures;
    if (status == OPTIONS_PROCEED &&
        (plan_endurance_measure(plan, run->settings.plan.seed, &figures.endurance) != TARRY_OK ||
         plan_exposure_measure(plan, options.colluders, &figures.exposure) != TARRY_OK))
        status = complain(EXIT_FAILED, "plan: out of memory");
    if (status == OPTIONS_PROCEED) {
        status = EXIT_DONE;
        if (options.json)
            status = print_json(&options, plan, &figures);
        else
            print_text(&options, plan, &figures);
    }
    tarry_plan_free(plan);
    config_free(file);
    return status;
}
