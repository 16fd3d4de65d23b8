/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_where.h"

static const option_choice engines[] = {
    {"direct", TRAIN_DIRECT},
    {"mpi", TRAIN_MPI},
    {"mpi-only", TRAIN_MPI_ONLY},
    {NULL, 0},
};

static const option_entry entries[] = {
    {.name = "processes",
     .help = "Let every worker be a process of its own on this machine (default: threads)",
     .kind = OPTION_FLAG,
     .offset = offsetof(train_where, processes)},
    {.name = "engine",
     .argument = "NAME",
     .help = "What carries sums among workers: Tarry's own (direct, the default), or MPI, whose "
             "ranks are the workers then: run it by mpirun or srun (mpi; mpi-only: not through "
             "shared memory where all ranks are on one machine). See tarry-train(1)",
     .kind = OPTION_CHOICE,
     .choices = engines,
     .offset = offsetof(train_where, engine)},
};

option_group train_where_group(train_where *where)
{
    return OPTION_GROUP("Workers", entries, where);
}
