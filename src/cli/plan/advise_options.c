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
    return list_whole(text, 1, SIMULATE_MOST_COUNT, &options->replications, diagnostic);
}

static int read_pieces(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    advise_options *options = values;
    return list_whole(text, 1, SIMULATE_MOST_COUNT, &options->piece_counts, diagnostic);
}

static int read_parts(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    advise_options *options = values;
    return list_whole(text, 1, SIMULATE_MOST_COUNT, &options->part_counts, diagnostic);
}

static const option_entry cluster_entries[] = {
    {.name = "advise",
     .help = "Recommend replication, pieces and parts instead of printing a plan's figures",
     .kind = OPTION_FLAG,
     FIELD(advise)},
    {.name = "straggler",
     .argument = "SPEC",
     .help = "What a chunk takes, and who is slow or dies, as for tarry simulate; with the report "
             "of a training, besides what that measured",
     .kind = OPTION_TEXT,
     FIELD(straggler)},
    {.name = "from",
     .argument = "REPORT.json",
     .help = "Take what is not given here from the report of an earlier tarry train or simulate",
     .kind = OPTION_TEXT,
     FIELD(from)},
    {.name = "workers",
     .argument = "M",
     .help = "Workers (default: the report's, or 8)",
     .kind = OPTION_U32,
     .least = 1,
     .most = SIMULATE_MOST_COUNT,
     FIELD(workers)},
    {.name = "chunks",
     .argument = "N",
     .help = "Shares of the data before they are cut into pieces (default: the report's, or as "
             "many as workers)",
     .kind = OPTION_U32,
     .least = 1,
     .most = SIMULATE_MOST_COUNT,
     FIELD(chunks)},
    {.name = "chunk-time",
     .argument = "SECONDS",
     .help = "What a chunk takes if nothing else says it (default: the report's, or 1)",
     .kind = OPTION_REAL,
     .high = SIMULATE_MOST_SECONDS,
     .open = true,
     FIELD(chunk_seconds)},
    {.name = "overhead",
     .argument = "SECONDS",
     .help = "What each piece takes besides, however small (default: the report's, or 0)",
     .kind = OPTION_REAL,
     .high = SIMULATE_MOST_SECONDS,
     FIELD(overhead)},
    {.name = "chunk-cost",
     .argument = "SPEC",
     .help = "How chunks differ, as for tarry simulate (default: the report's, or uniform)",
     .kind = OPTION_TEXT,
     FIELD(chunk_cost)},
};

static const option_entry cost_entries[] = {
    {.name = "dimension",
     .argument = "D",
     .help = "Numbers in a gradient, 4 bytes each (default: the report's, or 1e6)",
     .kind = OPTION_U64,
     .least = 1,
     .most = 100000000000,
     FIELD(dimension)},
    {.name = "latency",
     .argument = "SECONDS",
     .help = "Of a message between the server and a worker, each way (default: the report's, or 0)",
     .kind = OPTION_REAL,
     .high = SIMULATE_MOST_SECONDS,
     FIELD(latency)},
    {.name = "bandwidth",
     .argument = "B",
     .help = "Bytes per second of each worker's link, each way (default: the report's, or no "
             "limit)",
     .kind = OPTION_REAL,
     .high = 1e18,
     .open = true,
     FIELD(bandwidth)},
    {.name = "server-bandwidth",
     .argument = "B",
     .help = "Bytes per second of the server's network card, each way (default: the report's, or "
             "no limit)",
     .kind = OPTION_REAL,
     .high = 1e18,
     .open = true,
     FIELD(server_bandwidth)},
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

static const option_entry run_entries[] = {
    {.name = "trials",
     .argument = "N",
     .help = "Trials of each choice, all choices with the same draws (default: 2 for 100 "
             "workers or more, 4 for 25 or more, or else 16)",
     .kind = OPTION_U64,
     .least = 1,
     .most = 100000,
     FIELD(trials)},
    {.name = "rounds",
     .argument = "R",
     .help = "Rounds of each trial; the time is that of the second half of them, when the server "
             "has learned the workers' speeds (default 6)",
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
    {.name = "json", .help = "Print the advice as JSON", .kind = OPTION_FLAG, FIELD(json)},
    {.name = "all",
     .help = "Print all choices, not only the best",
     .kind = OPTION_FLAG,
     FIELD(all)},
    {.name = "quiet", .help = "Print no progress", .kind = OPTION_FLAG, FIELD(quiet)},
};

#define COUNT(entries) (sizeof(entries) / sizeof((entries)[0]))

void advise_options_init(advise_options *options)
{
    *options = (advise_options){
        .chunk_seconds = NAN,
        .overhead = NAN,
        .latency = NAN,
        .bandwidth = NAN,
        .server_bandwidth = NAN,
        .replication = "1,2,3,4,6,8",
        .replications = {6, {1, 2, 3, 4, 6, 8}},
        .pieces = "1,2,4,8,16,32",
        .piece_counts = {6, {1, 2, 4, 8, 16, 32}},
        .keep = ADVISE_KEEP_BOTH,
        .rounds = 6,
        .seed = 1,
    };
}

void advise_options_groups(advise_options *options, option_group groups[ADVISE_GROUPS])
{
    groups[0] = (option_group){"Workers and chunks", cluster_entries, COUNT(cluster_entries),
                               options, NULL};
    groups[1] = (option_group){"Gradients, links and memory", cost_entries, COUNT(cost_entries),
                               options, NULL};
    groups[2] = (option_group){"Choices", choice_entries, COUNT(choice_entries), options, NULL};
    groups[3] = (option_group){"Trials and output", run_entries, COUNT(run_entries), options, NULL};
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
    const double scale = (double)report->chunks / options->chunks;
    options->worker_seconds =
        memory_allocate(NULL, options->workers, sizeof(*options->worker_seconds));
    if (options->worker_seconds == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    for (uint32_t worker = 0; worker < options->workers; worker++) {
        uint32_t like = worker % report->workers;
        double seconds = report->seconds[like] - options->overhead;
        if (seconds < 0)
            return complain(EXIT_USAGE,
                            "--overhead: %.3g s is more than the %.3g s that worker %u took for a "
                            "%s in %s",
                            options->overhead, report->seconds[like], like,
                            report->pieces > 1 ? "piece" : "chunk", options->from);
        options->worker_seconds[worker] = seconds * report->pieces * scale;
    }
    return OPTIONS_PROCEED;
}

static void settle_defaults(advise_options *options)
{
    if (options->trials == 0) /* the more workers, the less chance has to say */
        options->trials = options->workers >= 100 ? 2 : options->workers >= 25 ? 4 : 16;
    if (options->jobs == 0)
        options->jobs = simulate_usual_jobs();
    if (options->parts != NULL)
        return;
    bool limited = isfinite(options->bandwidth) || isfinite(options->server_bandwidth);
    options->parts = limited ? "1,2,3,4" : "1";
    options->part_counts = (whole_list){limited ? 4 : 1, {1, 2, 3, 4}};
}

/* The report's values, or the defaults, in place of what was not given. */
static int merge(advise_options *options, past_report *report)
{
    if (options->workers == 0)
        options->workers = report->workers > 0 ? report->workers : 8;
    if (options->chunks == 0)
        options->chunks = report->chunks > 0 ? report->chunks : options->workers;
    if (options->dimension == 0)
        options->dimension = report->dimension > 0 ? report->dimension : 1000000;
    options->chunk_seconds = either(options->chunk_seconds, report->chunk_seconds, 1);
    options->overhead = either(options->overhead, report->overhead, 0);
    options->latency = either(options->latency, report->latency, 0);
    /* A limit of a worker's link may be what the time after the signal was due to. */
    bool measured = report->seconds != NULL && !isnan(options->bandwidth);
    options->server_bandwidth =
        either(options->server_bandwidth, measured ? INFINITY : report->server_bandwidth, INFINITY);
    options->bandwidth = either(options->bandwidth, report->bandwidth, INFINITY);
    options->report_straggler = report->straggler;
    options->report_chunk_cost = report->chunk_cost;
    report->straggler = report->chunk_cost = NULL;
    if (options->straggler == NULL)
        options->straggler = options->report_straggler != NULL ? options->report_straggler : "none";
    if (options->chunk_cost == NULL)
        options->chunk_cost =
            options->report_chunk_cost != NULL ? options->report_chunk_cost : "uniform";
    settle_defaults(options);
    return report->seconds != NULL ? take_seconds(options, report) : OPTIONS_PROCEED;
}

int advise_options_settle(advise_options *options)
{
    if (options->from == NULL && options->straggler == NULL)
        return complain(EXIT_USAGE, "--advise: needs --straggler or --from");
    past_report report = {
        .server_bandwidth = NAN,
        .bandwidth = NAN,
        .latency = NAN,
        .chunk_seconds = NAN,
        .overhead = NAN,
    };
    tarry_diagnostic why;
    if (options->from != NULL && past_report_read(options->from, &report, &why) != TARRY_OK)
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
