/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that are ranks of MPI. Rank 0 runs the rounds; the others wait for it before they read
 * data, so that what is wrong with a command line is complained of once.
 */
#ifndef CLI_RUNNER_MPI_H
#define CLI_RUNNER_MPI_H

#include <tarry/mpi.h>

#include "cli/runner/runner.h"

typedef struct mpi_job {
    int rank, ranks;
    bool no_shared_memory;
    bool told;  /* rank 0: the others know whether they begin */
    bool begun; /* all have said whether they can */
    bool whole; /* MPI_Finalize may be called */
} mpi_job;

/* Rank 0: a runner_create, whose user is the mpi_job. Errors: also ARGUMENT where another rank
 * can't begin. */
int runner_mpi_create(void *user, const runner_request *request, runner **out,
                      tarry_diagnostic *diagnostic);
/* The other ranks: a train_follow of the same user. */
int runner_mpi_follow(void *user, const runner_request *request, tarry_diagnostic *diagnostic);

/* Tells the others, once, that they begin (OPTIONS_PROCEED), or the exit status with which rank 0
 * ends. At the others: gives that back. */
int mpi_job_tell(mpi_job *self, int status);
/* Says, once, whether this rank can begin. Gives back whether all can. */
bool mpi_job_agree(mpi_job *self, bool can);

#endif
