/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/advise.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/version.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "cli/checkpoint/checkpoint.h"
#include "cli/options/run_options.h"
#include "cli/simulate/simulate_trials.h"
#include "cli/text/complain.h"
#include "cli/text/numbers.h"

#define ADVICE_TIE 1.02 /* times that differ by less are equal */

/* What is judged by. */
typedef double advise_value(const simulate_outcome *outcome);

/* Behind the values of tarry_keep: choices of either. */
enum { ADVISE_KEEP_BOTH = TARRY_KEEP_CREDITED + 1 };

/* The options of tarry plan --advise. */
typedef struct advise_options {
    /* The workers, links and trials, and in its defaults the lists of choices. Until
     * advise_options_settle, 0, NaN and NULL stand for what was not given. */
    simulate_options world;
    bool advise;
    const char *from; /* an earlier run's report; may be NULL */
    uint64_t memory;  /* most bytes per worker; 0: no limit */
    int keep;         /* a tarry_keep, or ADVISE_KEEP_BOTH */
    bool json;
    bool all;

    /* What the report gave; free with advise_options_release. */
    char *report_straggler, *report_chunk_cost;
    double *worker_seconds; /* the world's; NULL: not known */
} advise_options;

#define ADVISE_GROUPS (5 + SIMULATE_WORLD_GROUPS)

typedef struct advice_choice {
    uint32_t replication, pieces, parts;
    tarry_keep keep;
    uint32_t ahead;        /* with credited */
    uint64_t trials;       /* fewer where the choice fell behind in a first look */
    double first_seconds;  /* of the first round, median; NaN if no trial could end */
    double seconds;        /* of the rounds of the second half, median */
    double signal_seconds; /* of the same, from start to signal */
    uint64_t memory_bytes; /* of the worker with the most chunks: gradients that it keeps, and
                              a coded part */
    uint64_t upload_bytes; /* per worker and round: a coded part */
    double control_bytes;  /* of all other messages of a round, both ways, mean */
    double copies;         /* computed per piece, mean */
    size_t failed;         /* trials that could not end, since too many workers were lost */
    bool pareto;           /* no other choice is as good in time, memory and replication, and
                              better in one of them */
} advice_choice;

typedef struct advice {
    size_t count;           /* of the choices that were simulated */
    advice_choice *choices; /* by ascending seconds; those that failed are the last */
    size_t recommended;     /* index of a choice that never failed */
    size_t too_large;       /* choices left out for --memory */
    size_t unpromising;     /* not simulated: others promise more */
    double run_seconds;     /* that the trials took */
} advice;

/* ---- options ---- */

#define FIELD(name) .offset = offsetof(advise_options, name)

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
    {"replication", "Workers that hold each chunk (default: 1,2,3,4,6,8)"},
    {"pieces", "Pieces that each chunk is cut into (default 1,2,4,8,16,32)"},
    {"parts", "Parts that a gradient is cut into, at most the replication (default 1,2,3,4; 1 "
              "where no bandwidth is limited)"},
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

static void advise_options_init(advise_options *options)
{
    *options = (advise_options){.keep = ADVISE_KEEP_BOTH};
    simulate_options *world = &options->world;
    simulate_options_init(world);
    world->command = "plan";
    world->defaults.replication = "1,2,3,4,6,8";
    world->defaults.pieces = "1,2,4,8,16,32";
    world->defaults.parts = NULL;
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

/* The groups of the command's table, with `options` as the place of the values. */
static void advise_options_groups(advise_options *options, option_group groups[ADVISE_GROUPS])
{
    option_group world[SIMULATE_WORLD_GROUPS];
    simulate_world_groups(&options->world, words, world);
    groups[0] = world[0];
    groups[1] = OPTION_GROUP(NULL, report_entries, options);
    groups[2] = world[1];
    groups[2].title = "Gradients, links and memory";
    groups[3] = OPTION_GROUP(NULL, memory_entries, options);
    groups[4] = OPTION_GROUP("Choices", choice_entries, options);
    groups[5] = scheme_cuts_group(&options->world.defaults);
    groups[5].title = NULL;
    groups[5].words = words;
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
    if (world->defaults.parts != NULL)
        return;
    bool limited = isfinite(world->bandwidth) || isfinite(world->server_bandwidth);
    world->defaults.parts = limited ? "1,2,3,4" : "1";
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

/*
 * Reads the report that --from names, and fills in from it, or else with the defaults, whatever was
 * not given. Gives back OPTIONS_PROCEED, or EXIT_USAGE or EXIT_FAILED after a complaint.
 */
static int advise_options_settle(advise_options *options)
{
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

static void advise_options_release(advise_options *options)
{
    memory_release(NULL, options->report_straggler);
    memory_release(NULL, options->report_chunk_cost);
    memory_release(NULL, options->worker_seconds);
}

/* What trials say of a choice. */

static double advise_whole_seconds(const simulate_outcome *outcome)
{
    return outcome->seconds;
}

/* From start to signal. */
static double advise_until_signal(const simulate_outcome *outcome)
{
    return (double)(outcome->result.signal_ns - outcome->result.start_ns) * 1e-9;
}

/* The median over trials and rounds first..last of the variant `index`; NaN where a trial could not
 * end. values: room for that many. */
static double advise_median(const simulate_trials *trials, size_t index, uint32_t first,
                            uint32_t last, advise_value *value, double *values)
{
    size_t count = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++)
        for (uint32_t round = first; round <= last; round++) {
            const simulate_outcome *outcome =
                &simulate_trials_outcomes(trials, trial, index)[round];
            if (isnan(outcome->seconds))
                return NAN;
            values[count++] = value(outcome);
        }
    return quantile_of(values, count, 0.5);
}

/* ---- advise ---- */

#define PROMISING 1.2 /* what took longer in the first look, than the fastest, stays behind */
#define MOST_UNSEEN 5 /* promising choices of each higher number of parts */
#define LOOK_ROUNDS 3 /* of each trial of the first look */

/*
 * Plans of several parts take long to make, and many choices are far from the best. So there is a
 * first look at the choices with the fewest parts, in few rounds; then the promising ones, also
 * those with more parts which could be faster, and those of one part that keep only what is
 * credited, are simulated in all trials.
 */
typedef struct search {
    const advise_options *options;
    simulate_options world;
    simulate_variants variants; /* all that memory allows */
    simulate_variant *chosen;   /* of the stage at hand, room for all */
    advice_choice *choices;     /* by variant */
    bool *wanted;               /* by variant: in the stage at hand */
} search;

/* The random design's loads differ by at most 1. */
static uint64_t most_load(const advise_options *options, const advice_choice *choice)
{
    uint64_t copies = (uint64_t)options->world.chunks * choice->pieces * choice->replication;
    return (copies + options->world.workers - 1) / options->world.workers;
}

static advice_choice choice_of(const advise_options *options, const simulate_variant *variant)
{
    advice_choice choice = {
        .replication = variant->run.settings.plan.replication,
        .pieces = variant->run.settings.plan.pieces,
        .parts = variant->run.settings.plan.parts,
        .keep = variant->run.settings.server.keep,
        .ahead = variant->run.settings.server.ahead,
    };
    choice.upload_bytes =
        (options->world.dimension + choice.parts - 1) / choice.parts * sizeof(float);
    choice.memory_bytes =
        tarry_worker_bytes(most_load(options, &choice), choice.parts, &variant->run.settings.server,
                           options->world.dimension);
    return choice;
}

/* Fills in all choices, of which those that take too much memory are left out. */
static int list_choices(search *it, advice *out)
{
    const advise_options *options = it->options;
    simulate_variants *variants = &it->variants;
    size_t count = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < variants->count; i++) {
        advice_choice choice = choice_of(options, &variants->items[i]);
        least = choice.memory_bytes < least ? choice.memory_bytes : least;
        if (options->memory != 0 && choice.memory_bytes > options->memory)
            continue;
        variants->items[count] = variants->items[i];
        it->choices[count++] = choice;
    }
    out->too_large = variants->count - count;
    variants->count = count;
    if (count > 0)
        return OPTIONS_PROCEED;
    char limit[NUMBER_TEXT_SIZE], needed[NUMBER_TEXT_SIZE];
    bytes_text((double)options->memory, limit);
    bytes_text((double)least, needed);
    return complain(EXIT_FAILED, "--memory: every choice needs more than %s; the least is %s",
                    limit, needed);
}

/* Means over the second half of the rounds, of the trials that could end. */
static void add_up(const simulate_trials *trials, size_t index, advice_choice *choice)
{
    const uint32_t rounds = trials->options->rounds;
    double ended = 0;
    choice->control_bytes = choice->copies = 0;
    choice->failed = 0;
    for (size_t trial = 0; trial < trials->options->trials; trial++) {
        const simulate_outcome *outcomes = simulate_trials_outcomes(trials, trial, index);
        if (isnan(outcomes[0].seconds)) {
            choice->failed++;
            continue;
        }
        for (uint32_t round = rounds / 2; round < rounds; round++) {
            choice->control_bytes += (double)outcomes[round].result.control_bytes;
            choice->copies += (double)outcomes[round].result.copies_computed;
            ended++;
        }
    }
    choice->control_bytes /= ended;
    choice->copies /= ended * trials->options->chunks * choice->pieces;
}

static int take_figures(search *it, const simulate_trials *trials)
{
    const uint32_t rounds = trials->options->rounds;
    size_t count = (size_t)trials->options->trials * rounds, index = 0;
    double *values = memory_allocate(NULL, count, sizeof(*values));
    if (values == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    for (size_t i = 0; i < it->variants.count; i++) {
        if (!it->wanted[i])
            continue;
        advice_choice *choice = &it->choices[i];
        choice->trials = trials->options->trials;
        choice->first_seconds = advise_median(trials, index, 0, 0, advise_whole_seconds, values);
        choice->seconds =
            advise_median(trials, index, rounds / 2, rounds - 1, advise_whole_seconds, values);
        choice->signal_seconds =
            advise_median(trials, index, rounds / 2, rounds - 1, advise_until_signal, values);
        add_up(trials, index++, choice);
    }
    memory_release(NULL, values);
    return OPTIONS_PROCEED;
}

/* Simulates the wanted choices. */
static int run_stage(search *it, uint64_t trials_each, uint32_t rounds, advice *out)
{
    simulate_variants stage = {0, it->chosen, NULL};
    simulate_trials *trials = NULL;
    for (size_t i = 0; i < it->variants.count; i++)
        if (it->wanted[i])
            it->chosen[stage.count++] = it->variants.items[i];
    it->world.trials = trials_each;
    it->world.rounds = rounds;
    int status = simulate_trials_create(&it->world, &stage, &trials);
    if (status != OPTIONS_PROCEED)
        return status;
    status = simulate_trials_run(trials);
    if (status == EXIT_DONE)
        status = take_figures(it, trials);
    out->run_seconds += trials->seconds;
    simulate_trials_free(trials);
    return status;
}

static int compare_costs(const advice_choice *a, const advice_choice *b)
{
    if (a->memory_bytes != b->memory_bytes)
        return a->memory_bytes < b->memory_bytes ? -1 : 1;
    if (a->replication != b->replication)
        return a->replication < b->replication ? -1 : 1;
    if (a->pieces != b->pieces)
        return a->pieces < b->pieces ? -1 : 1;
    return (a->parts > b->parts) - (a->parts < b->parts);
}

static int compare_seconds(const void *left, const void *right)
{
    const advice_choice *a = left, *b = right;
    if (isnan(a->seconds) != isnan(b->seconds))
        return isnan(a->seconds) ? 1 : -1;
    if (a->seconds < b->seconds || a->seconds > b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    return compare_costs(a, b);
}

static bool dominates(const advice_choice *a, const advice_choice *b)
{
    bool as_good = a->seconds <= b->seconds && a->memory_bytes <= b->memory_bytes &&
                   a->replication <= b->replication;
    bool better = a->seconds < b->seconds || a->memory_bytes < b->memory_bytes ||
                  a->replication < b->replication;
    return as_good && better;
}

static void mark_pareto(advice *found)
{
    for (size_t i = 0; i < found->count; i++) {
        advice_choice *choice = &found->choices[i];
        choice->pareto = !isnan(choice->seconds);
        for (size_t k = 0; k < found->count && choice->pareto; k++)
            choice->pareto = !dominates(&found->choices[k], choice);
    }
}

/* The choice with this replication and these pieces that stands for the others in the first look:
 * that of the fewest parts, if it may be one that keeps all. */
static size_t look_of(const search *it, size_t index)
{
    const advice_choice *choice = &it->choices[index], *other = it->choices;
    size_t look = index;
    for (size_t i = 0; i < it->variants.count; i++)
        if (other[i].replication == choice->replication && other[i].pieces == choice->pieces &&
            (other[i].parts < other[look].parts ||
             (other[i].parts == other[look].parts && other[i].keep < other[look].keep)))
            look = i;
    return look;
}

/*
 * What a choice may take at best: with k times the parts of its look, every chunk needs k times the
 * copies, and a worker sends 1/k of the bytes.
 */
static double hope_of(const search *it, size_t index)
{
    size_t look = look_of(it, index);
    double ratio = (double)it->choices[index].parts / it->choices[look].parts;
    double signal = it->choices[look].signal_seconds;
    return ratio * signal + (it->choices[look].seconds - signal) / ratio;
}

/* Of the choices with these parts, which no look was had at, those of the least memory among the
 * ones that may take no more than `seconds`. */
static void want_unseen(search *it, uint32_t parts, double seconds)
{
    for (int taken = 0; taken < MOST_UNSEEN; taken++) {
        size_t least = SIZE_MAX;
        for (size_t i = 0; i < it->variants.count; i++) {
            const advice_choice *choice = &it->choices[i];
            if (choice->parts == parts && choice->trials == 0 && !it->wanted[i] &&
                hope_of(it, i) <= seconds &&
                (least == SIZE_MAX || compare_costs(choice, &it->choices[least]) < 0))
                least = i;
        }
        if (least == SIZE_MAX)
            return;
        it->wanted[least] = true;
    }
}

/* After the first look: what may be the best, and in any case the best that was seen. */
static void want_promising(search *it)
{
    double best = INFINITY, hope = INFINITY;
    for (size_t i = 0; i < it->variants.count; i++) {
        if (it->choices[i].trials > 0)
            best = fmin(best, it->choices[i].seconds);
        else
            hope = fmin(hope, hope_of(it, i));
    }
    double limit = fmin(best, hope) * PROMISING;
    for (size_t i = 0; i < it->variants.count; i++)
        it->wanted[i] = it->choices[i].trials > 0 &&
                        (it->choices[i].seconds <= best || it->choices[i].seconds <= limit);
    const whole_list *parts = &it->options->world.defaults.part_counts;
    for (size_t i = 0; i < parts->count; i++) /* more parts cost memory for nothing but time */
        want_unseen(it, parts->values[i], parts->values[i] == 1 ? limit : fmin(best, limit));
}

static int run_stages(search *it, advice *out)
{
    const advise_options *options = it->options;
    uint64_t look = options->world.trials / 2;
    for (size_t i = 0; i < it->variants.count; i++)
        it->wanted[i] = look_of(it, i) == i;
    int status = run_stage(it, look > 0 ? look : 1, LOOK_ROUNDS, out);
    if (status != OPTIONS_PROCEED)
        return status;
    bool any = false;
    want_promising(it);
    for (size_t i = 0; i < it->variants.count; i++)
        any |= it->wanted[i];
    return any ? run_stage(it, options->world.trials, options->world.rounds, out) : OPTIONS_PROCEED;
}

/* What takes the least time; of the choices within 2% of it the one with the least memory, then
 * replication, pieces and parts; what was simulated in all `trials` goes first. The choices are by
 * ascending seconds, and the first one never failed. */
static size_t advice_best(const advice *found, uint64_t trials)
{
    const advice_choice *choices = found->choices;
    const double enough = choices[0].seconds * ADVICE_TIE;
    size_t best = 0;
    for (size_t i = 0; i < found->count && choices[i].seconds <= enough; i++)
        if (choices[i].trials == trials && compare_costs(&choices[i], &choices[best]) < 0)
            best = i;
    return best;
}

/* Hands over what was simulated, in order, and chooses. */
static int judge(search *it, advice *out)
{
    for (size_t i = 0; i < it->variants.count; i++)
        if (it->choices[i].trials > 0)
            it->choices[out->count++] = it->choices[i];
    out->unpromising = it->variants.count - out->count;
    out->choices = it->choices;
    it->choices = NULL;
    qsort(out->choices, out->count, sizeof(*out->choices), compare_seconds);
    const advice_choice *best = out->choices;
    if (isnan(best->seconds))
        return complain(EXIT_FAILED,
                        "--advise: no choice could end all of its rounds: too many workers are "
                        "lost; try a higher --replication");
    mark_pareto(out);
    out->recommended = advice_best(out, it->options->world.trials);
    return OPTIONS_PROCEED;
}

static int search_create(search *it)
{
    const advise_options *options = it->options;
    const scheme_frame frame = simulate_options_frame(&it->world);
    tarry_diagnostic why;
    it->world.defaults.run.given |= TARRY_SETTING_BIT(TARRY_SETTING_REPLICATION) |
                                    TARRY_SETTING_BIT(TARRY_SETTING_PIECES) |
                                    TARRY_SETTING_BIT(TARRY_SETTING_PARTS);
    bool one_part = false;
    for (size_t i = 0; i < options->world.defaults.part_counts.count; i++)
        one_part |= options->world.defaults.part_counts.values[i] == 1;
    const char *schemes = options->keep == TARRY_KEEP_ALL || !one_part ? "tarry:keep=all"
                          : options->keep == TARRY_KEEP_CREDITED
                              ? "tarry:keep=credited,parts=1"
                              : "tarry:keep=all,tarry:keep=credited,parts=1";
    int error = simulate_variants_read(schemes, &it->world.defaults, &frame, &it->variants, &why);
    if (error != TARRY_OK)
        return complain(error == TARRY_ERROR_FORMAT ? EXIT_USAGE : EXIT_FAILED, "%s", why.text);
    size_t count = it->variants.count;
    it->chosen = memory_allocate(NULL, count, sizeof(*it->chosen));
    it->choices = memory_allocate(NULL, count, sizeof(*it->choices));
    it->wanted = memory_allocate(NULL, count, sizeof(*it->wanted));
    if (it->chosen == NULL || it->choices == NULL || it->wanted == NULL)
        return complain(EXIT_FAILED, "plan: out of memory");
    return OPTIONS_PROCEED;
}

static void advice_free(advice *found)
{
    memory_release(NULL, found->choices);
    *found = (advice){0};
}

/*
 * Runs the search; the caller frees *out with advice_free. Recommended is what takes the least
 * time; of those within 2% of it the one with the least memory, then replication, pieces and parts.
 * Gives back OPTIONS_PROCEED, or the exit status after a complaint.
 */
static int advise(const advise_options *options, advice *out)
{
    search it = {.options = options, .world = options->world};
    advice found = {0};
    int status = search_create(&it);
    if (status == OPTIONS_PROCEED)
        status = list_choices(&it, &found);
    if (status == OPTIONS_PROCEED)
        status = run_stages(&it, &found);
    if (status == OPTIONS_PROCEED)
        status = judge(&it, &found);
    memory_release(NULL, it.wanted);
    memory_release(NULL, it.choices);
    memory_release(NULL, it.chosen);
    simulate_variants_free(&it.variants);
    if (status != OPTIONS_PROCEED)
        advice_free(&found);
    else
        *out = found;
    return status;
}

/* Advice on standard output, as a table or as JSON (docs/reports.md). */

#define MOST_ROWS 12 /* without --all, besides Pareto choices */

/* The options of tarry train for a choice. */
static void advice_options_text(const advise_options *options, const advice_choice *choice,
                                char *text, size_t size)
{
    snprintf(text, size,
             "--workers %u --chunks %u --replication %u --pieces %u --parts %u --order dynamic "
             "--keep %s",
             options->world.workers, options->world.chunks, choice->replication, choice->pieces,
             choice->parts, run_keep_name(choice->keep));
    size_t used = strlen(text);
    if (choice->keep == TARRY_KEEP_CREDITED && choice->ahead != TARRY_USUAL_AHEAD)
        snprintf(text + used, size - used, " --ahead %u", choice->ahead);
}

static void print_row(const advice_choice *choice, bool recommended)
{
    char first[NUMBER_TEXT_SIZE], learned[NUMBER_TEXT_SIZE], memory[NUMBER_TEXT_SIZE],
        upload[NUMBER_TEXT_SIZE], control[NUMBER_TEXT_SIZE] = "-";
    seconds_text(choice->seconds, learned);
    seconds_text(choice->first_seconds, first);
    bytes_text((double)choice->memory_bytes, memory);
    bytes_text((double)choice->upload_bytes, upload);
    if (isfinite(choice->control_bytes))
        bytes_text(choice->control_bytes, control);
    printf("%c%c %2u %3u %2u %-8s %9s %9s %8s %8s %8s", recommended ? '>' : ' ',
           choice->pareto ? '*' : ' ', choice->replication, choice->pieces, choice->parts,
           run_keep_name(choice->keep), learned, first, memory, upload, control);
    if (isfinite(choice->copies))
        printf(" %7.2f %6" PRIu64 " %6zu\n", choice->copies, choice->trials, choice->failed);
    else
        printf(" %7s %6" PRIu64 " %6zu\n", "-", choice->trials, choice->failed);
}

/* The line on what was simulated, with which tables begin. */
static void advice_print_head(const advise_options *options, const advice *found)
{
    char time[NUMBER_TEXT_SIZE];
    seconds_text(found->run_seconds, time);
    printf("%zu choices in %s: %u workers, %u chunks, ", found->count, time, options->world.workers,
           options->world.chunks);
    if (options->worker_seconds != NULL)
        printf("speeds of %s, ", options->from);
    printf("straggler %s, seed %" PRIu64 "\n", options->world.straggler, options->world.seed);
    if (found->too_large > 0)
        printf("%zu choices need more memory than --memory allows\n", found->too_large);
    if (found->unpromising > 0)
        printf("%zu choices promise less than others and were left out\n", found->unpromising);
}

static void advice_print_table(const advise_options *options, const advice *found)
{
    advice_print_head(options, found);
    printf("\n    r   P  l keep         round     first   memory   upload  control  copies trials "
           "failed\n");
    size_t hidden = 0;
    for (size_t i = 0; i < found->count; i++) {
        const advice_choice *choice = &found->choices[i];
        bool recommended = i == found->recommended;
        if (options->all || recommended || choice->pareto || i < MOST_ROWS)
            print_row(choice, recommended);
        else
            hidden++;
    }
    if (hidden > 0)
        printf("   and %zu slower ones (--all)\n", hidden);
    const advice_choice *best = &found->choices[found->recommended];
    char text[160], learned[NUMBER_TEXT_SIZE], memory[NUMBER_TEXT_SIZE], upload[NUMBER_TEXT_SIZE];
    seconds_text(best->seconds, learned);
    bytes_text((double)best->memory_bytes, memory);
    bytes_text((double)best->upload_bytes, upload);
    advice_options_text(options, best, text, sizeof(text));
    printf("\n* no other choice is as good in time, memory and replication\n"
           "> recommended: replication %u, %u piece%s, %u part%s, keep %s: rounds of %s, %s per "
           "worker, %s "
           "up\n\n%s\n",
           best->replication, best->pieces, best->pieces == 1 ? "" : "s", best->parts,
           best->parts == 1 ? "" : "s", run_keep_name(best->keep), learned, memory, upload, text);
}

static json_t *choice_json(const advice_choice *choice)
{
    return json_pack(
        "{s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:I, s:I, s:b}", "replication",
        (json_int_t)choice->replication, "pieces", (json_int_t)choice->pieces, "parts",
        (json_int_t)choice->parts, "keep", run_keep_name(choice->keep), "ahead",
        run_ahead_json(choice->keep, choice->ahead), "seconds", number_json(choice->seconds),
        "first_seconds", number_json(choice->first_seconds), "memory_bytes",
        (json_int_t)choice->memory_bytes, "upload_bytes", (json_int_t)choice->upload_bytes,
        "control_bytes", number_json(choice->control_bytes), "copies", number_json(choice->copies),
        "trials", (json_int_t)choice->trials, "failed", (json_int_t)choice->failed, "pareto",
        choice->pareto);
}

/* `config`, the object of all options, is borrowed. Errors: NO_MEMORY. */
static int advice_print_json(const advise_options *options, const advice *found, json_t *config)
{
    char text[160];
    const advice_choice *best = &found->choices[found->recommended];
    advice_options_text(options, best, text, sizeof(text));
    json_t *recommended = choice_json(best), *list = json_array();
    if (recommended != NULL &&
        json_object_set_new(recommended, "options", json_string(text)) != 0) {
        json_decref(recommended);
        recommended = NULL;
    }
    for (size_t i = 0; list != NULL && i < found->count; i++)
        list = json_append(list, choice_json(&found->choices[i]));
    json_t *report = json_pack("{s:s, s:s, s:I, s:O, s:o, s:o, s:I, s:I, s:f}", "command", "plan",
                               "version", tarry_version(), "seed", (json_int_t)options->world.seed,
                               "config", config, "recommended", recommended, "choices", list,
                               "too_large", (json_int_t)found->too_large, "unpromising",
                               (json_int_t)found->unpromising, "run_seconds", found->run_seconds);
    return json_write(report, stdout);
}

/* ---- command plan advise ---- */

static int advice_print_report(const option_command *command, const advise_options *options,
                               const advice *found)
{
    json_t *config = options_json(command);
    int error = config != NULL ? advice_print_json(options, found, config) : TARRY_ERROR_NO_MEMORY;
    json_decref(config);
    return error == TARRY_OK ? EXIT_DONE
                             : complain(EXIT_FAILED, "plan: %s", tarry_error_text(error));
}

int command_plan_advise(int argc, char **argv)
{
    advise_options options;
    advise_options_init(&options);
    option_group groups[ADVISE_GROUPS];
    advise_options_groups(&options, groups);
    const option_command command = {
        "plan",
        "Recommends replication, pieces and parts for given workers, with the predicted time, "
        "memory and upload of each choice, from simulated rounds of all of them.",
        groups, ADVISE_GROUPS};
    config_file *file;
    advice found = {0};
    int status = options_parse(&command, argc, argv, &file);
    if (status == OPTIONS_PROCEED)
        status = advise_options_settle(&options);
    if (status == OPTIONS_PROCEED)
        status = advise(&options, &found);
    if (status == OPTIONS_PROCEED && options.json)
        status = advice_print_report(&command, &options, &found);
    else if (status == OPTIONS_PROCEED) {
        advice_print_table(&options, &found);
        status = EXIT_DONE;
    }
    advice_free(&found);
    advise_options_release(&options);
    config_free(file);
    return status;
}
