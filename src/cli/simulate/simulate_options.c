/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate_options.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/diagnostic.h"
#include "cli/output/gnuplot.h"
#include "cli/text/complain.h"

#define MOST_DIMENSION 100000000000

static int read_deadlines(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    simulate_options *options = values;
    return list_ascending(text, SIMULATE_MOST_SECONDS, &options->deadlines, diagnostic);
}

static int read_slow_links(const char *text, void *values, tarry_diagnostic *diagnostic)
{
    simulate_options *options = values;
    return slow_links_read(text, &options->thin, diagnostic);
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
    {.name = "up-bandwidth",
     .argument = "B",
     .help = "Bytes per second away from each worker, where they differ from those to it "
             "(default: --bandwidth)",
     .kind = OPTION_REAL,
     .high = 1e18,
     .open = true,
     FIELD(up_bandwidth)},
    {.name = "slow-links",
     .argument = "K,FACTOR",
     .help = "K workers, drawn anew in each trial, whose links carry FACTOR times less (default "
             "none)",
     .kind = OPTION_TEXT,
     .read = read_slow_links,
     FIELD(slow_links)},
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
    {.name = "log-time",
     .argument = "SECONDS",
     .help = "Where everyone gets the sum: until an entry of the server's log is durable (default "
             "0)",
     .kind = OPTION_REAL,
     .high = SIMULATE_MOST_SECONDS,
     FIELD(log)},
    {.name = "vectors",
     .argument = "D",
     .help = "Let real gradients of D numbers flow, and compare each sum with the true one",
     .kind = OPTION_U64,
     .least = 1,
     .most = 100000000,
     FIELD(vectors)},
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
    {.name = "plot",
     .argument = "FILE",
     .help = "Draw times, and errors over the deadline, to FILE.svg or FILE.png",
     .kind = OPTION_TEXT,
     FIELD(plot)},
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
        .rounds = options->rounds,
        .seed = options->seed,
        .last_deadline = deadlines->count > 0 ? deadlines->values[deadlines->count - 1] : NAN,
    };
    tarry_sim_settings *sim = &frame.sim;
    tarry_sim_settings_init(sim);
    sim->server.silence_ns = (uint64_t)ceil(options->silence * 1e9);
    sim->log_ns = (uint64_t)ceil(options->log * 1e9);
    sim->chunk_ns = (uint64_t)ceil(options->chunk_seconds * 1e9);
    sim->overhead_ns = (uint64_t)ceil(options->overhead * 1e9);
    sim->dimension = (size_t)options->dimension;
    sim->parameter_bytes = (size_t)options->parameter_bytes;
    sim->link.latency_ns = (uint64_t)llround(options->latency * 1e9);
    sim->link.message_ns = (uint64_t)llround(options->message_time * 1e9);
    sim->link.jitter_ns = (uint64_t)llround(options->waits.mean * 1e9);
    sim->link.jitter_spread = options->waits.spread;
    sim->link.bytes_per_second = options->bandwidth;
    sim->link.up_bytes_per_second = options->up_bandwidth;
    sim->server_bytes_per_second = options->server_bandwidth;
    sim->card_shared = options->card_shared != 0;
    sim->vectors = options->vectors != 0;
    return frame;
}

/* Workers that were left open are as many as what was given takes. */
static void fit_workers(simulate_options *options)
{
    const scheme_settings *defaults = &options->defaults;
    const whole_list *lists[] = {&defaults->replications, &defaults->part_counts};
    for (size_t i = 0; !options->workers_given && i < sizeof(lists) / sizeof(lists[0]); i++)
        for (size_t k = 0; k < lists[i]->count; k++)
            if (lists[i]->values[k] > options->workers)
                options->workers = lists[i]->values[k];
}

uint32_t simulate_usual_jobs(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > SIMULATE_MOST_JOBS ? SIMULATE_MOST_JOBS : (uint32_t)cores;
}

int simulate_options_check(simulate_options *options, simulate_variants *variants)
{
    if (options->plot != NULL && !gnuplot_draws(options->plot))
        return complain(EXIT_USAGE, "--plot: %s ends neither in .svg nor in .png", options->plot);
    if (options->plot != NULL && options->report != NULL &&
        strcmp(options->plot, options->report) == 0)
        return complain(EXIT_USAGE, "--plot: %s is the file of --report too", options->plot);
    if (options->rounds > 1 && options->deadlines.count > 0)
        return complain(EXIT_USAGE, "--deadline: goes with a single round of each trial only, not "
                                    "with --rounds; a scheme may have a deadline of its own");
    if (options->vectors != 0 && options->dimension != 1 && options->dimension != options->vectors)
        return complain(EXIT_USAGE, "--vectors: differs from --dimension");
    if (options->vectors != 0)
        options->dimension = options->vectors;
    if (options->parameter_bytes == UINT64_MAX)
        options->parameter_bytes = options->dimension * sizeof(float);
    if (options->jobs == 0)
        options->jobs = simulate_usual_jobs();
    fit_workers(options);
    if (options->thin.count > options->workers)
        return complain(EXIT_USAGE, "--slow-links: %u of %u workers", options->thin.count,
                        options->workers);
    if (options->defaults.ignore == UINT32_MAX)
        options->defaults.ignore = scheme_ignored(options->workers);
    const scheme_frame frame = simulate_options_frame(options);
    tarry_diagnostic why;
    int error = simulate_variants_read(options->scheme, &options->defaults, &frame, variants, &why);
    if (error == TARRY_OK)
        return OPTIONS_PROCEED;
    bool usage = error == TARRY_ERROR_FORMAT || error == TARRY_ERROR_ARGUMENT;
    return complain(usage ? EXIT_USAGE : EXIT_FAILED, "%s", why.text);
}
