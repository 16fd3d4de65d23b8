/* SPDX-License-Identifier: Apache-2.0 */
#include <tarry/mpi.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mpi/sum_engine.h"

struct tarry_mpi {
    MPI_Comm comm; /* its own */
    post *post;
    tarry_engine *engine;
};

__attribute__((format(printf, 3, 4))) static int say(tarry_diagnostic *diagnostic, int error,
                                                     const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (diagnostic != NULL)
        vsnprintf(diagnostic->text, sizeof(diagnostic->text), format, arguments);
    va_end(arguments);
    return error;
}

/* Makes the lowest error of any rank the error of all. */
static int agree(MPI_Comm comm, int error)
{
    int worst = error;
    return MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS
               ? worst
               : TARRY_ERROR_SYSTEM;
}

static const char *level_name(int level)
{
    return level == MPI_THREAD_SINGLE     ? "MPI_THREAD_SINGLE"
           : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                          : "an unknown level";
}

static int check_level(tarry_diagnostic *diagnostic)
{
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level >= MPI_THREAD_SERIALIZED
               ? TARRY_OK
               : say(diagnostic, TARRY_ERROR_ARGUMENT,
                     "mpi: threads may not call MPI, which runs with %s: ask MPI_Init_thread for "
                     "MPI_THREAD_SERIALIZED, or for MPI_THREAD_MULTIPLE if the program calls MPI "
                     "during sums",
                     level_name(level));
}

/* ---- what the post calls ---- */

static void take(void *user, uint32_t from, post_block *block)
{
    const tarry_mpi *self = user;
    sum_engine_take(self->engine, from, block);
}

static void lose(void *user, uint32_t rank)
{
    const tarry_mpi *self = user;
    sum_engine_lose(self->engine, rank);
}

static bool turn(void *user)
{
    const tarry_mpi *self = user;
    return sum_engine_turn(self->engine);
}

/* ---- the public functions ---- */

/* But for the communicator. */
static void release(tarry_mpi *self)
{
    if (self->engine != NULL)
        self->engine->methods->free(self->engine);
    post_free(self->post);
    free(self);
}

static int make(tarry_mpi *self, MPI_Comm comm)
{
    int rank, ranks;
    if (MPI_Comm_dup(comm, &self->comm) != MPI_SUCCESS)
        return TARRY_ERROR_SYSTEM;
    MPI_Comm_set_errhandler(self->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(self->comm, &rank);
    MPI_Comm_size(self->comm, &ranks);
    const post_settings posting = {
        .comm = self->comm, .take = take, .broken = lose, .turn = turn, .user = self};
    self->post = post_create(&posting);
    if (self->post != NULL)
        self->engine = sum_engine_create(self->post, (uint32_t)rank, (uint32_t)ranks);
    return agree(self->comm, self->engine != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY);
}

int tarry_mpi_create(MPI_Comm comm, tarry_mpi **out, tarry_diagnostic *diagnostic)
{
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (!begun || ended)
        return say(diagnostic, TARRY_ERROR_ARGUMENT, "mpi: MPI is not initialized");
    tarry_diagnostic why = {"mpi: another rank cannot begin"};
    tarry_mpi *self = calloc(1, sizeof(*self));
    int own =
        self != NULL ? check_level(&why) : say(&why, TARRY_ERROR_NO_MEMORY, "mpi: out of memory");
    int error = agree(comm, own);
    if (error != TARRY_OK) {
        free(self);
        return say(diagnostic, error, "%s", why.text);
    }
    self->comm = MPI_COMM_NULL;
    error = make(self, comm);
    if (error != TARRY_OK) {
        MPI_Comm own_comm = self->comm;
        release(self);
        if (own_comm != MPI_COMM_NULL)
            MPI_Comm_free(&own_comm);
        return say(diagnostic, error,
                   error == TARRY_ERROR_SYSTEM ? "mpi: MPI makes no communicator"
                                               : "mpi: out of memory at a rank");
    }
    *out = self;
    return TARRY_OK;
}

tarry_engine *tarry_mpi_engine(const tarry_mpi *ranks)
{
    return ranks->engine;
}

bool tarry_mpi_free(tarry_mpi *ranks, bool finished)
{
    if (ranks == NULL)
        return true;
    bool whole = post_end(ranks->post, finished);
    MPI_Comm comm = ranks->comm;
    release(ranks);
    if (whole)
        MPI_Comm_free(&comm);
    return whole;
}

_Noreturn void tarry_mpi_exit(int status)
{
    fflush(NULL);
    _exit(status);
}
