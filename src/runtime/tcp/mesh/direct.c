/* SPDX-License-Identifier: Apache-2.0 */
/* Two engines behind one: for each group the one by which all its members can be reached. */
#include "runtime/tcp/mesh/direct.h"

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "engine/shared.h"
#include "runtime/tcp/mesh/paired_address.h"

typedef struct direct {
    tarry_engine base;
    tarry_allocator allocator;
    mesh *connections; /* NULL: none */
    bool owned;
    tarry_engine *shared; /* NULL: none */
    tarry_engine *now;    /* that of the group; never NULL */
} direct;

static direct *of_base(tarry_engine *base)
{
    return (direct *)base; /* its first member */
}

static void give_address(tarry_engine *base, uint8_t *bytes, size_t *size)
{
    const direct *self = of_base(base);
    uint8_t part[TARRY_ENGINE_ADDRESS_MOST];
    paired_address own = {.name = "", .own = part};
    if (self->shared != NULL)
        self->shared->methods->address(self->shared, part, &own.own_size);
    paired_address_encode(&own, self->connections, bytes, size);
}

/* Errors: ARGUMENT. */
static int look_at_one(const tarry_engine_member *member, paired_address *parts,
                       tarry_diagnostic *diagnostic)
{
    if (!paired_address_decode(member->address, member->address_size, parts))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: worker %u has no address",
                        member->worker);
    if (parts->name_size == 0)
        return TARRY_OK;
    char name[PAIRED_NAME_MOST + 1];
    paired_address_name(parts, name);
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                    "group: worker %u sums by the engine '%s', and this one by 'direct'",
                    member->worker, name);
}

/* Whether all members are in reach of shared memory. Errors: ARGUMENT. */
static int look_at(const direct *self, const tarry_engine_group *group, bool *shares,
                   tarry_diagnostic *diagnostic)
{
    *shares = self->shared != NULL;
    for (uint32_t i = 0; i < group->count; i++) {
        paired_address parts;
        int error = look_at_one(&group->members[i], &parts, diagnostic);
        if (error != TARRY_OK)
            return error;
        *shares = *shares && shared_engine_reaches(self->shared, parts.own, parts.own_size);
    }
    if (!*shares && self->connections == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "group: not all are on this machine, and there are no connections");
    return TARRY_OK;
}

static int form(tarry_engine *base, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    direct *self = of_base(base);
    bool shares;
    self->now->methods->abandon(self->now);
    int error = look_at(self, group, &shares, diagnostic);
    if (error != TARRY_OK)
        return error;
    tarry_engine_member *members =
        memory_allocate(&self->allocator, group->count, sizeof(*members));
    if (members == NULL)
        return diagnose_no_memory(diagnostic, "a group of workers");
    for (uint32_t i = 0; i < group->count; i++) {
        const tarry_engine_member *from = &group->members[i];
        paired_address parts = {.own = NULL};
        paired_address_decode(from->address, from->address_size, &parts);
        members[i] = (tarry_engine_member){
            .worker = from->worker,
            .address = shares ? parts.own : parts.connected,
            .address_size = shares ? parts.own_size : parts.connected_size,
        };
    }
    tarry_engine_group formed = *group;
    formed.members = members;
    self->now = shares ? self->shared : mesh_engine(self->connections);
    error = self->now->methods->form(self->now, &formed, diagnostic);
    memory_release(&self->allocator, members);
    return error;
}

static int start(tarry_engine *base, const tarry_engine_sum *sum)
{
    tarry_engine *now = of_base(base)->now;
    return now->methods->start(now, sum);
}

static void wait_for_sum(tarry_engine *base, uint64_t until_ns, tarry_engine_progress *progress)
{
    tarry_engine *now = of_base(base)->now;
    now->methods->wait(now, until_ns, progress);
}

/* By any thread, so that it can't tell which of them is waited for. */
static void wake(tarry_engine *base)
{
    const direct *self = of_base(base);
    if (self->shared != NULL)
        self->shared->methods->wake(self->shared);
    if (self->connections != NULL)
        mesh_engine(self->connections)->methods->wake(mesh_engine(self->connections));
}

static void abandon(tarry_engine *base)
{
    tarry_engine *now = of_base(base)->now;
    now->methods->abandon(now);
}

static void free_engine(tarry_engine *base)
{
    direct *self = of_base(base);
    self->now->methods->abandon(self->now);
    if (self->shared != NULL)
        self->shared->methods->free(self->shared);
    if (self->owned)
        mesh_free(self->connections);
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self);
}

static const tarry_engine_methods methods = {
    .name = "direct",
    .address = give_address,
    .form = form,
    .start = start,
    .wait = wait_for_sum,
    .wake = wake,
    .abandon = abandon,
    .free = free_engine,
    .forms = true,
};

int direct_create(mesh *connections, bool owned, bool shares, const tarry_allocator *allocator,
                  tarry_engine **out, tarry_diagnostic *diagnostic)
{
    direct *self = memory_allocate(allocator, 1, sizeof(*self));
    int error = TARRY_OK;
    if (self == NULL)
        error = diagnose_no_memory(diagnostic, "an engine of sums");
    else if (!shares && connections == NULL)
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                         "direct: neither connections nor shared memory");
    else if (shares)
        error = shared_engine_create(0, NULL, allocator, &self->shared, diagnostic);
    if (error != TARRY_OK) {
        memory_release(allocator, self);
        if (owned)
            mesh_free(connections);
        return error;
    }
    self->base.methods = &methods;
    self->allocator = memory_allocator(allocator);
    self->connections = connections;
    self->owned = owned;
    self->now = self->shared != NULL ? self->shared : mesh_engine(connections);
    *out = &self->base;
    return TARRY_OK;
}

void tarry_direct_settings_init_sized(tarry_direct_settings *settings, size_t size)
{
    if (sized_begin(settings, size, sizeof(*settings)))
        settings->listen = "127.0.0.1:0";
}

int tarry_direct_create(const tarry_direct_settings *settings, const tarry_allocator *allocator,
                        tarry_engine **out, tarry_diagnostic *diagnostic)
{
    mesh *connections = NULL;
    int error = sized_check(settings->size, sizeof(*settings), "direct", diagnostic);
    const mesh_settings over = {
        .listen = settings->listen,
        .advertise = settings->advertise,
        .credentials = settings->credentials,
        .allocator = allocator,
    };
    if (error == TARRY_OK && settings->listen != NULL)
        error = mesh_create(&over, &connections, diagnostic);
    if (error != TARRY_OK)
        return error;
    return direct_create(connections, true, !settings->no_shared_memory, allocator, out,
                         diagnostic);
}
