/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tarry-mpi: what tarry train goes on as with --engine mpi, a program of its own so that the tool
 * needs no MPI where it isn't used. Each rank is given the same command line.
 */
#include <stdio.h>
#include <string.h>

#include "cli/mpi/runner_mpi.h"
#include "cli/text/complain.h"
#include "cli/text/program.h"
#include "cli/train/train_run.h"
#include "cli/train/train_where.h"

static bool sets(const run_options *options, tarry_setting setting)
{
    return run_options_given(options, setting);
}

/* What goes with ranks: as many workers, which sum among themselves, of a plan that stays. */
static int check(const mpi_job *job, const option_command *command, const train_options *options,
                 const train_where *where)
{
    const run_options *run = &options->run;
    const tarry_settings *settings = &run->settings;
    tarry_diagnostic why;
    char ranks[16];
    if (where->engine == TRAIN_DIRECT)
        return complain(EXIT_USAGE, "--engine: tarry-mpi is for mpi and mpi-only");
    if (where->processes)
        return complain(EXIT_USAGE, "--processes: cannot be combined with --engine mpi");
    if (sets(run, TARRY_SETTING_SUM) && settings->server.sum != TARRY_SUM_EVERYWHERE)
        return complain(EXIT_USAGE, "--sum: with --engine mpi the sum is made everywhere");
    if (run->adapt_rule.every != 0)
        return complain(EXIT_USAGE, "--adapt: has no meaning with --engine mpi, whose plans stay");
    if (sets(run, TARRY_SETTING_WORKERS) && settings->plan.workers != (uint32_t)job->ranks)
        return complain(EXIT_USAGE, "--workers: %u, but there are %d ranks of MPI",
                        settings->plan.workers, job->ranks);
    snprintf(ranks, sizeof(ranks), "%d", job->ranks);
    if (option_set(command->groups, command->count, "sum", "everywhere", &why) != TARRY_OK ||
        option_set(command->groups, command->count, "workers", ranks, &why) != TARRY_OK)
        return complain(EXIT_USAGE, "--workers: %s", why.text);
    return OPTIONS_PROCEED;
}

static int lead(mpi_job *job, const option_command *command, train_options *options,
                const train_where *where)
{
    int status = check(job, command, options, where);
    if (status == OPTIONS_PROCEED)
        status = train_run(command, options, runner_mpi_create, job);
    return mpi_job_tell(job, status);
}

/* What is wrong with the command line rank 0 has said. */
static int follow(mpi_job *job, const option_command *command, train_options *options,
                  const train_where *where)
{
    int status = mpi_job_tell(job, EXIT_FAILED);
    if (status == OPTIONS_PROCEED)
        status = check(job, command, options, where);
    if (status != OPTIONS_PROCEED)
        return status;
    options->verify = false; /* rank 0 does */
    status = train_run_follow(command, options, runner_mpi_follow, job);
    mpi_job_agree(job, false);
    return status;
}

static int train(mpi_job *job, int argc, char **argv)
{
    train_options options;
    train_where where = {false, TRAIN_DIRECT};
    train_options_init(&options);
    option_group groups[TRAIN_GROUPS + 1];
    train_options_groups(&options, groups);
    groups[TRAIN_GROUPS] = train_where_group(&where);
    const option_command command = {
        "train", "Trains a model over ranks of MPI, which tarry train --engine mpi begins.", groups,
        TRAIN_GROUPS + 1};
    config_file *file;
    int status = options_parse(&command, argc, argv, &file);
    job->no_shared_memory = where.engine == TRAIN_MPI_ONLY;
    if (status == OPTIONS_PROCEED)
        status = job->rank == 0 ? lead(job, &command, &options, &where)
                                : follow(job, &command, &options, &where);
    config_free(file);
    return status;
}

static int run(int argc, char **argv)
{
    int level;
    mpi_job job = {.whole = true};
    if (argc < 2 || strcmp(argv[1], "train") != 0)
        return complain(EXIT_USAGE, "tarry-mpi is what tarry train --engine mpi goes on as");
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    int status = train(&job, argc - 1, argv + 1);
    if (!job.whole)
        tarry_mpi_exit(status);
    MPI_Finalize();
    return status;
}

const char program_name[] = "tarry";

int main(int argc, char **argv)
{
    return program_main(run, argc, argv);
}
