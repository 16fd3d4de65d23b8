/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/command_simulate_faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/options/options.h"
#include "cli/simulate/simulate_faults.h"
#include "cli/text/complain.h"
#include "sim/shrink/shrink.h"

typedef struct fault_options {
    bool faults;
    bool trace;
    uint32_t jobs; /* 0: the machine's cores */
    fault_campaign campaign;
} fault_options;

#ifdef TARRY_PLANTS
/* Errors to be found; in a build of the tests only. */
static const option_choice plants[] = {
    {"none", PLANT_NONE},
    {"sum-twice", PLANT_SUM_TWICE},
    {"sum-stale", PLANT_SUM_STALE},
    {"wait-for-the-lost", PLANT_WAIT_FOR_THE_LOST},
    {"commit-first", PLANT_COMMIT_FIRST},
    {"keep-kappa", PLANT_KEEP_KAPPA},
    {"mask-again", PLANT_MASK_AGAIN},
    {"stale-group", PLANT_STALE_GROUP},
    {"name-another", PLANT_NAME_ANOTHER},
    {"bend-holders", PLANT_BEND_HOLDERS},
    {"forget-stripe", PLANT_FORGET_STRIPE},
    {"count-stripes", PLANT_COUNT_STRIPES},
    {NULL, 0},
};
#endif

static const option_choice places[] = {
    {"server", TARRY_SUM_SERVER},
    {"everywhere", TARRY_SUM_EVERYWHERE},
    {NULL, 0},
};

#define FIELD(name) .offset = offsetof(fault_options, name)

static const option_entry entries[] = {
    {.name = "faults",
     .help = "Look for faults of the protocol instead of comparing schemes",
     .kind = OPTION_FLAG,
     FIELD(faults)},
    {.name = "sum",
     .argument = "WHERE",
     .help = "Worlds in which the sum is made at the server (default), or everywhere",
     .kind = OPTION_CHOICE,
     .choices = places,
     FIELD(campaign.sum)},
    {.name = "secure",
     .help = "Worlds with secure sums alone (else a share of them)",
     .kind = OPTION_FLAG,
     FIELD(campaign.secure)},
    {.name = "runs",
     .argument = "N",
     .help = "Small worlds, of two to four rounds each (default 10000)",
     .kind = OPTION_U32,
     .least = 1,
     .most = UINT32_MAX,
     FIELD(campaign.runs)},
    {.name = "first",
     .argument = "RUN",
     .help = "The first of them (default 0)",
     .kind = OPTION_U32,
     .most = UINT32_MAX,
     FIELD(campaign.first)},
    {.name = "seed",
     .argument = "S",
     .help = "Seed of everything that is drawn (default 1)",
     .kind = OPTION_U64,
     .most = INT64_MAX,
     FIELD(campaign.seed)},
    {.name = "jobs",
     .argument = "N",
     .help = "Worlds at the same time (default: the machine's cores); nothing depends on it",
     .kind = OPTION_U32,
     .least = 1,
     .most = FAULT_MOST_JOBS,
     FIELD(jobs)},
    {.name = "trace",
     .help = "Print all that happens, one world after the other",
     .kind = OPTION_FLAG,
     FIELD(trace)},
    {.name = "quiet",
     .help = "Print nothing but errors",
     .kind = OPTION_FLAG,
     FIELD(campaign.quiet)},
#ifdef TARRY_PLANTS
    {.name = "plant",
     .argument = "ERROR",
     .help = "Plant an error",
     .kind = OPTION_CHOICE,
     .choices = plants,
     FIELD(campaign.planted)},
#endif
};

static uint32_t core_count(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > FAULT_MOST_JOBS ? FAULT_MOST_JOBS : (uint32_t)cores;
}

static void print_line(void *user, const char *line)
{
    (void)user;
    printf("%s\n", line);
}

static void print_figures(const fault_campaign *it)
{
    double seconds = it->seconds > 0 ? it->seconds : 1e-9;
    printf("%" PRIu64 " rounds in %" PRIu64 " worlds, %" PRIu64 " steps, %" PRIu64
           " faults: %.0f rounds/s\n",
           it->rounds, it->done, it->steps, it->faults, (double)it->rounds / seconds);
    printf("%" PRIu64 " rounds exact, %" PRIu64 " failed, %" PRIu64 " repeated attempts; late "
           "workers passed over %" PRIu64 " times, silent ones given up %" PRIu64 " times\n",
           it->exact, it->failed, it->attempts, it->late, it->silent);
    printf("crashes, cuts, pauses, restarts: %" PRIu64 " between rounds, %" PRIu64
           " while workers compute, %" PRIu64 " while they send\n",
           it->planned[MODEL_IDLE], it->planned[MODEL_COMPUTING], it->planned[MODEL_CODING]);
    printf("%" PRIu64 " restarts of the server, %" PRIu64 " changes of the plan, to which workers "
           "turned %" PRIu64 " times; the longest round took %.2f of its bound\n",
           it->restarts, it->replans, it->turned, (double)it->longest / 1000);
    if (it->secure_sums > 0)
        printf("%" PRIu64 " sums were secure, %" PRIu64
               " of them of repeated attempts; workers had "
               "second lives, with keys of their own, %" PRIu64 " times\n"
               "%" PRIu64 " of these sums were found to be torn: one worker was told other terms\n",
               it->secure_sums, it->secure_repeated, it->second_lives, it->torn_sums);
    if (it->sum == TARRY_SUM_EVERYWHERE)
        printf("%" PRIu64 " sums committed, %" PRIu64 " returns to a checkpoint; workers fetched "
               "%" PRIu64 " sums, and loaded the state %" PRIu64 " times; %" PRIu64
               " had other parameters than most\n",
               it->commits, it->returns, it->fetches, it->loads, it->differing);
}

/* Tells of the broken run: how to repeat it, and the fewest faults that show it, with all that
 * happens then. */
static int explain(const fault_campaign *campaign)
{
    cluster *world;
    int error = cluster_create(NULL, &world);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "simulate: %s", tarry_error_text(error));
    cluster_job job = {
        .seed = campaign->seed,
        .run = campaign->broken_run,
        .sum = campaign->sum,
        .secure = campaign->secure,
        .planted = campaign->planted,
    };
    shrinking shrunk = {0};
    error = cluster_run(world, &job);
    size_t all = world->draws.struck.count;
    if (error == TARRY_OK)
        error = shrink_faults(world, &job, &shrunk);
    if (error == TARRY_OK) {
        printf("%zu of %zu faults are enough (found in %" PRIu32 " runs); with these:\n",
               shrunk.left.count, all, shrunk.runs);
        job.allowed = &shrunk.left;
    } else {
        printf("its faults can't be told apart; with all:\n");
    }
    job.trace = print_line;
    error = cluster_run(world, &job);
    if (error != TARRY_OK)
        complain(EXIT_FAILED, "simulate: %s", tarry_error_text(error));
    else
        complain(EXIT_FAILED,
                 "simulate: %s: %s (repeat: --faults%s%s --seed %" PRIu64 " --first %" PRIu32
                 " --runs 1)",
                 world->broken, world->why,
                 campaign->sum == TARRY_SUM_EVERYWHERE ? " --sum everywhere" : "",
                 campaign->secure ? " --secure" : "", campaign->seed, campaign->broken_run);
    cluster_free(world);
    return EXIT_FAILED;
}

static int run_campaign(fault_campaign *campaign)
{
    int error = fault_campaign_run(campaign);
    if (!campaign->quiet && campaign->done > 0)
        print_figures(campaign);
    if (campaign->broken)
        return explain(campaign);
    if (error == TARRY_ERROR_INTERRUPTED)
        return complain(EXIT_FAILED,
                        "simulate: interrupted after %" PRIu64 " of %" PRIu32 " worlds",
                        campaign->done, campaign->runs);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "simulate: %s", tarry_error_text(error));
    if (!campaign->quiet)
        printf("every invariant holds\n");
    return EXIT_DONE;
}

static int print_traces(const fault_campaign *campaign)
{
    cluster *world;
    int error = cluster_create(NULL, &world);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "simulate: %s", tarry_error_text(error));
    int status = EXIT_DONE;
    for (uint32_t i = 0; error == TARRY_OK && status == EXIT_DONE && i < campaign->runs; i++) {
        cluster_job job = {
            .seed = campaign->seed,
            .run = campaign->first + i,
            .sum = campaign->sum,
            .secure = campaign->secure,
            .planted = campaign->planted,
            .trace = print_line,
        };
        printf("world %" PRIu32 "\n", job.run);
        error = cluster_run(world, &job);
        if (error == TARRY_OK && world->broken != NULL)
            status = complain(EXIT_FAILED, "simulate: %s: %s", world->broken, world->why);
    }
    cluster_free(world);
    if (error != TARRY_OK)
        status = complain(EXIT_FAILED, "simulate: %s", tarry_error_text(error));
    return status;
}

int command_simulate_faults(int argc, char **argv)
{
    fault_options options = {.campaign = {.seed = 1, .runs = 10000}};
    const option_group group = OPTION_GROUP("Worlds with faults", entries, &options);
    const option_command command = {
        "simulate",
        "Runs the server's and the workers' machines in small worlds in which everything that can "
        "go wrong does, and checks after every step that what must hold does.",
        &group, 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    fault_campaign *campaign = &options.campaign;
    campaign->jobs = options.jobs > 0 ? options.jobs : core_count();
    if (status == OPTIONS_PROCEED && campaign->first > UINT32_MAX - campaign->runs)
        status =
            complain(EXIT_USAGE, "--first: there are no %" PRIu32 " runs after it", campaign->runs);
    if (status == OPTIONS_PROCEED && campaign->secure && campaign->sum == TARRY_SUM_EVERYWHERE)
        status = complain(EXIT_USAGE, "--secure: sums are made at the server");
    if (status == OPTIONS_PROCEED)
        status = options.trace ? print_traces(campaign) : run_campaign(campaign);
    config_free(file);
    return status;
}
