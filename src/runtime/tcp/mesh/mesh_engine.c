/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's functions: groups, and what the caller has the thread do about sums (mesh_sum.c). */
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "runtime/tcp/mesh/mesh_state.h"

static mesh *of_engine(tarry_engine *engine)
{
    return (mesh *)engine; /* its first member */
}

static void engine_address(tarry_engine *engine, uint8_t *bytes, size_t *size)
{
    mesh_own_address(of_engine(engine), bytes, size);
}

static void free_group(mesh *self)
{
    mesh_sum *sum = &self->sum;
    mesh_form_free(self);
    mesh_route_free(self);
    memory_release(&self->allocator, sum->z);
    memory_release(&self->allocator, sum->among);
    memory_release(&self->allocator, sum->has);
    memory_release(&self->allocator, sum->intake);
    memory_release(&self->allocator, sum->workers);
    memory_release(&self->allocator, sum->members);
    *sum = (mesh_sum){.loads = sum->loads};
}

static int make_group(mesh *self, uint32_t count)
{
    mesh_sum *sum = &self->sum;
    const tarry_allocator *from = &self->allocator;
    sum->members = memory_allocate(from, count, sizeof(*sum->members));
    sum->workers = memory_allocate(from, count, sizeof(*sum->workers));
    sum->intake = memory_allocate(from, count, sizeof(*sum->intake));
    sum->has = memory_allocate(from, count, sizeof(*sum->has));
    sum->among = memory_allocate(from, count, sizeof(*sum->among));
    sum->z = memory_allocate(from, count, sizeof(*sum->z));
    if (sum->members == NULL || sum->workers == NULL || sum->intake == NULL || sum->has == NULL ||
        sum->among == NULL || sum->z == NULL)
        return TARRY_ERROR_NO_MEMORY;
    sum->kernel = kernel_best();
    sum->count = count;
    return TARRY_OK;
}

typedef struct forming {
    const tarry_engine_group *group;
    const mesh_address *where;
    tarry_shape shape;
    int error;
} forming;

/* What was not chosen is direct. */
static tarry_shape shape_of(const tarry_engine_group *group)
{
    const tarry_shape direct = {TARRY_SHAPE_DIRECT, 0};
    return group->shape.kind == TARRY_SHAPE_AUTO ? direct : group->shape;
}

/* Members of the group before that nobody else has admitted are none any more. */
static void forget_members(mesh *self)
{
    for (size_t i = 0; i < self->member_count;) {
        mesh_member *member = self->members[i];
        if (member->grouped || member->admitted)
            i++;
        else
            mesh_drop(self, member, "is no member any more");
    }
}

static void form(mesh *self, void *argument)
{
    forming *asked = argument;
    const tarry_engine_group *group = asked->group;
    mesh_sum *sum = &self->sum;
    mesh_sum_let_go(self);
    for (size_t i = 0; i < self->member_count; i++)
        self->members[i]->grouped = false;
    free_group(self);
    asked->error = make_group(self, group->count);
    for (uint32_t i = 0; asked->error == TARRY_OK && i < group->count; i++) {
        mesh_member *member = NULL;
        if (i != group->place) {
            member = mesh_add(self, group->members[i].worker, &asked->where[i]);
            asked->error = member != NULL ? TARRY_OK : TARRY_ERROR_NO_MEMORY;
        }
        if (member != NULL) {
            member->grouped = true;
            member->place = i;
        }
        sum->members[i] = member;
        sum->workers[i] = group->members[i].worker;
    }
    sum->place = group->place;
    sum->shape = asked->shape;
    if (asked->error == TARRY_OK)
        asked->error = mesh_route_make(self, asked->where);
    if (asked->error == TARRY_OK)
        mesh_choose_links(self);
    if (asked->error != TARRY_OK)
        free_group(self);
    forget_members(self);
    mesh_group_stands(self, asked->error == TARRY_OK);
    mesh_engine_is(self, TARRY_ENGINE_IDLE, TARRY_ENGINE_NOBODY, "");
}

void mesh_group_stands(mesh *self, bool stands)
{
    pthread_mutex_lock(&self->lock);
    self->group_stands = stands;
    pthread_mutex_unlock(&self->lock);
}

/* ---- the group, as the caller knows it ---- */

static void forget_formed(mesh *self)
{
    memory_release(&self->allocator, self->formed.members);
    self->formed.members = NULL;
    self->formed.count = 0;
}

static int note_formed(mesh *self, const tarry_engine_group *group)
{
    self->formed.members =
        memory_allocate(&self->allocator, group->count, sizeof(*self->formed.members));
    if (self->formed.members == NULL)
        return TARRY_ERROR_NO_MEMORY;
    for (uint32_t i = 0; i < group->count; i++) {
        mesh_formed *member = &self->formed.members[i];
        member->worker = group->members[i].worker;
        member->address_size = group->members[i].address_size;
        memcpy(member->address, group->members[i].address, member->address_size);
    }
    self->formed.epoch = group->epoch;
    self->formed.shape = shape_of(group);
    self->formed.count = group->count;
    self->formed.place = group->place;
    return TARRY_OK;
}

static bool is_formed(const mesh *self, const tarry_engine_group *group)
{
    const tarry_shape shape = shape_of(group);
    if (self->formed.count != group->count || self->formed.place != group->place ||
        self->formed.shape.kind != shape.kind || self->formed.shape.rows != shape.rows)
        return false;
    for (uint32_t i = 0; i < group->count; i++) {
        const mesh_formed *member = &self->formed.members[i];
        const tarry_engine_member *given = &group->members[i];
        if (member->worker != given->worker || member->address_size != given->address_size ||
            memcmp(member->address, given->address, given->address_size) != 0)
            return false;
    }
    return true;
}

static bool engine_runs(const mesh *self)
{
    return self->engine_progress.state == TARRY_ENGINE_RUNNING;
}

/* With the lock held, while nothing runs. */
static void become_idle(mesh *self, uint64_t whole)
{
    self->engine_progress = (tarry_engine_progress){
        .state = TARRY_ENGINE_IDLE,
        .suspect = TARRY_ENGINE_NOBODY,
        .whole = whole,
    };
}

/* The same members as before need nothing but another epoch: the thread hears of that with the next
 * sum. */
static bool goes_on(mesh *self, const tarry_engine_group *group)
{
    bool same = is_formed(self, group);
    pthread_mutex_lock(&self->lock);
    bool on = same && self->group_stands && !engine_runs(self);
    if (on)
        become_idle(self, 0);
    pthread_mutex_unlock(&self->lock);
    if (on)
        self->formed.epoch = group->epoch;
    return on;
}

static int engine_form(tarry_engine *engine, const tarry_engine_group *group,
                       tarry_diagnostic *diagnostic)
{
    mesh *self = of_engine(engine);
    forming asked = {.group = group, .shape = shape_of(group), .error = TARRY_OK};
    if (goes_on(self, group))
        return TARRY_OK;
    mesh_address *where = memory_allocate(&self->allocator, group->count, sizeof(*where));
    if (where == NULL)
        return diagnose_no_memory(diagnostic, "a group of workers");
    int error = group->place < group->count
                    ? TARRY_OK
                    : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: place %u of %u",
                               group->place, group->count);
    if (error == TARRY_OK && !route_is_legal(asked.shape, group->count))
        error =
            diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: a shape of %u rows for %u members",
                     asked.shape.rows, group->count);
    for (uint32_t i = 0; error == TARRY_OK && i < group->count; i++) {
        const tarry_engine_member *member = &group->members[i];
        if (mesh_address_decode(member->address, member->address_size, &where[i]) != TARRY_OK)
            error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                             "group: worker %u has no address for connections", member->worker);
        else if (i > 0 && member->worker <= group->members[i - 1].worker)
            error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: worker %u is out of order",
                             member->worker);
        else if ((memcmp(where[i].instance, self->own.instance, WIRE_ID_BYTES) == 0) !=
                 (i == group->place))
            error = diagnose(diagnostic, TARRY_ERROR_ARGUMENT,
                             "group: the own address is not in the own place");
    }
    asked.where = where;
    if (error == TARRY_OK) {
        mesh_do(self, form, &asked);
        forget_formed(self);
        error = asked.error == TARRY_OK ? note_formed(self, group) : asked.error;
        if (error != TARRY_OK)
            diagnose_no_memory(diagnostic, "a group of workers");
    }
    memory_release(&self->allocator, where);
    return error;
}

static void start(mesh *self, void *argument)
{
    (void)argument;
    mesh_sum_start(self, &self->formed.asked, self->formed.stride, self->formed.epoch);
}

/* The thread is not waited for: what it finds wrong is a failure of the sum. */
static int engine_start(tarry_engine *engine, const tarry_engine_sum *sum)
{
    mesh *self = of_engine(engine);
    pthread_mutex_lock(&self->lock);
    bool runs = self->engine_progress.state == TARRY_ENGINE_RUNNING;
    pthread_mutex_unlock(&self->lock);
    if (self->formed.count == 0 || runs)
        return TARRY_ERROR_STATE;
    int error = share_rest(sum, &self->formed.asked, &self->formed.stride);
    if (error == TARRY_OK)
        error = mesh_route_make_room(self, sum->parts);
    if (error == TARRY_OK)
        error = mesh_form_make_room(self, &self->formed.asked);
    if (error != TARRY_OK)
        return error;
    pthread_mutex_lock(&self->lock);
    self->engine_progress =
        (tarry_engine_progress){.state = TARRY_ENGINE_RUNNING, .suspect = TARRY_ENGINE_NOBODY};
    pthread_mutex_unlock(&self->lock);
    mesh_post(self, start, NULL);
    return TARRY_OK;
}

static void engine_wait(tarry_engine *engine, uint64_t until_ns, tarry_engine_progress *progress)
{
    mesh *self = of_engine(engine);
    pthread_mutex_lock(&self->lock);
    mesh_wait(self, &self->engine_woken, until_ns, engine_runs);
    *progress = self->engine_progress;
    pthread_mutex_unlock(&self->lock);
}

static void engine_wake(tarry_engine *engine)
{
    mesh_wake(of_engine(engine), &of_engine(engine)->engine_woken);
}

static void abandon(mesh *self, void *argument)
{
    (void)argument;
    mesh_sum_let_go(self);
    mesh_engine_is(self, TARRY_ENGINE_IDLE, TARRY_ENGINE_NOBODY, "");
}

/* The thread is waited for only where it has something to let go. */
static void engine_abandon(tarry_engine *engine)
{
    mesh *self = of_engine(engine);
    pthread_mutex_lock(&self->lock);
    bool runs = engine_runs(self);
    if (!runs)
        become_idle(self, self->engine_progress.whole);
    pthread_mutex_unlock(&self->lock);
    if (runs)
        mesh_do(self, abandon, NULL);
}

static void engine_free(tarry_engine *engine)
{
    mesh_free(of_engine(engine));
}

const tarry_engine_methods mesh_engine_methods = {
    .name = "direct",
    .address = engine_address,
    .form = engine_form,
    .start = engine_start,
    .wait = engine_wait,
    .wake = engine_wake,
    .abandon = engine_abandon,
    .free = engine_free,
    .forms = true,
};

void mesh_engine_close(mesh *self)
{
    free_group(self);
    forget_formed(self);
}
