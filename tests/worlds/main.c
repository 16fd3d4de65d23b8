/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tarry-worlds: runs small worlds with faults by the million, checks every step, and shrinks what
 * breaks an invariant to the fewest faults that show it.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "cli/text/complain.h"
#include "worlds/campaign.h"
#include "worlds/plants.h"
#include "worlds/shrink.h"

const char program_name[] = "tarry-worlds";

static const char help[] =
    "Usage: tarry-worlds [OPTION...]\n"
    "Runs the machines of the coordinator and the workers in small worlds in which everything "
    "that\n"
    "can go wrong does, and checks after every step that what must hold does.\n\n"
    "      --sum=WHERE    server (default): worlds whose coordinator makes the sum; everywhere:\n"
    "                     worlds whose workers make it among themselves\n"
    "      --secure       worlds with secure sums only (without it, some worlds have them)\n"
    "      --runs=N       number of worlds, of two to four rounds each (default 10000)\n"
    "      --first=RUN    number of the first world (default 0)\n"
    "      --seed=S       seed of all random numbers (default 1)\n"
    "      --jobs=N       worlds at the same time (default: the machine's cores); changes no "
    "result\n"
    "      --trace        print all that happens, one world after the other\n"
    "      --quiet        print only errors\n"
    "      --plant=ERROR  plant an error that the checks must find\n"
    "      --help         print this help\n";

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
    const world_counts *of = &it->counts;
    double seconds = it->seconds > 0 ? it->seconds : 1e-9;
    printf("%" PRIu64 " rounds in %" PRIu64 " worlds, %" PRIu64 " steps, %" PRIu64
           " faults: %.0f rounds/s\n",
           of->rounds, of->worlds, of->steps, of->faults, (double)of->rounds / seconds);
    printf("%" PRIu64 " rounds exact, %" PRIu64 " failed, %" PRIu64 " repeated attempts; late "
           "workers passed over %" PRIu64 " times, silent ones given up %" PRIu64 " times\n",
           of->exact, of->failed, of->attempts, of->late, of->silent);
    printf("crashes, cuts, pauses, restarts: %" PRIu64 " between rounds, %" PRIu64
           " while workers compute, %" PRIu64 " while they send\n",
           of->planned[MODEL_IDLE], of->planned[MODEL_COMPUTING], of->planned[MODEL_CODING]);
    printf("%" PRIu64 " restarts of the server, %" PRIu64 " changes of the plan, to which workers "
           "turned %" PRIu64 " times; the longest round took %.2f of its bound\n",
           of->restarts, of->replans, of->turned, (double)of->longest / 1000);
    if (of->secure > 0)
        printf("%" PRIu64 " sums were secure, %" PRIu64
               " of them of repeated attempts; workers had "
               "second lives, with keys of their own, %" PRIu64 " times\n"
               "%" PRIu64 " of these sums were found to be torn: one worker was told other terms\n",
               of->secure, of->repeated, of->second_lives, of->torn);
    if (it->job.sum == TARRY_SUM_EVERYWHERE)
        printf("%" PRIu64 " sums committed, %" PRIu64 " returns to a checkpoint; workers fetched "
               "%" PRIu64 " sums, and loaded the state %" PRIu64 " times; %" PRIu64
               " had other parameters than most\n",
               of->commits, of->returns, of->fetches, of->loads, of->differing);
}

/* Tells of the broken run: how to repeat it, and the fewest faults that show it, with all that
 * happens then. */
static int explain(const fault_campaign *campaign)
{
    cluster *world;
    int error = cluster_create(NULL, &world);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "%s", tarry_error_text(error));
    cluster_job job = campaign->job;
    job.run = campaign->broken_run;
    shrinking shrunk = {0};
    error = cluster_run(world, &job);
    size_t all = world->draws.struck.count;
    bool again = error == TARRY_OK && world->broken != NULL;
    if (again)
        error = shrink_faults(world, &job, &shrunk);
    if (error == TARRY_OK && !again) {
        printf("run again by itself, the world does not show it; that run:\n");
    } else if (error == TARRY_OK) {
        printf("%zu of %zu faults are enough (found in %" PRIu32 " runs); with these:\n",
               shrunk.left.count, all, shrunk.runs);
        job.allowed = &shrunk.left;
    } else {
        printf("its faults can't be told apart; with all:\n");
    }
    job.trace = print_line;
    error = cluster_run(world, &job);
    if (error != TARRY_OK)
        complain(EXIT_FAILED, "%s", tarry_error_text(error));
    else
        complain(EXIT_FAILED,
                 "%s: %s (repeat:%s%s --seed %" PRIu64 " --first %" PRIu32 " --runs 1)",
                 campaign->broken_by, campaign->why,
                 campaign->job.sum == TARRY_SUM_EVERYWHERE ? " --sum everywhere" : "",
                 campaign->job.secure ? " --secure" : "", campaign->job.seed, campaign->broken_run);
    cluster_free(world);
    return EXIT_FAILED;
}

static int run_campaign(fault_campaign *campaign)
{
    int error = fault_campaign_run(campaign);
    if (!campaign->quiet && campaign->counts.worlds > 0)
        print_figures(campaign);
    if (campaign->broken)
        return explain(campaign);
    if (error == TARRY_ERROR_INTERRUPTED)
        return complain(EXIT_FAILED, "interrupted after %" PRIu64 " of %" PRIu32 " worlds",
                        campaign->counts.worlds, campaign->runs);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "%s", tarry_error_text(error));
    if (!campaign->quiet)
        printf("every invariant holds\n");
    return EXIT_DONE;
}

static int print_traces(const fault_campaign *campaign)
{
    cluster *world;
    int error = cluster_create(NULL, &world);
    if (error != TARRY_OK)
        return complain(EXIT_FAILED, "%s", tarry_error_text(error));
    int status = EXIT_DONE;
    for (uint32_t i = 0; error == TARRY_OK && status == EXIT_DONE && i < campaign->runs; i++) {
        cluster_job job = campaign->job;
        job.run = campaign->first + i;
        job.trace = print_line;
        printf("world %" PRIu32 "\n", job.run);
        error = cluster_run(world, &job);
        if (error == TARRY_OK && world->broken != NULL)
            status = complain(EXIT_FAILED, "%s: %s", world->broken, world->why);
    }
    cluster_free(world);
    if (error != TARRY_OK)
        status = complain(EXIT_FAILED, "%s", tarry_error_text(error));
    return status;
}

/* Reads a whole number in least..most; gives back an exit status. */
static int read_number(const char *option, uint64_t least, uint64_t most, uint64_t *number)
{
    tarry_diagnostic why;
    if (parse_whole(optarg, least, most, number, &why) != TARRY_OK)
        return complain(EXIT_USAGE, "--%s: %s", option, why.text);
    return EXIT_DONE;
}

static int read_plant(plant *planted)
{
    *planted = PLANT_NONE;
    if (strcmp(optarg, "none") == 0)
        return EXIT_DONE;
    for (size_t i = 0; i < planted_error_count; i++) {
        if (strcmp(optarg, planted_errors[i].name) == 0) {
            *planted = planted_errors[i].planted;
            return EXIT_DONE;
        }
    }
    complain(EXIT_USAGE, "--plant: '%s' is not an error that can be planted; these are:", optarg);
    for (size_t i = 0; i < planted_error_count; i++)
        fprintf(stderr, "    %s\n", planted_errors[i].name);
    return EXIT_USAGE;
}

static int read_place(tarry_sum_place *sum)
{
    *sum = strcmp(optarg, "everywhere") == 0 ? TARRY_SUM_EVERYWHERE : TARRY_SUM_SERVER;
    if (*sum == TARRY_SUM_SERVER && strcmp(optarg, "server") != 0)
        return complain(EXIT_USAGE, "--sum: '%s' is neither server nor everywhere", optarg);
    return EXIT_DONE;
}

static const struct option options[] = {
    {"first", required_argument, NULL, 'f'},
    {"help", no_argument, NULL, 'h'},
    {"jobs", required_argument, NULL, 'j'},
    {"plant", required_argument, NULL, 'p'},
    {"quiet", no_argument, NULL, 'q'},
    {"runs", required_argument, NULL, 'r'},
    {"secure", no_argument, NULL, 'e'},
    {"seed", required_argument, NULL, 's'},
    {"sum", required_argument, NULL, 'u'},
    {"trace", no_argument, NULL, 't'},
    {NULL, 0, NULL, 0},
};

/* Reads the option `key`, which is in `argument`, and its value in optarg; gives back an exit
 * status. */
static int read_option(int key, const char *argument, fault_campaign *campaign, bool *trace)
{
    uint64_t number;
    int status = EXIT_DONE;
    switch (key) {
    case 'f':
        status = read_number("first", 0, UINT32_MAX, &number);
        campaign->first = (uint32_t)number;
        break;
    case 'j':
        status = read_number("jobs", 1, FAULT_MOST_JOBS, &number);
        campaign->jobs = (uint32_t)number;
        break;
    case 'r':
        status = read_number("runs", 1, UINT32_MAX, &number);
        campaign->runs = (uint32_t)number;
        break;
    case 's':
        status = read_number("seed", 0, INT64_MAX, &campaign->job.seed);
        break;
    case 'p':
        status = read_plant(&campaign->job.planted);
        break;
    case 'u':
        status = read_place(&campaign->job.sum);
        break;
    case 'e':
        campaign->job.secure = true;
        break;
    case 'q':
        campaign->quiet = true;
        break;
    case 't':
        *trace = true;
        break;
    default:
        status =
            complain(EXIT_USAGE, "%s: unknown option, or one without its value (see %s --help)",
                     argument, program_name);
    }
    return status;
}

static int run(int argc, char **argv)
{
    fault_campaign campaign = {.job.seed = 1, .runs = 10000, .jobs = core_count()};
    bool trace = false;
    opterr = 0;
    for (int key; (key = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (key == 'h') {
            fputs(help, stdout);
            return EXIT_DONE;
        }
        int status = read_option(key, argv[optind - 1], &campaign, &trace);
        if (status != EXIT_DONE)
            return status;
    }
    if (optind < argc)
        return complain(EXIT_USAGE, "unexpected argument '%s'", argv[optind]);
    if (campaign.first > UINT32_MAX - campaign.runs)
        return complain(EXIT_USAGE, "--first: there are no %" PRIu32 " runs after it",
                        campaign.runs);
    if (campaign.job.secure && campaign.job.sum == TARRY_SUM_EVERYWHERE)
        return complain(EXIT_USAGE, "--secure: sums are made at the server");
    return trace ? print_traces(&campaign) : run_campaign(&campaign);
}

int main(int argc, char **argv)
{
    return program_main(run, argc, argv);
}
