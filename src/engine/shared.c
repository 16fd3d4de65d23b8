/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/shared.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "engine/shared_state.h"

/* base is the first member. */
static shared_engine *of_base(tarry_engine *base)
{
    return (shared_engine *)base;
}

static void give_address(tarry_engine *base, uint8_t *bytes, size_t *size)
{
    memcpy(bytes, of_base(base)->address, SEGMENT_ADDRESS);
    *size = SEGMENT_ADDRESS;
}

/* ---- groups ---- */

static void abandon(tarry_engine *base)
{
    shared_engine *engine = of_base(base);
    if (engine->progress.state == TARRY_ENGINE_RUNNING)
        shared_sum_end(engine, TARRY_ENGINE_IDLE);
    engine->progress = (tarry_engine_progress){.state = TARRY_ENGINE_IDLE,
                                               .suspect = TARRY_ENGINE_NOBODY,
                                               .whole = engine->progress.whole};
}

static void release_members(shared_engine *engine, shared_member *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (members[i].open)
            segment_close(&members[i].memory);
    memory_release(&engine->allocator, members);
}

static int check_group(const shared_engine *engine, const tarry_engine_group *group,
                       tarry_diagnostic *diagnostic)
{
    if (group->count < 1 || group->place >= group->count)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: place %u of %u", group->place,
                        group->count);
    for (uint32_t i = 0; i < group->count; i++) {
        const tarry_engine_member *member = &group->members[i];
        size_t numbers;
        if (!segment_read_address(member->address, member->address_size, &numbers))
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                            "group: worker %u has no address in shared memory", member->worker);
        if (i > 0 && member->worker <= group->members[i - 1].worker)
            return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: worker %u is out of order",
                            member->worker);
    }
    if (memcmp(group->members[group->place].address, engine->address, SEGMENT_ADDRESS) != 0)
        return diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: the own address is another one");
    return TARRY_OK;
}

/* Takes over what the old group had open. */
static void adopt_open(shared_engine *engine, shared_member *member)
{
    for (uint32_t i = 0; i < engine->count; i++) {
        shared_member *old = &engine->members[i];
        if (old->open && memcmp(old->address, member->address, SEGMENT_ADDRESS) == 0) {
            member->memory = old->memory;
            member->open = true;
            old->open = false;
            return;
        }
    }
}

/* Errors: as segment_open; *place says who can't be opened then. */
static int open_members(shared_engine *engine, uint32_t *place, tarry_diagnostic *diagnostic)
{
    int error = TARRY_OK;
    for (uint32_t i = 0; i < engine->count && error == TARRY_OK; i++) {
        shared_member *member = &engine->members[i];
        if (i == engine->place || member->open)
            continue;
        error = segment_open(engine->pool, member->address, &member->memory, diagnostic);
        member->open = error == TARRY_OK;
        *place = i;
    }
    return error;
}

static int form(tarry_engine *base, const tarry_engine_group *group, tarry_diagnostic *diagnostic)
{
    shared_engine *engine = of_base(base);
    abandon(base);
    int error = check_group(engine, group, diagnostic);
    if (error != TARRY_OK)
        return error;
    shared_member *members = memory_allocate(&engine->allocator, group->count, sizeof(*members));
    const float **z = memory_allocate(&engine->allocator, group->count, sizeof(*z));
    bool *has = memory_allocate(&engine->allocator, group->count, sizeof(*has));
    if (members == NULL || z == NULL || has == NULL) {
        memory_release(&engine->allocator, has);
        memory_release(&engine->allocator, z);
        memory_release(&engine->allocator, members);
        return diagnose_no_memory(diagnostic, "group");
    }
    for (uint32_t i = 0; i < group->count; i++) {
        members[i].worker = group->members[i].worker;
        memcpy(members[i].address, group->members[i].address, SEGMENT_ADDRESS);
        adopt_open(engine, &members[i]);
    }
    release_members(engine, engine->members, engine->count);
    memory_release(&engine->allocator, engine->z);
    memory_release(&engine->allocator, engine->has);
    engine->members = members;
    engine->z = z;
    engine->has = has;
    engine->count = group->count;
    engine->place = group->place;
    engine->epoch = group->epoch;
    uint32_t place;
    open_members(engine, &place, NULL); /* who can't be opened is looked for again at each start */
    return TARRY_OK;
}

/* ---- sums ---- */

static int start(tarry_engine *base, const tarry_engine_sum *sum)
{
    shared_engine *engine = of_base(base);
    if (engine->count == 0 || engine->progress.state == TARRY_ENGINE_RUNNING)
        return TARRY_ERROR_STATE;
    int error = shared_sum_begin(engine, sum);
    uint32_t place;
    tarry_diagnostic why;
    if (error != TARRY_OK)
        return error;
    error = open_members(engine, &place, &why);
    if (error == TARRY_ERROR_NO_MEMORY) /* the other one is not to blame */
        shared_sum_fail(engine, TARRY_ENGINE_NOBODY, why.text);
    else if (error != TARRY_OK)
        shared_sum_fail(engine, engine->members[place].worker, why.text);
    return TARRY_OK;
}

static bool is_over(uint64_t until_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec >= until_ns;
}

/* Sleeps until the laggard does something. False: it is time to return. */
static bool sleep_for(shared_engine *engine, uint32_t place, uint64_t until_ns)
{
    segment_board *board = engine->own.board;
    uint32_t expected;
    bool more = true;
    atomic_store(&board->waits_for, place + 1);
    /* From here on it rings. What it did before is seen now. */
    uint32_t heard = atomic_load(engine->own.bell);
    if (shared_sum_laggard(engine, &expected) && expected == place && !atomic_load(&engine->woken))
        more = segment_sleep(&engine->own, heard, until_ns);
    atomic_store(&board->waits_for, 0);
    return more;
}

static void wait_for_sum(tarry_engine *base, uint64_t until_ns, tarry_engine_progress *progress)
{
    shared_engine *engine = of_base(base);
    bool more = true;
    while (more && engine->progress.state == TARRY_ENGINE_RUNNING &&
           !atomic_exchange(&engine->woken, false)) {
        uint32_t place;
        if (shared_sum_step(engine))
            more = until_ns == 0 || !is_over(until_ns);
        else if (until_ns == 0)
            more = false;
        else if (shared_sum_laggard(engine, &place))
            more = sleep_for(engine, place, until_ns);
    }
    *progress = engine->progress;
}

static void wake(tarry_engine *base)
{
    shared_engine *engine = of_base(base);
    atomic_store(&engine->woken, true);
    segment_ring(&engine->own);
}

/* ---- life ---- */

bool shared_engine_reaches(const tarry_engine *engine, const uint8_t *address, size_t size)
{
    size_t numbers;
    return segment_read_address(address, size, &numbers) &&
           segment_addresses_meet(((const shared_engine *)engine)->address, address);
}

static void free_engine(tarry_engine *base)
{
    shared_engine *engine = of_base(base);
    abandon(base);
    release_members(engine, engine->members, engine->count);
    memory_release(&engine->allocator, engine->z);
    memory_release(&engine->allocator, engine->has);
    segment_close(&engine->own);
    tarry_allocator allocator = engine->allocator;
    memory_release(&allocator, engine);
}

static const tarry_engine_methods methods = {
    .name = "shared",
    .address = give_address,
    .form = form,
    .start = start,
    .wait = wait_for_sum,
    .wake = wake,
    .abandon = abandon,
    .free = free_engine,
    .forms = true,
};

int shared_engine_create(size_t numbers, segment_pool *pool, const tarry_allocator *allocator,
                         tarry_engine **out, tarry_diagnostic *diagnostic)
{
    shared_engine *engine = memory_allocate(allocator, 1, sizeof(*engine));
    if (engine == NULL)
        return diagnose_no_memory(diagnostic, "engine");
    size_t count = numbers == 0 ? SHARED_NUMBERS : numbers;
    int error = pool != NULL ? segment_pool_add(pool, count, &engine->own, diagnostic)
                             : segment_create(count, &engine->own, diagnostic);
    if (error != TARRY_OK) {
        memory_release(allocator, engine);
        return error;
    }
    error = segment_address(&engine->own, engine->address, diagnostic);
    if (error != TARRY_OK) {
        segment_close(&engine->own);
        memory_release(allocator, engine);
        return error;
    }
    engine->base.methods = &methods;
    engine->pool = pool;
    engine->allocator = memory_allocator(allocator);
    engine->with = kernel_best();
    engine->progress.suspect = TARRY_ENGINE_NOBODY;
    *out = &engine->base;
    return TARRY_OK;
}
