/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/diagnostic.h"
#include "base/memory.h"
#include "base/sum_id.h"
#include "protocol/wire/wire_bodies.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

/*
 * A sum over connections: its beginning, its end, and what comes in of it.
 * Who begins says so to all that it exchanges numbers with, and is then sent their coded parts,
 * stripe by stripe; each stripe that is in is decoded and sent on, so that both directions are in
 * use all the time. Coded parts go out only so far ahead of the stripe that is decoded next: a
 * member that waits for others' numbers need not send more, and what is on its way stays in the
 * caches. No members wait in a circle: who is furthest behind is sent its next stripe by all. A
 * member that is further ahead is not read once its window is full.
 */

/* ---- the end ---- */

static layout mesh_cut(const mesh_sum *sum, const tarry_engine_sum *asked);
static uint32_t mesh_next_stripe(const mesh_sum *sum, uint32_t owner, uint32_t stripe);
static bool mesh_meets(const mesh_sum *sum, uint32_t place);
static void mesh_flow_begin(const mesh_sum *sum, mesh_flow *flow);
static float *mesh_window(const mesh_sum *sum, uint32_t place, uint32_t stripe);
static int mesh_form_make_room(mesh *self, const tarry_engine_sum *asked);
static void mesh_form_free(mesh *self);
static void mesh_form_begin(mesh_sum *sum);
static void *mesh_form_place(const mesh_sum *sum, uint32_t place, const wire_block *block);
static void mesh_reduce_send_coded(mesh *self, uint32_t place);
static void mesh_reduce_look_whether_done(mesh *self);
static void mesh_reduce(mesh *self);
static void mesh_reduce_came(mesh *self, uint32_t place, mesh_flow *flow, const wire_block *block);
static void mesh_watch_begin(mesh *self);

static void mesh_sum_let_go(mesh *self)
{
    mesh_sum *sum = &self->sum;
    sum->runs = false;
    for (uint32_t i = 0; i < sum->count; i++) {
        const mesh_member *member = sum->members[i];
        if (member == NULL || !mesh_is_linked(member))
            continue;
        channel *its = member->link->channel;
        channel_drop(its, MESH_TAG_SUM);
        channel_divert(its, WIRE_BLOCK);
        channel_resume(its);
        if (!channel_detach(its, MESH_TAG_SUM))
            mesh_misbehaves(member->link, "out of memory");
    }
}

static void mesh_engine_is(mesh *self, tarry_engine_state state, uint32_t suspect, const char *why)
{
    pthread_mutex_lock(&self->lock);
    self->engine_progress.state = state;
    self->engine_progress.suspect = suspect;
    self->engine_progress.moved = self->sum.moved;
    snprintf(self->engine_progress.why, sizeof(self->engine_progress.why), "%s", why);
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->moved);
}

/* It fails, and the member in that place is suspected; the group's count: nobody is. */
static void mesh_sum_fail(mesh *self, uint32_t place, const char *why)
{
    char text[sizeof(self->engine_progress.why)];
    const mesh_sum *sum = &self->sum;
    uint32_t worker = place < sum->count ? sum->workers[place] : TARRY_ENGINE_NOBODY;
    if (place < sum->count)
        snprintf(text, sizeof(text), "worker %u: %s", worker, why);
    else
        snprintf(text, sizeof(text), "%s", why);
    mesh_sum_let_go(self);
    mesh_engine_is(self, TARRY_ENGINE_FAILED, worker, text);
}

/* It still has to send something, to be all. */
static bool mesh_sum_needs(const mesh_sum *sum, uint32_t place)
{
    const mesh_intake *intake = &sum->intake[place];
    return !intake->begun || (sum->has[place] && !mesh_flow_is_over(sum, &intake->coded)) ||
           !mesh_flow_is_over(sum, &intake->sum);
}

/* Something of that member came in. */
static void note(mesh_sum *sum, uint32_t place)
{
    sum->intake[place].came_ns = clock_now_ns();
    mesh_pace_moves(&sum->pace, sum->intake[place].came_ns);
}

/* ---- who takes part ---- */

/* All have begun with whom numbers are exchanged: whose coded parts there are is known. */
static void set_terms(mesh_sum *sum)
{
    share_terms_set(&sum->own.terms, sum->asked.weights, sum->asked.parts, sum->count, sum->has);
}

/* It has begun the sum that runs here. */
static void join(mesh *self, uint32_t place, const wire_begun *begun)
{
    mesh_sum *sum = &self->sum;
    mesh_intake *intake = &sum->intake[place];
    if (begun->dimension != sum->asked.dimension || begun->parts != sum->asked.parts ||
        begun->up != sum->forms.of.up.kind || begun->down != sum->forms.of.down.kind) {
        mesh_sum_fail(self, place, "it makes a sum of other numbers, or in another form");
        return;
    }
    if (intake->begun) /* or neither needs anything of the other */
        return;
    intake->begun = true;
    note(sum, place);
    sum->has[place] = !begun->empty;
    sum->begun++;
    mesh_reduce_send_coded(self, place);
    if (sum->begun == sum->count)
        set_terms(sum);
    mesh_reduce(self);
}

static bool is_this(const mesh_sum *sum, const wire_begun *begun)
{
    return sum->runs && begun->epoch == sum->epoch && sum_id_named(&begun->name, &sum->asked.name);
}

static void say_begun(mesh *self, const mesh_member *member)
{
    const mesh_sum *sum = &self->sum;
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    const wire_begun begun = {
        .name = sum->asked.name,
        .epoch = sum->epoch,
        .dimension = sum->asked.dimension,
        .parts = sum->asked.parts,
        .empty = !sum->has[sum->place],
        .up = sum->forms.of.up.kind,
        .down = sum->forms.of.down.kind,
    };
    channel_send(member->link->channel, frame, wire_encode(WIRE_BEGUN, &begun, frame));
}

/* The place of a member in the group that makes the sum; the group's count: it has none. */
static uint32_t place_of(const mesh_sum *sum, const mesh_member *member)
{
    uint32_t place = member->place;
    return place < sum->count && sum->members[place] == member ? place : sum->count;
}

void mesh_sum_linked(mesh *self, mesh_member *member)
{
    mesh_sum *sum = &self->sum;
    uint32_t place = place_of(sum, member);
    if (sum->runs && place < sum->count && mesh_meets(sum, place))
        say_begun(self, member);
}

void mesh_sum_lost(mesh *self, mesh_member *member, const char *why)
{
    const mesh_sum *sum = &self->sum;
    uint32_t place = place_of(sum, member);
    if (!sum->runs || place == sum->count)
        return;
    if (mesh_sum_needs(sum, place))
        mesh_sum_fail(self, place, why);
    else
        mesh_reduce_look_whether_done(self); /* it may have ended as it has all, too */
}

bool mesh_sum_begun(mesh_link *link, const wire_begun *begun)
{
    mesh *self = link->mesh;
    uint32_t place = place_of(&self->sum, link->member);
    link->begun = *begun;
    if (place < self->sum.count && is_this(&self->sum, begun))
        join(self, place, begun);
    return true;
}

/* ---- in ---- */

/* Whether a block belongs to the sum that runs. */
static bool is_wanted(const mesh_link *link, const wire_block *block, uint32_t *place)
{
    const mesh_sum *sum = &link->mesh->sum;
    if (!sum->runs || !sum_id_named(&block->name, &sum->asked.name))
        return false;
    *place = place_of(sum, link->member);
    return *place < sum->count && sum->intake[*place].begun;
}

/* The flow of that member whose next block it is; NULL: there is none. */
static mesh_flow *find_flow(const mesh_sum *sum, uint32_t place, const wire_block *block)
{
    mesh_intake *intake = &sum->intake[place];
    mesh_flow *flow = block->kind == WIRE_BLOCK_PART ? &intake->coded : &intake->sum;
    size_t first;
    bool next = place != sum->place && !mesh_flow_is_over(sum, flow) &&
                (flow->kind != MESH_CODED || sum->has[place]) && flow->part == block->part &&
                mesh_flow_next(sum, flow, &first) == block->count && first == block->first;
    return next ? flow : NULL;
}

static bool is_in_its_form(const mesh_sum *sum, const wire_block *block)
{
    const compress_form form = mesh_form_of(sum, block->kind, (share){block->first, block->count});
    return block->form == form.kind && block->bytes == compress_bytes(form, block->count);
}

channel_verdict mesh_sum_begin(mesh_link *link, const wire_block *block, void **place)
{
    mesh_sum *sum = &link->mesh->sum;
    uint32_t from;
    *place = NULL;
    if (!is_wanted(link, block, &from))
        return CHANNEL_TAKE; /* to nowhere */
    const mesh_flow *flow = find_flow(sum, from, block);
    if (flow == NULL || !is_in_its_form(sum, block)) {
        mesh_misbehaves(link, "it sends another block than the next one");
        return CHANNEL_END;
    }
    if (flow->kind == MESH_SUM) {
        *place = mesh_form_place(sum, from, block);
        return CHANNEL_TAKE;
    }
    if (flow->stripe >= (uint64_t)sum->own.decoded + sum->window_stripes)
        return CHANNEL_WAIT;
    *place = mesh_window(sum, from, flow->stripe);
    return CHANNEL_TAKE;
}

bool mesh_sum_complete(mesh_link *link, const wire_block *block)
{
    mesh *self = link->mesh;
    mesh_sum *sum = &self->sum;
    uint32_t from;
    if (!is_wanted(link, block, &from))
        return true;
    mesh_flow *flow = find_flow(sum, from, block);
    assert(flow != NULL); /* that it began in */
    note(sum, from);
    mesh_reduce_came(self, from, flow, block);
    return true;
}

/* ---- the beginning ---- */

static void begin(mesh *self, const tarry_engine_sum *asked)
{
    mesh_sum *sum = &self->sum;
    sum->asked = *asked;
    sum->cut = mesh_cut(sum, asked);
    sum->runs = true;
    sum->begun = 0;
    sum->moved = 0;
    sum->own.decoded = mesh_next_stripe(sum, sum->place, 0);
    for (uint32_t i = 0; i < sum->count; i++) {
        sum->intake[i].sent = 0;
        mesh_flow_begin(sum, &sum->intake[i].coded);
        mesh_flow_begin(sum, &sum->intake[i].sum);
    }
    mesh_form_begin(sum);
    mesh_watch_begin(self);
    for (uint32_t i = 0; i < sum->count; i++) {
        mesh_intake *intake = &sum->intake[i];
        intake->begun = !mesh_meets(sum, i);
        sum->has[i] = false;
        sum->begun += intake->begun;
        intake->came_ns = sum->pace.moved_ns;
    }
    sum->has[sum->place] = asked->part != NULL;
}

/* There is a group, nothing runs, and there is room for the parts. */
static void mesh_sum_start(mesh *self, const tarry_engine_sum *asked, uint64_t epoch)
{
    mesh_sum *sum = &self->sum;
    assert(sum->count > 0 && !sum->runs);
    sum->epoch = epoch;
    begin(self, asked);
    if (sum->begun == sum->count)
        set_terms(sum);
    for (uint32_t i = 0; i < sum->count && sum->runs; i++) {
        mesh_member *member = sum->members[i];
        if (!mesh_meets(sum, i))
            continue;
        if (member == NULL) {
            mesh_sum_fail(self, i, "is no member any more");
        } else if (!mesh_is_linked(member)) {
            mesh_hurry(self, member);
        } else {
            say_begun(self, member);
            if (sum->runs && is_this(sum, &member->link->begun))
                join(self, i, &member->link->begun);
        }
    }
    mesh_reduce(self);
    mesh_set_tick(self);
}

/* The engine's functions: groups, and what the caller has the thread do about sums (mesh_sum.c). */

enum {
    NUMBER_BYTES = 4,
    AHEAD_BYTES = 2 << 20, /* of the own coded part, to all together, within: */
    AHEAD_MOST = 16,       /* blocks to each of them */
    AHEAD_LEAST = 2,
    WINDOW_LEAST = 2,         /* blocks, of one member */
    WINDOWS_BYTES = 64 << 20, /* of all together, if that is enough for WINDOW_LEAST */
};

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
    vector_release(&self->allocator, sum->windows);
    memory_release(&self->allocator, sum->own.terms.rows);
    memory_release(&self->allocator, sum->own.terms.places);
    memory_release(&self->allocator, sum->z);
    memory_release(&self->allocator, sum->has);
    memory_release(&self->allocator, sum->intake);
    memory_release(&self->allocator, sum->workers);
    memory_release(&self->allocator, sum->members);
    *sum = (mesh_sum){.loads = sum->loads};
}

static void size_windows(mesh_sum *sum)
{
    size_t block = WIRE_BLOCK_NUMBERS, others = sum->count - 1;
    size_t ahead = others > 0 ? AHEAD_BYTES / NUMBER_BYTES / block / others : 0;
    ahead = ahead < AHEAD_LEAST ? AHEAD_LEAST : ahead > AHEAD_MOST ? AHEAD_MOST : ahead;
    /* Who is sent something may be as far behind again. */
    size_t blocks = others > 0 ? WINDOWS_BYTES / NUMBER_BYTES / block / others : 0;
    blocks = blocks < WINDOW_LEAST ? WINDOW_LEAST : blocks > 2 * ahead ? 2 * ahead : blocks;
    sum->window_stripes = blocks;
    sum->ahead = (uint32_t)ahead;
}

/* What comes from each member, and where it waits. */
static void make_intake(mesh_sum *sum)
{
    float *window = sum->windows;
    for (uint32_t i = 0; i < sum->count; i++) {
        sum->intake[i] = (mesh_intake){
            .coded = {.kind = MESH_CODED, .owner = sum->place},
            .sum = {.kind = MESH_SUM, .owner = i},
            .window = window,
        };
        if (i != sum->place)
            window += sum->window_stripes * WIRE_BLOCK_NUMBERS;
    }
}

static int make_group(mesh *self, uint32_t count, uint32_t place)
{
    mesh_sum *sum = &self->sum;
    const tarry_allocator *from = &self->allocator;
    sum->count = count;
    sum->place = place;
    size_windows(sum);
    sum->members = memory_allocate(from, count, sizeof(*sum->members));
    sum->workers = memory_allocate(from, count, sizeof(*sum->workers));
    sum->intake = memory_allocate(from, count, sizeof(*sum->intake));
    sum->has = memory_allocate(from, count, sizeof(*sum->has));
    sum->z = memory_allocate(from, count, sizeof(*sum->z));
    sum->own.terms.places = memory_allocate(from, count, sizeof(*sum->own.terms.places));
    sum->windows = vector_allocate(from, (count - 1) * sum->window_stripes * WIRE_BLOCK_NUMBERS);
    if (sum->members == NULL || sum->workers == NULL || sum->intake == NULL || sum->has == NULL ||
        sum->z == NULL || sum->own.terms.places == NULL || sum->windows == NULL)
        return TARRY_ERROR_NO_MEMORY;
    make_intake(sum);
    sum->kernel = kernel_best();
    return TARRY_OK;
}

typedef struct forming {
    const tarry_engine_group *group;
    const mesh_address *where;
    int error;
} forming;

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
    asked->error = make_group(self, group->count, group->place);
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
    self->formed.count = group->count;
    self->formed.place = group->place;
    return TARRY_OK;
}

static bool is_formed(const mesh *self, const tarry_engine_group *group)
{
    if (self->formed.count != group->count || self->formed.place != group->place)
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
static void become_idle(mesh *self)
{
    self->engine_progress =
        (tarry_engine_progress){.state = TARRY_ENGINE_IDLE, .suspect = TARRY_ENGINE_NOBODY};
}

/* The same members as before need nothing but another epoch: the thread hears of that with the next
 * sum. */
static bool goes_on(mesh *self, const tarry_engine_group *group)
{
    bool same = is_formed(self, group);
    pthread_mutex_lock(&self->lock);
    bool on = same && self->group_stands && !engine_runs(self);
    if (on)
        become_idle(self);
    pthread_mutex_unlock(&self->lock);
    if (on)
        self->formed.epoch = group->epoch;
    return on;
}

static int engine_form(tarry_engine *engine, const tarry_engine_group *group,
                       tarry_diagnostic *diagnostic)
{
    mesh *self = of_engine(engine);
    forming asked = {.group = group, .error = TARRY_OK};
    if (goes_on(self, group))
        return TARRY_OK;
    mesh_address *where = memory_allocate(&self->allocator, group->count, sizeof(*where));
    if (where == NULL)
        return diagnose_no_memory(diagnostic, "a group of workers");
    int error = group->place < group->count
                    ? TARRY_OK
                    : diagnose(diagnostic, TARRY_ERROR_ARGUMENT, "group: place %u of %u",
                               group->place, group->count);
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

/* For a sum of so many parts, while nothing runs. */
static int make_room_for_rows(mesh *self, uint32_t parts)
{
    mesh_sum *sum = &self->sum;
    size_t wanted = (size_t)parts * sum->count;
    if (wanted <= sum->rows_room)
        return TARRY_OK;
    float *rows = memory_allocate(&self->allocator, wanted, sizeof(*rows));
    if (rows == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memory_release(&self->allocator, sum->own.terms.rows);
    sum->own.terms.rows = rows;
    sum->rows_room = wanted;
    return TARRY_OK;
}

static void start(mesh *self, void *argument)
{
    (void)argument;
    mesh_sum_start(self, &self->formed.asked, self->formed.epoch);
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
    self->formed.asked = *sum;
    int error = make_room_for_rows(self, sum->parts);
    if (error == TARRY_OK)
        error = mesh_form_make_room(self, sum);
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
        become_idle(self);
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

/* Where things are in the sequence of blocks. A stripe is so long that no share of it has more
 * numbers than a block. */

/* How a sum of the group is cut: a share of a stripe is a block at most. */
static layout mesh_cut(const mesh_sum *sum, const tarry_engine_sum *asked)
{
    size_t stripe_length = (size_t)sum->count * WIRE_BLOCK_NUMBERS;
    return layout_make(asked->dimension, asked->parts, stripe_length);
}

/* The numbers of a stripe that the member in that place sums, within a part. */
static share mesh_share_of(const mesh_sum *sum, uint32_t owner, uint32_t stripe)
{
    return share_of(&sum->cut, stripe, sum->count, owner);
}

/* The first stripe from `stripe` on in which it has any. */
static uint32_t mesh_next_stripe(const mesh_sum *sum, uint32_t owner, uint32_t stripe)
{
    while (stripe < sum->cut.stripes && mesh_share_of(sum, owner, stripe).length == 0)
        stripe++;
    return stripe;
}

/* Whether it sums any numbers. */
static bool mesh_has_share(const mesh_sum *sum, uint32_t place)
{
    return mesh_share_of(sum, place, 0).length > 0; /* no stripe is longer */
}

/* Whether the member and this one have any numbers for each other. */
static bool mesh_meets(const mesh_sum *sum, uint32_t place)
{
    return place != sum->place && (mesh_has_share(sum, place) || mesh_has_share(sum, sum->place));
}

size_t mesh_flow_next(const mesh_sum *sum, const mesh_flow *flow, size_t *first)
{
    share of = mesh_share_of(sum, flow->owner, flow->stripe);
    *first = of.first;
    /* A coded part is padded. */
    return flow->kind == MESH_CODED ? of.length
                                    : layout_exists(&sum->cut, flow->part, of.first, of.length);
}

/* To the next block that has numbers, from this one on. */
static void settle(const mesh_sum *sum, mesh_flow *flow)
{
    size_t first;
    while (flow->stripe < sum->cut.stripes && mesh_flow_next(sum, flow, &first) == 0) {
        flow->part = 0; /* later parts have no more */
        flow->stripe++;
    }
}

static void mesh_flow_begin(const mesh_sum *sum, mesh_flow *flow)
{
    flow->stripe = flow->part = 0;
    settle(sum, flow);
}

static void mesh_flow_advance(const mesh_sum *sum, mesh_flow *flow)
{
    if (flow->kind == MESH_CODED || ++flow->part == sum->cut.parts) {
        flow->part = 0;
        flow->stripe++;
    }
    settle(sum, flow);
}

static float *mesh_window(const mesh_sum *sum, uint32_t place, uint32_t stripe)
{
    return sum->intake[place].window + stripe % sum->window_stripes * WIRE_BLOCK_NUMBERS;
}

/* Numbers of a sum in fewer bytes (engine/sum_form.h). What is sent stays in its form until
 * the sum's end; of the sum, others' bytes come beside it. */

enum { MOST_OF_ONE = 2 * NUMBER_BYTES /* bytes in any form */ };

static bool is_rounded(const mesh_sum *sum, tarry_way way)
{
    return sum_form_rounds(&sum->forms.of, way);
}

compress_form mesh_form_of(const mesh_sum *sum, wire_block_kind kind, share of)
{
    return sum_form_of(&sum->forms.of, kind == WIRE_BLOCK_PART ? TARRY_WAY_UP : TARRY_WAY_DOWN,
                       sum->cut.part_length, of.first, of.length);
}

static size_t block_bytes(const mesh_sum *sum, wire_block_kind kind, share of)
{
    return compress_bytes(mesh_form_of(sum, kind, of), of.length);
}

/* ---- room ---- */

/* Of what this member sends of the share in that place: the sum in its own, else its coded part. */
static size_t share_bytes(const mesh_sum *sum, uint32_t place)
{
    const bool own = place == sum->place;
    size_t bytes = 0;
    if (!is_rounded(sum, own ? TARRY_WAY_DOWN : TARRY_WAY_UP))
        return 0;
    for (uint32_t stripe = 0; stripe < sum->cut.stripes; stripe++)
        bytes += block_bytes(sum, own ? WIRE_BLOCK_SUM : WIRE_BLOCK_PART,
                             mesh_share_of(sum, place, stripe));
    return bytes;
}

static size_t out_bytes(const mesh_sum *sum)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < sum->count; i++)
        bytes += share_bytes(sum, i);
    return bytes;
}

/* Room for at least so many bytes; what was there is gone. */
static int make_room(const mesh *self, uint8_t **bytes, size_t *room, size_t wanted)
{
    if (wanted <= *room)
        return TARRY_OK;
    uint8_t *made = memory_allocate(&self->allocator, wanted, 1);
    if (made == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memory_release(&self->allocator, *bytes);
    *bytes = made;
    *room = wanted;
    return TARRY_OK;
}

static int mesh_form_make_room(mesh *self, const tarry_engine_sum *asked)
{
    mesh_sum *sum = &self->sum;
    mesh_forms *forms = &sum->forms;
    int error = sum_forms_of(asked, sum->count, sum->workers[sum->place], &forms->of);
    if (error != TARRY_OK || !(is_rounded(sum, TARRY_WAY_UP) || is_rounded(sum, TARRY_WAY_DOWN)))
        return error;
    sum->cut = mesh_cut(sum, asked);
    forms->in_stride = share_most(&sum->cut, sum->count) * NUMBER_BYTES + MOST_OF_ONE;
    if (is_rounded(sum, TARRY_WAY_UP))
        error = make_room(self, &forms->term, &forms->term_room, forms->in_stride);
    if (error == TARRY_OK && is_rounded(sum, TARRY_WAY_DOWN))
        error = make_room(self, &forms->in, &forms->in_room, sum->count * forms->in_stride);
    return error == TARRY_OK ? make_room(self, &forms->out, &forms->out_room, out_bytes(sum))
                             : error;
}

static void mesh_form_free(mesh *self)
{
    mesh_forms *forms = &self->sum.forms;
    memory_release(&self->allocator, forms->term);
    memory_release(&self->allocator, forms->in);
    memory_release(&self->allocator, forms->out);
    *forms = (mesh_forms){.in = NULL};
}

/* The sum begins. */
static void mesh_form_begin(mesh_sum *sum)
{
    uint8_t *at = sum->forms.out;
    for (uint32_t i = 0; i < sum->count; i++) {
        uint8_t **packed = i == sum->place ? &sum->own.packed : &sum->intake[i].packed;
        size_t bytes = share_bytes(sum, i);
        *packed = bytes > 0 ? at : NULL;
        at = bytes > 0 ? at + bytes : at;
    }
}

/* ---- on the way to owners ---- */

static const void *mesh_form_pack(const mesh_sum *sum, uint32_t place, share of)
{
    const float *numbers = sum->asked.part + of.first;
    uint8_t *packed = sum->intake[place].packed;
    if (!is_rounded(sum, TARRY_WAY_UP))
        return numbers;
    sum_form_encode(&sum->forms.of, TARRY_WAY_UP, sum->cut.part_length, of.first, of.length,
                    numbers, packed);
    return packed;
}

static void mesh_form_packed(mesh_sum *sum, uint32_t place, share of)
{
    if (is_rounded(sum, TARRY_WAY_UP))
        sum->intake[place].packed += block_bytes(sum, WIRE_BLOCK_PART, of);
}

/* The numbers of a block of a coded part that came, until the next ones are asked for. */
static const float *mesh_form_term(const mesh_sum *sum, const void *came, share of)
{
    float *term = (float *)(void *)sum->forms.term;
    sum_form_decode(mesh_form_of(sum, WIRE_BLOCK_PART, of), came, of.length, term);
    return term;
}

/* ---- and back ---- */

static void unpack(const mesh_sum *sum, const uint8_t *bytes, share of)
{
    sum_form_decode(mesh_form_of(sum, WIRE_BLOCK_SUM, of), bytes, of.length,
                    sum->asked.sum + of.first);
}

static void mesh_form_round(mesh_sum *sum, share of)
{
    if (!is_rounded(sum, TARRY_WAY_DOWN))
        return;
    sum_form_encode(&sum->forms.of, TARRY_WAY_DOWN, sum->cut.part_length, of.first, of.length,
                    sum->asked.sum + of.first, sum->own.packed);
    unpack(sum, sum->own.packed, of);
}

static void mesh_form_rounded(mesh_sum *sum, share of)
{
    if (is_rounded(sum, TARRY_WAY_DOWN))
        sum->own.packed += block_bytes(sum, WIRE_BLOCK_SUM, of);
}

/* Where a block of the sum is to be written as it comes from the member in that place, */
static void *mesh_form_place(const mesh_sum *sum, uint32_t place, const wire_block *block)
{
    if (is_rounded(sum, TARRY_WAY_DOWN))
        return sum->forms.in + place * sum->forms.in_stride;
    return sum->asked.sum + block->part * sum->cut.part_length + block->first;
}

/* ... and it is there. */
static void mesh_form_came(const mesh_sum *sum, uint32_t place, const wire_block *block)
{
    if (is_rounded(sum, TARRY_WAY_DOWN))
        unpack(sum, mesh_form_place(sum, place, block), (share){block->first, block->count});
}

/*
 * Adding up, stripe by stripe. The own share of a stripe is decoded once the coded parts of all
 * members are in, straight into the sum's place, and goes to all.
 */

/* ---- out ---- */

static void on_released(void *user, void *owner)
{
    mesh *self = owner;
    (void)user;
    self->sum.loads--;
    mesh_pace_moves(&self->sum.pace, clock_now_ns());
    mesh_reduce_look_whether_done(self);
}

/* False: the connection is over, as is told by and by. */
static bool send_block(mesh *self, mesh_member *to, const wire_block *block, const void *numbers)
{
    mesh_sum *sum = &self->sum;
    uint8_t prefix[WIRE_HEAD_BYTES + WIRE_SMALL_BYTES];
    size_t size = wire_encode(WIRE_BLOCK, block, prefix);
    const channel_load load = {
        .bytes = numbers,
        .size = block->bytes,
        .tag = MESH_TAG_SUM,
        .released = on_released,
        .owner = self,
    };
    mesh_hold_unsent(to->link, MESH_UNSENT_BYTES);
    if (!channel_send_load(to->link->channel, prefix, size, &load))
        return false;
    sum->loads++;
    sum->moved += load.size;
    return true;
}

/* Who can be sent something; NULL: it has gone. */
static mesh_member *reached(const mesh_sum *sum, uint32_t place)
{
    mesh_member *member = sum->members[place];
    return member != NULL && mesh_is_linked(member) ? member : NULL;
}

static wire_block block_of(const mesh_sum *sum, wire_block_kind kind, uint32_t part, share of)
{
    const compress_form form = mesh_form_of(sum, kind, of);
    return (wire_block){
        .name = sum->asked.name,
        .kind = kind,
        .part = part,
        .first = of.first,
        .count = of.length,
        .form = form.kind,
        .bytes = compress_bytes(form, of.length),
    };
}

/* ---- coded parts ---- */

/* The own coded part, in the share of one who has begun, as far as that may go now. */
static void send_coded(mesh *self, uint32_t place, uint64_t before)
{
    mesh_sum *sum = &self->sum;
    mesh_intake *its = &sum->intake[place];
    mesh_member *to = reached(sum, place);
    for (; to != NULL && its->sent < sum->cut.stripes && its->sent < before; its->sent++) {
        share of = mesh_share_of(sum, place, its->sent);
        const wire_block block = block_of(sum, WIRE_BLOCK_PART, 0, of);
        if (of.length == 0)
            continue;
        if (!send_block(self, to, &block, mesh_form_pack(sum, place, of)))
            return;
        mesh_form_packed(sum, place, of);
    }
}

/* Stripes of it that may be out. */
static uint64_t may_be_out(const mesh_sum *sum)
{
    return (uint64_t)sum->own.decoded + sum->ahead;
}

/* The own coded part, to one who has begun. */
static void mesh_reduce_send_coded(mesh *self, uint32_t place)
{
    const mesh_sum *sum = &self->sum;
    if (sum->has[sum->place])
        send_coded(self, place, may_be_out(sum));
}

static void send_coded_to_all(mesh *self)
{
    const mesh_sum *sum = &self->sum;
    for (uint32_t k = 1; k < sum->count; k++) { /* not all to the same one first */
        uint32_t place = (sum->place + k) % sum->count;
        if (sum->intake[place].begun)
            mesh_reduce_send_coded(self, place);
    }
}

/* ---- the sum ---- */

static void tell_came(const mesh_sum *sum, uint32_t part, share of)
{
    size_t count = layout_exists(&sum->cut, part, of.first, of.length);
    if (sum->asked.came != NULL && count > 0)
        sum->asked.came(sum->asked.user, part * sum->cut.part_length + of.first, count);
}

/* A stripe of the own share, in its form where it has one. */
static void send_sum(mesh *self, uint32_t place, share of)
{
    const mesh_sum *sum = &self->sum;
    mesh_member *to = reached(sum, place);
    if (to == NULL)
        return;
    if (sum_form_rounds(&sum->forms.of, TARRY_WAY_DOWN)) {
        const wire_block block = block_of(sum, WIRE_BLOCK_SUM, 0, of);
        send_block(self, to, &block, sum->own.packed);
        return;
    }
    for (uint32_t part = 0; part < sum->cut.parts; part++) {
        const share there = {of.first, layout_exists(&sum->cut, part, of.first, of.length)};
        const wire_block block = block_of(sum, WIRE_BLOCK_SUM, part, there);
        if (block.count > 0)
            send_block(self, to, &block, sum->asked.sum + part * sum->cut.part_length + of.first);
    }
}

/* A stripe of the own share is decoded. */
static void send_sum_to_all(mesh *self, share of)
{
    mesh_sum *sum = &self->sum;
    for (uint32_t part = 0; part < sum->cut.parts; part++)
        tell_came(sum, part, of);
    for (uint32_t k = 1; k < sum->count; k++) /* not all to the same one first */
        send_sum(self, (sum->place + k) % sum->count, of);
    mesh_form_rounded(sum, of);
}

static bool is_all_there(const mesh_sum *sum)
{
    bool all = sum->own.decoded == sum->cut.stripes;
    for (uint32_t i = 0; i < sum->count && all; i++)
        all = i == sum->place || mesh_flow_is_over(sum, &sum->intake[i].sum);
    return all;
}

/* What runs is done, if all is there, and nothing is read any more. */
static void mesh_reduce_look_whether_done(mesh *self)
{
    mesh_sum *sum = &self->sum;
    if (!sum->runs || sum->loads > 0 || sum->begun < sum->count || !is_all_there(sum))
        return;
    sum->runs = false;
    mesh_engine_is(self, TARRY_ENGINE_DONE, TARRY_ENGINE_NOBODY, "");
}

/* ---- decoding ---- */

/* Whether the coded parts of all who have one are in. */
static bool is_in(const mesh_sum *sum)
{
    const share_terms *terms = &sum->own.terms;
    if (sum->own.decoded == sum->cut.stripes)
        return false;
    for (uint32_t t = 0; t < terms->count; t++) {
        uint32_t place = terms->places[t];
        if (place != sum->place && sum->intake[place].coded.stripe <= sum->own.decoded)
            return false;
    }
    return true;
}

/* Of coded parts in another form than float32, of which there is one, in the order of members. */
static void decode_rounded(const mesh_sum *sum, share of)
{
    const share_terms *terms = &sum->own.terms;
    float *out = sum->asked.sum + of.first;
    memset(out, 0, of.length * sizeof(*out));
    for (uint32_t t = 0; t < terms->count; t++) {
        uint32_t place = terms->places[t];
        const float *term =
            place == sum->place
                ? sum->asked.part + of.first
                : mesh_form_term(sum, mesh_window(sum, place, sum->own.decoded), of);
        sum->kernel->combine(out, &term, &terms->rows[t], 1, of.length, KERNEL_ADD);
    }
}

static void decode_stripe(const mesh_sum *sum, share of)
{
    const share_terms *terms = &sum->own.terms;
    if (sum_form_rounds(&sum->forms.of, TARRY_WAY_UP)) {
        decode_rounded(sum, of);
        return;
    }
    for (uint32_t t = 0; t < terms->count; t++) {
        uint32_t place = terms->places[t];
        sum->z[t] = place == sum->place ? sum->asked.part + of.first
                                        : mesh_window(sum, place, sum->own.decoded);
    }
    share_decode(sum->kernel, &sum->cut, of, terms, sum->z, KERNEL_SET, sum->asked.sum + of.first,
                 sum->cut.part_length);
}

static void resume_all(const mesh_sum *sum)
{
    for (uint32_t i = 0; i < sum->count; i++)
        if (reached(sum, i) != NULL)
            channel_resume(sum->members[i]->link->channel);
}

/* As far as that may go now: all that is in is decoded, added up and sent on. */
static void mesh_reduce(mesh *self)
{
    mesh_sum *sum = &self->sum;
    bool moved = false;
    if (!sum->runs || sum->begun < sum->count)
        return;
    for (; is_in(sum); moved = true) {
        share of = mesh_share_of(sum, sum->place, sum->own.decoded);
        decode_stripe(sum, of);
        mesh_form_round(sum, of);
        sum->own.decoded = mesh_next_stripe(sum, sum->place, sum->own.decoded + 1);
        send_sum_to_all(self, of);
        send_coded_to_all(self);
    }
    if (moved)
        resume_all(sum);
    mesh_reduce_look_whether_done(self);
}

/* ---- in ---- */

/* A block is in, of that flow from the member in that place. */
static void mesh_reduce_came(mesh *self, uint32_t place, mesh_flow *flow, const wire_block *block)
{
    mesh_sum *sum = &self->sum;
    if (flow->kind == MESH_SUM) {
        mesh_form_came(sum, place, block);
        tell_came(sum, block->part, (share){block->first, block->count});
    }
    mesh_flow_advance(sum, flow);
    if (flow->kind == MESH_SUM)
        mesh_reduce_look_whether_done(self);
    else
        mesh_reduce(self);
}

/* Whether a sum still gets on, and who is suspected if it does not: all exchange numbers with all,
 * so that who owes something and says nothing is at fault. */

/* A sum begins. */
static void mesh_watch_begin(mesh *self)
{
    mesh_sum *sum = &self->sum;
    /* Who has no share does not hear who has begun: those who do name the one that all wait for
     * before it looks for one. */
    sum->pace.limit_ns = mesh_has_share(sum, sum->place) ? self->silence_ns : 2 * self->silence_ns;
    mesh_pace_moves(&sum->pace, clock_now_ns());
}

/* Whether the sum still waits for it to send something, or to take something. */
static bool owes(const mesh_sum *sum, uint32_t place)
{
    const mesh_member *member = sum->members[place];
    return place != sum->place &&
           (mesh_sum_needs(sum, place) ||
            (member != NULL && mesh_is_linked(member) && channel_loads(member->link->channel) > 0));
}

/* Whether the member was heard of longer ago than the other one; who is not connected has not been
 * since the sum began. */
static bool is_staler(const mesh_sum *sum, uint32_t place, uint32_t other)
{
    uint64_t came_ns = sum->intake[place].came_ns, others_ns = sum->intake[other].came_ns;
    return came_ns < others_ns || (came_ns == others_ns && !mesh_is_linked(sum->members[place]) &&
                                   mesh_is_linked(sum->members[other]));
}

/* Who owes something. */
static uint32_t find_suspect(const mesh_sum *sum)
{
    uint32_t suspect = sum->count;
    for (uint32_t i = 0; i < sum->count; i++)
        if (owes(sum, i) && (suspect == sum->count || is_staler(sum, i, suspect)))
            suspect = i;
    assert(suspect < sum->count); /* else it would be done */
    return suspect;
}

void mesh_watch_look(mesh *self, uint64_t now_ns)
{
    mesh_sum *sum = &self->sum;
    if (sum->runs && mesh_pace_stands(&sum->pace, now_ns))
        mesh_sum_fail(self, find_suspect(sum), "nothing has moved for the silence limit");
}
