/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tcp/mesh/brought.h"

#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/tcp/mesh/paired_address.h"

typedef struct brought {
    tarry_engine base;
    tarry_allocator allocator;
    const mesh *connections;
    tarry_engine *own;
    paired_address address; /* without the connections; points to: */
    uint8_t own_address[TARRY_ENGINE_ADDRESS_MOST];
} brought;

static brought *of_base(tarry_engine *base)
{
    return (brought *)base; /* its first member */
}

static void give_address(tarry_engine *base, uint8_t *bytes, size_t *size)
{
    const brought *self = of_base(base);
    paired_address_encode(&self->address, self->connections, bytes, size);
}

/* What its own engine knows of a member. Errors: ARGUMENT. */
static int translate(const brought *self, const tarry_engine_member *from, tarry_engine_member *to,
                     tarry_diagnostic *diagnostic)
{
    paired_address parts;
    if (!paired_address_decode(from->address, from->address_size, &parts))
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: worker %u has no address",
                        from->worker);
    if (!paired_address_alike(&parts, &self->address)) {
        char name[PAIRED_NAME_MOST + 1];
        paired_address_name(&parts, name);
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                        "group: worker %u sums by the engine '%s', and this one by '%s'",
                        from->worker, name, self->own->methods->name);
    }
    *to = (tarry_engine_member){
        .worker = from->worker, .address = parts.own, .address_size = parts.own_size};
    return TARRY_OK;
}

static int form(tarry_engine *base, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    const brought *self = of_base(base);
    self->own->methods->abandon(self->own);
    tarry_engine_member *members =
        memory_allocate(&self->allocator, group->count, sizeof(*members));
    if (members == NULL)
        return diagnose_no_memory(diagnostic, "a group of workers");
    tarry_engine_group formed = *group;
    formed.members = members;
    int error = TARRY_OK;
    for (uint32_t i = 0; i < group->count && error == TARRY_OK; i++)
        error = translate(self, &group->members[i], &members[i], diagnostic);
    if (error == TARRY_OK)
        error = self->own->methods->form(self->own, &formed, diagnostic);
    memory_release(&self->allocator, members);
    return error;
}

static int start(tarry_engine *base, const tarry_engine_sum *sum)
{
    tarry_engine *own = of_base(base)->own;
    return own->methods->start(own, sum);
}

static void wait_for_sum(tarry_engine *base, uint64_t until_ns, tarry_engine_progress *progress)
{
    tarry_engine *own = of_base(base)->own;
    own->methods->wait(own, until_ns, progress);
}

static void wake(tarry_engine *base)
{
    tarry_engine *own = of_base(base)->own;
    own->methods->wake(own);
}

static void abandon(tarry_engine *base)
{
    tarry_engine *own = of_base(base)->own;
    own->methods->abandon(own);
}

static void free_engine(tarry_engine *base)
{
    brought *self = of_base(base);
    tarry_allocator allocator = self->allocator;
    abandon(base);
    memory_release(&allocator, self);
}

static const tarry_engine_methods methods = {
    .name = "brought",
    .address = give_address,
    .form = form,
    .start = start,
    .wait = wait_for_sum,
    .wake = wake,
    .abandon = abandon,
    .free = free_engine,
};

int brought_create(const mesh *connections, tarry_engine *own, const tarry_allocator *allocator,
                   tarry_engine **out, tarry_diagnostic *diagnostic)
{
    brought *self = memory_allocate(allocator, 1, sizeof(*self));
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
    self->base.methods = &methods;
    self->allocator = memory_allocator(allocator);
    self->connections = connections;
    self->own = own;
    self->address = (paired_address){
        .name = own->methods->name,
        .name_size = strlen(own->methods->name),
        .own = self->own_address,
        .own_size = size,
    };
    *out = &self->base;
    return TARRY_OK;
}
