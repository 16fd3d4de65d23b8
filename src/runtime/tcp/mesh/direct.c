/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of workers that have connections, too, and their addresses. */
#include "runtime/tcp/mesh/direct.h"

#include <stdio.h>
#include <string.h>

#include <tarry/tcp.h>

#include "base/bytes.h"
#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sized.h"
#include "engine/shared.h"

/* ---- addresses ---- */

enum {
    HEAD_BYTES = 2,      /* bytes of what follows, up to the connections' address, */
    BROUGHT = 1 << 15,   /* and this if the engine is brought; then there is first */
    NAME_HEAD_BYTES = 1, /* the length of its name, and the name */
};

void paired_address_encode(const paired_address *from, const mesh *connections,
                           uint8_t bytes[TARRY_ENGINE_ADDRESS_MOST], size_t *size)
{
    bool brought = from->name_size > 0;
    size_t first = from->own_size + (brought ? NAME_HEAD_BYTES + from->name_size : 0);
    uint8_t part[TARRY_ENGINE_ADDRESS_MOST];
    size_t connected = 0;
    if (connections != NULL)
        mesh_own_address(connections, part, &connected);
    uint8_t *at = bytes_put(bytes, first | (brought ? BROUGHT : 0), HEAD_BYTES);
    if (brought) {
        at = bytes_put(at, from->name_size, NAME_HEAD_BYTES);
        memcpy(at, from->name, from->name_size);
        at += from->name_size;
    }
    if (from->own_size > 0)
        memcpy(at, from->own, from->own_size);
    memcpy(at + from->own_size, part, connected);
    *size = HEAD_BYTES + first + connected;
}

static bool is_name(const char *name, size_t size)
{
    bool good = size > 0 && size <= PAIRED_NAME_MOST;
    for (size_t i = 0; good && i < size; i++)
        good = name[i] > ' ' && name[i] <= '~';
    return good;
}

bool paired_address_may_name(const char *name)
{
    return is_name(name, strlen(name));
}

bool paired_address_decode(const uint8_t *bytes, size_t size, paired_address *out)
{
    if (size < HEAD_BYTES)
        return false;
    size_t head = (size_t)bytes_get(bytes, HEAD_BYTES), first = head & (BROUGHT - 1);
    if (first > size - HEAD_BYTES)
        return false;
    *out = (paired_address){
        .name = "",
        .own = bytes + HEAD_BYTES,
        .own_size = first,
        .connected = bytes + HEAD_BYTES + first,
        .connected_size = size - HEAD_BYTES - first,
    };
    if ((head & BROUGHT) == 0)
        return true;
    size_t named = first > 0 ? out->own[0] : 0;
    if (first < NAME_HEAD_BYTES + named || !is_name((const char *)out->own + 1, named))
        return false;
    out->name = (const char *)out->own + NAME_HEAD_BYTES;
    out->name_size = named;
    out->own += NAME_HEAD_BYTES + named;
    out->own_size -= NAME_HEAD_BYTES + named;
    return true;
}

bool paired_address_alike(const paired_address *one, const paired_address *other)
{
    return one->name_size == other->name_size &&
           memcmp(one->name, other->name, one->name_size) == 0;
}

void paired_address_name(const paired_address *of, char *text)
{
    bool brought = of->name_size > 0;
    snprintf(text, PAIRED_NAME_MOST + 1, "%.*s", brought ? (int)of->name_size : PAIRED_NAME_MOST,
             brought ? of->name : "direct");
}

int paired_address_admit(mesh *connections, uint32_t worker, const uint8_t *bytes, size_t size,
                         const uint8_t fingerprint[32])
{
    paired_address parts;
    if (!paired_address_decode(bytes, size, &parts))
        return TARRY_ERROR_FORMAT;
    return mesh_admit(connections, worker, parts.connected, parts.connected_size, fingerprint);
}

/* ---- engines ---- */

/* For each group the engine by which all its members can be reached: a worker's own one, or that
 * over its connections. */
typedef struct paired_engine {
    tarry_engine base;
    tarry_allocator allocator;
    mesh *connections;      /* NULL: none */
    bool owned;             /* the connections */
    bool brought;           /* the own engine is borrowed, and is that of all groups */
    tarry_engine *own;      /* in shared memory, or brought; NULL: none */
    tarry_engine *now;      /* that of the group; never NULL */
    paired_address address; /* without the connections; points to: */
    uint8_t own_address[TARRY_ENGINE_ADDRESS_MOST];
} paired_engine;

static paired_engine *of_base(tarry_engine *base)
{
    return (paired_engine *)base; /* its first member */
}

static void give_address(tarry_engine *base, uint8_t *bytes, size_t *size)
{
    const paired_engine *self = of_base(base);
    paired_address_encode(&self->address, self->connections, bytes, size);
}

/* Errors: ARGUMENT. */
static int look_at_one(const paired_engine *self, const tarry_engine_member *member,
                       paired_address *parts, tarry_diagnostic *diagnostic)
{
    if (!paired_address_decode(member->address, member->address_size, parts))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: worker %u has no address",
                        member->worker);
    if (paired_address_alike(parts, &self->address))
        return TARRY_OK;
    char theirs[PAIRED_NAME_MOST + 1], mine[PAIRED_NAME_MOST + 1];
    paired_address_name(parts, theirs);
    paired_address_name(&self->address, mine);
    return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                    "group: worker %u sums by the engine '%s', and this one by '%s'",
                    member->worker, theirs, mine);
}

/* Whether all members are in reach of the own engine. Errors: ARGUMENT. */
static int look_at(const paired_engine *self, const tarry_engine_group *group, bool *by_own,
                   tarry_diagnostic *diagnostic)
{
    *by_own = self->own != NULL;
    for (uint32_t i = 0; i < group->count; i++) {
        paired_address parts;
        int error = look_at_one(self, &group->members[i], &parts, diagnostic);
        if (error != TARRY_OK)
            return error;
        *by_own = *by_own &&
                  (self->brought || shared_engine_reaches(self->own, parts.own, parts.own_size));
    }
    if (!*by_own && self->connections == NULL)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "group: not all are on this machine, and there are no connections");
    return TARRY_OK;
}

static int form(tarry_engine *base, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    paired_engine *self = of_base(base);
    bool by_own;
    self->now->methods->abandon(self->now);
    int error = look_at(self, group, &by_own, diagnostic);
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
            .address = by_own ? parts.own : parts.connected,
            .address_size = by_own ? parts.own_size : parts.connected_size,
        };
    }
    tarry_engine_group formed = *group;
    formed.members = members;
    self->now = by_own ? self->own : mesh_engine(self->connections);
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
    const paired_engine *self = of_base(base);
    if (self->own != NULL)
        self->own->methods->wake(self->own);
    if (self->connections != NULL && !self->brought)
        mesh_engine(self->connections)->methods->wake(mesh_engine(self->connections));
}

static void abandon(tarry_engine *base)
{
    tarry_engine *now = of_base(base)->now;
    now->methods->abandon(now);
}

static void free_engine(tarry_engine *base)
{
    paired_engine *self = of_base(base);
    abandon(base);
    if (self->own != NULL && !self->brought)
        self->own->methods->free(self->own);
    if (self->owned)
        mesh_free(self->connections);
    tarry_allocator allocator = self->allocator;
    memory_release(&allocator, self);
}

static const tarry_engine_methods direct_methods = {
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

static const tarry_engine_methods brought_methods = {
    .name = "brought",
    .address = give_address,
    .form = form,
    .start = start,
    .wait = wait_for_sum,
    .wake = wake,
    .abandon = abandon,
    .free = free_engine,
};

int brought_create(mesh *connections, tarry_engine *own, const tarry_allocator *allocator,
                   tarry_engine **out, tarry_diagnostic *diagnostic)
{
    paired_engine *self = memory_allocate(allocator, 1, sizeof(*self));
    if (self == NULL)
        return diagnose_no_memory(diagnostic, "an engine of sums");
    size_t size = 0;
    own->methods->address(own, self->own_address, &size);
    if (size > TARRY_TCP_ENGINE_ADDRESS_MOST) {
        memory_release(allocator, self);
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "the engine '%s' has an address of %zu bytes, of which %u are allowed",
                        own->methods->name, size, (unsigned)TARRY_TCP_ENGINE_ADDRESS_MOST);
    }
    self->base.methods = &brought_methods;
    self->allocator = memory_allocator(allocator);
    self->connections = connections;
    self->brought = true;
    self->own = self->now = own;
    self->address = (paired_address){
        .name = own->methods->name,
        .name_size = strlen(own->methods->name),
        .own = self->own_address,
        .own_size = size,
    };
    *out = &self->base;
    return TARRY_OK;
}

int direct_create(mesh *connections, bool owned, bool shares, const tarry_allocator *allocator,
                  tarry_engine **out, tarry_diagnostic *diagnostic)
{
    paired_engine *self = memory_allocate(allocator, 1, sizeof(*self));
    int error = TARRY_OK;
    if (self == NULL)
        error = diagnose_no_memory(diagnostic, "an engine of sums");
    else if (!shares && connections == NULL)
        error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                         "direct: neither connections nor shared memory");
    else if (shares)
        error = shared_engine_create(0, NULL, allocator, &self->own, diagnostic);
    if (error != TARRY_OK) {
        memory_release(allocator, self);
        if (owned)
            mesh_free(connections);
        return error;
    }
    self->base.methods = &direct_methods;
    self->allocator = memory_allocator(allocator);
    self->connections = connections;
    self->owned = owned;
    self->now = self->own != NULL ? self->own : mesh_engine(connections);
    self->address = (paired_address){.name = "", .own = self->own_address};
    if (self->own != NULL)
        self->own->methods->address(self->own, self->own_address, &self->address.own_size);
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
