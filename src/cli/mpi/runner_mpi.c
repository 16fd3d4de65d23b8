/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mpi/runner_mpi.h"

#include <signal.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "cli/options/options.h"

/* A rank whose rank 0 is dead, where the launcher does not see to that. */
#define PATIENCE_NS UINT64_C(600000000000)

int mpi_job_tell(mpi_job *self, int status)
{
    if (!self->told)
        MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    self->told = true;
    return status;
}

bool mpi_job_agree(mpi_job *self, bool can)
{
    int own = can, all = can;
    if (!self->begun)
        MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    self->begun = true;
    return all != 0;
}

/* What this rank has of the run. */
typedef struct rank_parts {
    mpi_job *job;
    job_replicas *replicas;
    tarry_mpi *all;
} rank_parts;

static int create(mpi_job *job, const runner_request *request, rank_parts *made,
                  tarry_diagnostic *diagnostic)
{
    tarry_mpi_settings settings;
    *made = (rank_parts){.job = job};
    tarry_mpi_settings_init(&settings);
    int error = job_replicas_create(request->replicas, 1, &made->replicas);
    if (!mpi_job_agree(job, error == TARRY_OK))
        return error != TARRY_OK ? error
                                 : diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                                            "another rank can't begin, and says why");
    runner_server_settings(request, &settings.server);
    /* What was left open is chosen by what rank 0's machine has. */
    MPI_Bcast(&settings.server, sizeof(settings.server), MPI_BYTE, 0, MPI_COMM_WORLD);
    settings.parameters = settings.dimension = request->dimension;
    settings.compute = request->compute;
    settings.user = request->user;
    settings.straggler = request->straggler;
    settings.replica = job_replicas_list(made->replicas)[0];
    settings.last = request->sums.last[0];
    settings.log = request->sums;
    settings.checkpoint = request->checkpoint;
    settings.checkpoint_size = request->checkpoint_size;
    settings.no_shared_memory = job->no_shared_memory;
    settings.patience_ns = PATIENCE_NS;
    return tarry_mpi_create(MPI_COMM_WORLD, request->plan, &settings, NULL, &made->all, diagnostic);
}

static void end(void *user, bool finished)
{
    rank_parts *own = user;
    own->job->whole = tarry_mpi_free(own->all, finished);
    memory_release(NULL, own);
}

int runner_mpi_create(void *user, const runner_request *request, runner **out,
                      tarry_diagnostic *diagnostic)
{
    mpi_job *job = user;
    runner *made = memory_allocate(NULL, 1, sizeof(*made));
    rank_parts *own = memory_allocate(NULL, 1, sizeof(*own));
    mpi_job_tell(job, OPTIONS_PROCEED);
    bool memory = made != NULL && own != NULL;
    if (!memory)
        mpi_job_agree(job, false);
    int error = memory ? create(job, request, own, diagnostic) : TARRY_ERROR_NO_MEMORY;
    if (error != TARRY_OK) {
        if (own != NULL)
            job_replicas_free(own->replicas);
        memory_release(NULL, own);
        memory_release(NULL, made);
        return error;
    }
    *made = (runner){
        .runtime = tarry_mpi_runtime(own->all),
        .replicas = own->replicas,
        .awaited = (uint32_t)job->ranks,
        .asks = true,
        .end = end,
        .end_user = own,
    };
    *out = made;
    return TARRY_OK;
}

int runner_mpi_follow(void *user, const runner_request *request, tarry_diagnostic *diagnostic)
{
    mpi_job *job = user;
    rank_parts own;
    /* A launcher hands signals on to all ranks; what follows from them rank 0 says. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    int error = create(job, request, &own, diagnostic);
    if (error == TARRY_OK) {
        error = tarry_mpi_work(own.all, diagnostic);
        job->whole = tarry_mpi_free(own.all, error == TARRY_OK);
    }
    job_replicas_free(own.replicas);
    return error;
}
