/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/advise_options.h"

#include <math.h>

#include "base/memory.h"
#include "cli/checkpoint/past_report.h"
#include "cli/simulate/simulate_options.h"
#include "cli/text/complain.h"

#define FIELD(name) .offset = offsetof(advise_options, name)

static int read_replication(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    advise_options *options = values;
    return list_whole(text, 1, SIMULATE_MOST_COUNT, &options->world.defaults.replications,
                      diagnostic);
}

static int read_pieces(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    advise_options *options = values;
    return list_whole(text, 1, SIMULATE_MOST_COUNT, &options->world.defaults.piece_counts,
                      diagnostic);
}

static int read_parts(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    advise_options *options = values;
    return list_whole(text, 1, SIMULATE_MOST_COUNT, &options->world.defaults.part_counts,
                      diagnostic);
}

/* What differs from tarry simulate, of whose options these are: mostly the defaults. */
static const option_words words[] = {
    {"straggler",
     "What a chunk takes, and who is slow or dies, as for tarry simulate; with the report "
     "of a training, besides what that measured"},
    {"workers", "Workers (default: the report's, or 8)"},
    {"chunks", "Shares of the data before they are cut into pieces (default: the report's, or as "
               "many as workers)"},
    {"chunk-time", "What a chunk takes if nothing else says it (default: the report's, or 1)"},
    {"overhead", "What each piece takes besides, however small (default: the report's, or 0)"},
    {"chunk-cost", "How chunks differ, as for tarry simulate (default: the report's, or uniform)"},
    {"dimension", "Numbers in a gradient, 4 bytes each (default: the report's, or 1e6)"},
    {"latency",
     "Of a message between the server and a worker, each way (default: the report's, or 0)"},
    {"bandwidth", "Bytes per second of each worker's link, each way (default: the report's, or no "
                  "limit)"},
    {"server-bandwidth",
     "Bytes per second of the server's network card, each way (default: the report's, or "
     "no limit)"},
    {"rounds", "Rounds of each trial; the time is that of the second half of them, when the server "
               "has learned the workers' speeds (default 6)"},
    {"quiet", "Print no progress"},
    {NULL, NULL},
};

static const option_entry report_entries[] = {
    {.name = "advise",
     .help = "Recommend replication, pieces and parts instead of printing a plan's figures",
     .kind = OPTION_FLAG,
     FIELD(advise)},
    {.name = "from",
     .argument = "REPORT.json",
     .help = "Take what is not given here from the report of an earlier tarry train or simulate",
     .kind = OPTION_TEXT,
     FIELD(from)},
};

static const option_entry memory_entries[] = {
    {.name = "memory",
     .argument = "BYTES",
     .help = "Most memory of a worker for gradients (default: no limit)",
     .kind = OPTION_U64,
     .least = 1,
     .most = INT64_MAX,
     FIELD(memory)},
};

static const option_choice keeps[] = {
    {"all", TARRY_KEEP_ALL},
    {"credited", TARRY_KEEP_CREDITED},
    {"both", ADVISE_KEEP_BOTH},
    {NULL, 0},
};

static const option_entry choice_entries[] = {
    {.name = "keep",
     .argument = "WHICH",
     .help = "Finished gradients that a worker keeps until the sum: all, with one part credited, "
             "or choices of both (default)",
     .kind = OPTION_CHOICE,
     .choices = keeps,
     FIELD(keep)},
    {.name = "replication",
     .argument = "R,R...",
     .help = "Workers that hold each chunk (default: 1,2,3,4,6,8)",
     .kind = OPTION_TEXT,
     .read = read_replication,
     FIELD(replication)},
    {.name = "pieces",
     .argument = "P,P...",
     .help = "Pieces that each chunk is cut into (default 1,2,4,8,16,32)",
     .kind = OPTION_TEXT,
     .read = read_pieces,
     FIELD(pieces)},
    {.name = "parts",
     .argument = "L,L...",
     .help = "Parts that a gradient is cut into, at most the replication (default 1,2,3,4; 1 where "
             "no bandwidth is limited)",
     .kind = OPTION_TEXT,
     .read = read_parts,
     FIELD(parts)},
};

static const option_entry output_entries[] = {
    {.name = "trials",
     .argument = "N",
     .help = "Trials of each choice, all choices with the same draws (default: 2 for 100 "
             "workers or more, 4 for 25 or more, or else 16)",
     .kind = OPTION_U64,
     .least = 1,
     .most = 100000,
     FIELD(world.trials)},
    {.name = "json", .help = "Print the advice as JSON", .kind = OPTION_FLAG, FIELD(json)},
    {.name = "all",
     .help = "Print all choices, not only the best",
     .kind = OPTION_FLAG,
     FIELD(all)},
};

void advise_options_init(advise_options *options)
{
    *options = (advise_options){
        .replication = "1,2,3,4,6,8",
        .pieces = "1,2,4,8,16,32",
        .keep = ADVISE_KEEP_BOTH,
    };
    candidate_options_init(&options->candidates);
    simulate_options *world = &options->world;
    simulate_options_init(world);
    world->command = "plan";
    world->defaults.replications = (whole_list){6, {1, 2, 3, 4, 6, 8}};
    world->defaults.piece_counts = (whole_list){6, {1, 2, 4, 8, 16, 32}};
    world->straggler = world->chunk_cost = NULL;
    world->chunk_seconds = world->overhead = NAN;
    world->latency = world->bandwidth = world->server_bandwidth = NAN;
    world->workers = world->chunks = 0;
    world->dimension = world->trials = 0;
    world->parameter_bytes = 0; /* every choice takes the same to hand them out */
    world->rounds = 6;
    world->no_bounds = true;
}

void advise_options_groups(advise_options *options, option_group groups[ADVISE_GROUPS])
{
    option_group world[SIMULATE_WORLD_GROUPS];
    simulate_world_groups(&options->world, words, world);
    groups[0] = world[0];
    groups[1] = OPTION_GROUP(NULL, report_entries, options);
    groups[2] = world[1];
    groups[2].title = "Gradients, links and memory";
    groups[3] = OPTION_GROUP(NULL, memory_entries, options);
    groups[4] = OPTION_GROUP("Choices", choice_entries, options);
    groups[5] = candidate_options_group(&options->candidates);
    groups[6] = world[2];
    groups[7] = OPTION_GROUP(NULL, output_entries, options);
}

static double either(double given, double reported, double otherwise)
{
    return !isnan(given) ? given : !isnan(reported) ? reported : otherwise;
}

/*
 * What each of the workers takes for a chunk. Where there are more workers than the report has, its
 * workers come again; where there are other numbers of chunks, these are larger or smaller.
 */
static int take_seconds(advise_options *options, const past_report *report)
{
    simulate_options *world = &options->world;
    const double scale = (double)report->chunks / world->chunks;
    options->worker_seconds =
        memory_allocate(NULL, world->workers, sizeof(*options->worker_seconds));
    if (options->worker_seconds == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    for (uint32_t worker = 0; worker < world->workers; worker++) {
        uint32_t like = worker % report->workers;
        double seconds = report->seconds[like] - world->overhead;
        if (seconds < 0)
            return complain(EXIT_USAGE,
                            "--overhead: %.3g s is more than the %.3g s that worker %u took for a "
                            "%s in %s",
                            world->overhead, report->seconds[like], like,
                            report->pieces > 1 ? "piece" : "chunk", options->from);
        options->worker_seconds[worker] = seconds * report->pieces * scale;
    }
    world->worker_seconds = options->worker_seconds;
    return OPTIONS_PROCEED;
}

static void settle_defaults(advise_options *options)
{
    simulate_options *world = &options->world;
    if (world->trials == 0) /* the more workers, the less chance has to say */
        world->trials = world->workers >= 100 ? 2 : world->workers >= 25 ? 4 : 16;
    if (world->jobs == 0)
        world->jobs = simulate_usual_jobs();
    if (options->parts != NULL)
        return;
    bool limited = isfinite(world->bandwidth) || isfinite(world->server_bandwidth);
    options->parts = limited ? "1,2,3,4" : "1";
    world->defaults.part_counts = (whole_list){limited ? 4 : 1, {1, 2, 3, 4}};
}

/* The report's values, or the defaults, in place of what was not given. */
static int merge(advise_options *options, past_report *report)
{
    simulate_options *world = &options->world;
    if (world->workers == 0)
        world->workers = report->workers > 0 ? report->workers : 8;
    if (world->chunks == 0)
        world->chunks = report->chunks > 0 ? report->chunks : world->workers;
    if (world->dimension == 0)
        world->dimension = report->dimension > 0 ? report->dimension : 1000000;
    world->chunk_seconds = either(world->chunk_seconds, report->chunk_seconds, 1);
    world->overhead = either(world->overhead, report->overhead, 0);
    world->latency = either(world->latency, report->latency, 0);
    /* A limit of a worker's link may be what the time after the signal was due to. */
    bool measured = report->seconds != NULL && !isnan(world->bandwidth);
    world->server_bandwidth =
        either(world->server_bandwidth, measured ? INFINITY : report->server_bandwidth, INFINITY);
    world->bandwidth = either(world->bandwidth, report->bandwidth, INFINITY);
    options->report_straggler = report->straggler;
    options->report_chunk_cost = report->chunk_cost;
    report->straggler = report->chunk_cost = NULL;
    if (world->straggler == NULL)
        world->straggler = options->report_straggler != NULL ? options->report_straggler : "none";
    if (world->chunk_cost == NULL)
        world->chunk_cost =
            options->report_chunk_cost != NULL ? options->report_chunk_cost : "uniform";
    settle_defaults(options);
    /* Whoever waits for the uploads of all others is not lost. */
    double bytes = (double)world->dimension * sizeof(float);
    world->silence += 2 * world->latency + 2 * bytes / world->bandwidth +
                      2 * bytes * world->workers / world->server_bandwidth;
    return report->seconds != NULL ? take_seconds(options, report) : OPTIONS_PROCEED;
}

int advise_options_settle(advise_options *options)
{
    int given = candidate_options_check(&options->candidates);
    if (given != OPTIONS_PROCEED)
        return given;
    if (options->from == NULL && options->world.straggler == NULL)
        return complain(EXIT_USAGE, "--advise: needs --straggler or --from");
    past_report report;
    tarry_diagnostic why;
    if (past_report_read(options->from, &report, &why) != TARRY_OK)
        return complain(EXIT_FAILED, "--from: %s", why.text);
    int status = merge(options, &report);
    past_report_free(&report);
    return status;
}

void advise_options_release(advise_options *options)
{
    memory_release(NULL, options->report_straggler);
    memory_release(NULL, options->report_chunk_cost);
    memory_release(NULL, options->worker_seconds);
}
