/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/ranks_create.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarry/direct.h>

#include "mpi/clock.h"
#include "mpi/sum_engine.h"

enum { SIGN_FRACTION = 8 }; /* of the silence that counts as absence */

void tarry_mpi_settings_init_sized(tarry_mpi_settings *settings, size_t size)
{
    memset(settings, 0, size);
    memcpy(settings, &size, sizeof(size));
    if (size != sizeof(*settings))
        return;
    tarry_server_settings_init(&settings->server);
    settings->server.sum = TARRY_SUM_EVERYWHERE;
    settings->patience_ns = TARRY_NEVER;
}

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

/* What all make of it: the lowest error of any rank, which is then that of all. */
static int agree(const tarry_mpi *self, int error)
{
    int worst = error;
    return MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MIN, self->comm) == MPI_SUCCESS
               ? worst
               : TARRY_ERROR_SYSTEM;
}

static bool agree_all(const tarry_mpi *self, bool own)
{
    return agree(self, own ? 0 : -1) == 0;
}

/* ---- checks ---- */

static int check_mpi(tarry_diagnostic *diagnostic)
{
    int begun = 0, ended = 0, level = MPI_THREAD_SINGLE, own = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (!begun || ended)
        return say(diagnostic, TARRY_ERROR_ARGUMENT, "ranks: MPI is not initialized");
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&own);
    if (level < MPI_THREAD_FUNNELED || !own)
        return say(diagnostic, TARRY_ERROR_ARGUMENT,
                   "ranks: MPI must be initialized with MPI_THREAD_FUNNELED, by this thread");
    return TARRY_OK;
}

static int check_settings(const tarry_mpi *self, const tarry_plan *plan,
                          const tarry_mpi_settings *settings, tarry_diagnostic *diagnostic)
{
    if (settings->size != sizeof(*settings))
        return say(diagnostic, TARRY_ERROR_ARGUMENT,
                   settings->size == 0 ? "ranks: settings that were not initialized"
                                       : "ranks: settings of another version's headers");
    if (tarry_plan_workers(plan) != self->ranks)
        return say(diagnostic, TARRY_ERROR_ARGUMENT, "ranks: %u, where the plan has %u workers",
                   self->ranks, tarry_plan_workers(plan));
    if (settings->server.sum != TARRY_SUM_EVERYWHERE || settings->replica.step == NULL ||
        settings->compute == NULL)
        return say(diagnostic, TARRY_ERROR_ARGUMENT,
                   "ranks: each makes the sum, and needs a replica and a compute function");
    return TARRY_OK;
}

/* Whether all have what rank 0 has. */
static bool is_common(const tarry_mpi *self, const uint64_t *numbers, int count)
{
    enum { MOST = 8 };
    uint64_t first[MOST];
    memcpy(first, numbers, (size_t)count * sizeof(*first));
    MPI_Bcast(first, count, MPI_UINT64_T, 0, self->comm);
    return agree_all(self, memcmp(first, numbers, (size_t)count * sizeof(*first)) == 0);
}

/* All have the same plan and vectors, and send numbers in the same forms. */
static int compare(const tarry_mpi *self, const tarry_plan *plan,
                   const tarry_mpi_settings *settings, tarry_diagnostic *diagnostic)
{
    enum { COUNT = 6 };
    const tarry_server_settings *server = &settings->server;
    const uint64_t numbers[] = {settings->parameters,   settings->dimension,
                                (uint64_t)server->keep, server->ahead,
                                (uint64_t)server->fill, settings->no_shared_memory};
    const uint64_t forms[] = {server->compress, server->compress_down, server->compress_seed,
                              server->compress_exact};
    uint64_t digest[TARRY_DIGEST_SIZE / sizeof(uint64_t)];
    tarry_plan_digest(plan, (uint8_t *)digest);
    if (!is_common(self, digest, TARRY_DIGEST_SIZE / sizeof(uint64_t)) ||
        !is_common(self, numbers, sizeof(numbers) / sizeof(*numbers)))
        return say(diagnostic, TARRY_ERROR_ARGUMENT,
                   "ranks: not all have the same plan and settings");
    if (!is_common(self, forms, sizeof(forms) / sizeof(*forms)))
        return say(diagnostic, TARRY_ERROR_ARGUMENT,
                   "ranks: not all have the same compress, compress_down, compress_seed and "
                   "compress_exact");
    return TARRY_OK;
}

/* ---- the engine ---- */

typedef struct address {
    uint64_t size;
    uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST];
} address;

/* Where the others' engines are; NULL: there is no memory. To be freed. */
static address *gather_addresses(const tarry_mpi *self)
{
    address own = {.size = 0}, *all = calloc(self->ranks, sizeof(*all));
    size_t size = 0;
    self->engine->methods->address(self->engine, own.bytes, &size);
    own.size = size;
    if (!agree_all(self, all != NULL)) {
        free(all);
        return NULL;
    }
    MPI_Allgather(&own, sizeof(own), MPI_BYTE, all, sizeof(own), MPI_BYTE, self->comm);
    return all;
}

static bool is_one_machine(const tarry_mpi *self)
{
    MPI_Comm near;
    int count = 0;
    if (MPI_Comm_split_type(self->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near) !=
        MPI_SUCCESS)
        return false;
    MPI_Comm_size(near, &count);
    MPI_Comm_free(&near);
    return agree_all(self, (uint32_t)count == self->ranks);
}

/* Whether the segments of all can be opened here. The group is of an epoch that no sum has. */
static bool reaches_all(const tarry_mpi *self, const address *all)
{
    tarry_engine_member *members = calloc(self->ranks, sizeof(*members));
    for (uint32_t rank = 0; members != NULL && rank < self->ranks; rank++)
        members[rank] = (tarry_engine_member){
            .worker = rank, .address = all[rank].bytes, .address_size = (size_t)all[rank].size};
    const tarry_engine_group group = {
        .epoch = 0, .count = self->ranks, .place = self->rank, .members = members};
    bool reaches =
        members != NULL && self->engine->methods->form(self->engine, &group, NULL) == TARRY_OK;
    free(members);
    return reaches;
}

/* Shared memory, if that reaches all. */
static bool share_memory(tarry_mpi *self, const tarry_allocator *allocator)
{
    tarry_direct_settings wanted;
    tarry_direct_settings_init(&wanted);
    wanted.listen = NULL;
    if (!is_one_machine(self))
        return false;
    int error = tarry_direct_create(&wanted, allocator, &self->engine, NULL);
    bool shares = agree_all(self, error == TARRY_OK);
    if (shares) {
        address *all = gather_addresses(self);
        shares = all != NULL && agree_all(self, reaches_all(self, all));
        free(all);
    }
    if (!shares && error == TARRY_OK) {
        self->engine->methods->free(self->engine);
        self->engine = NULL;
    }
    return shares;
}

static int make_engine(tarry_mpi *self, const tarry_mpi_settings *settings,
                       const tarry_allocator *allocator)
{
    self->shares = !settings->no_shared_memory && share_memory(self, allocator);
    if (!self->shares)
        self->engine = sum_engine_create(self->post, WORD_BLOCK, self->rank, self->ranks);
    return agree(self, self->engine != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY);
}

/* ---- creation and the end ---- */

static int make_worker(tarry_mpi *self, const tarry_plan *plan, const tarry_mpi_settings *settings,
                       const tarry_allocator *allocator, tarry_diagnostic *diagnostic)
{
    tarry_worker_host_settings wanted;
    tarry_worker_host_settings_init(&wanted);
    wanted.worker = self->rank;
    wanted.parameters = settings->parameters;
    wanted.dimension = settings->dimension;
    wanted.server = settings->server;
    wanted.server.dimension = settings->dimension;
    wanted.straggler = settings->straggler;
    wanted.compute = ranks_compute;
    wanted.user = self;
    wanted.send = ranks_send_up;
    wanted.give_up = ranks_give_up;
    wanted.broken = ranks_broken;
    wanted.pass = ranks_pass;
    wanted.replica = settings->replica;
    wanted.last = settings->last;
    wanted.engine = self->engine;
    return tarry_worker_host_create(plan, &wanted, allocator, &self->worker, diagnostic);
}

static int introduce(const tarry_mpi *self)
{
    address *all = gather_addresses(self);
    int error = all != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
    for (uint32_t rank = 0; rank < self->ranks && error == TARRY_OK; rank++)
        if (rank != self->rank)
            error =
                tarry_worker_host_meet(self->worker, rank, all[rank].bytes, (size_t)all[rank].size);
    free(all);
    return error;
}

/* What each makes for itself; then all agree. */
static int make(tarry_mpi *self, const tarry_plan *plan, const tarry_mpi_settings *settings,
                const tarry_allocator *allocator, tarry_diagnostic *diagnostic)
{
    const post_settings posting = {
        .comm = self->comm, .take = ranks_take, .broken = ranks_unreachable, .user = self};
    self->post = post_create(&posting);
    int error = agree(self, self->post != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY);
    if (error == TARRY_OK)
        error = make_engine(self, settings, allocator);
    if (error != TARRY_OK)
        return error;
    error = make_worker(self, plan, settings, allocator, diagnostic);
    if (error == TARRY_OK && self->rank == 0)
        error = ranks_server_create(self, plan, settings, allocator, diagnostic);
    error = agree(self, error);
    return error == TARRY_OK ? agree(self, introduce(self)) : error;
}

int tarry_mpi_create(MPI_Comm comm, const tarry_plan *plan, const tarry_mpi_settings *settings,
                     const tarry_allocator *allocator, tarry_mpi **out,
                     tarry_diagnostic *diagnostic)
{
    int error = check_mpi(diagnostic), rank, ranks;
    if (error != TARRY_OK)
        return error;
    tarry_mpi *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return say(diagnostic, TARRY_ERROR_NO_MEMORY, "ranks: out of memory");
    if (MPI_Comm_dup(comm, &self->comm) != MPI_SUCCESS) {
        free(self);
        return say(diagnostic, TARRY_ERROR_SYSTEM, "ranks: MPI makes no communicator");
    }
    MPI_Comm_set_errhandler(self->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(self->comm, &rank);
    MPI_Comm_size(self->comm, &ranks);
    self->rank = (uint32_t)rank;
    self->ranks = (uint32_t)ranks;
    self->connection = 1;
    self->compute = settings->compute;
    self->user = settings->user;
    self->patience_ns = settings->patience_ns;
    self->sign_ns = settings->server.silence_ns / SIGN_FRACTION;
    tarry_diagnostic why = {""};
    error = agree(self, check_settings(self, plan, settings, &why));
    if (error == TARRY_OK)
        error = compare(self, plan, settings, &why);
    if (error == TARRY_OK)
        error = make(self, plan, settings, allocator, &why);
    if (error != TARRY_OK) {
        tarry_runtime_free(self->runtime, true);
        tarry_worker_host_free(self->worker);
        ranks_release(self, true);
        return say(diagnostic, error, "%s",
                   why.text[0] != '\0' ? why.text : "ranks: another rank could not begin");
    }
    ranks_hello(self);
    *out = self;
    return TARRY_OK;
}

void ranks_release(tarry_mpi *self, bool whole)
{
    if (self->engine != NULL)
        self->engine->methods->free(self->engine);
    post_free(self->post);
    free(self->peers);
    if (whole)
        MPI_Comm_free(&self->comm);
    free(self);
}
