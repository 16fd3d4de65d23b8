/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sum: direct reduce-scatter and all-gather (engine/share.h) over connections. A stripe is so
 * long that a member's share of it is one block. Who begins says so to all, but between members of
 * which neither has a share, and is then sent its shares of their coded parts, stripe by stripe;
 * each stripe that is in from all is decoded and sent to all, so that both directions are in use
 * all the time. Coded parts go out only so far ahead of the stripe that is decoded next: a member
 * that waits for others' numbers need not send more, and what is on its way stays in the caches.
 * Nobody waits in a circle: who is furthest behind is sent its next stripe by all. A member that is
 * further behind is not read once its window is full.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/sum_id.h"
#include "protocol/wire/wire_layout.h"
#include "runtime/clock.h"
#include "runtime/tcp/mesh/mesh_state.h"

enum { NUMBER_BYTES = 4 };

/* ---- where things are in the sequence of blocks ---- */

static share own_share(const mesh_sum *sum, uint32_t stripe)
{
    return share_of(&sum->cut, stripe, sum->count, sum->place);
}

/* The first stripe from `stripe` on of which a member has a share. */
static uint32_t next_stripe(const mesh_sum *sum, uint32_t place, uint32_t stripe)
{
    while (stripe < sum->cut.stripes && share_of(&sum->cut, stripe, sum->count, place).length == 0)
        stripe++;
    return stripe;
}

/* A member without a share gets nothing of anybody's coded part. */
static bool has_share(const mesh_sum *sum, uint32_t place)
{
    return share_of(&sum->cut, 0, sum->count, place).length > 0; /* no stripe is longer */
}

/* Whether the member and this one need anything of each other: one of them has a share. */
static bool meets(const mesh_sum *sum, uint32_t place)
{
    return place != sum->place && (has_share(sum, sum->place) || has_share(sum, place));
}

/* How many numbers the block of the sum has: that stripe and part of the member's share. */
static size_t sum_block_length(const mesh_sum *sum, uint32_t place, uint64_t block, share *of)
{
    *of = share_of(&sum->cut, (uint32_t)(block / sum->cut.parts), sum->count, place);
    return layout_exists(&sum->cut, (uint32_t)(block % sum->cut.parts), of->first, of->length);
}

static uint64_t sum_blocks(const mesh_sum *sum)
{
    return (uint64_t)sum->cut.stripes * sum->cut.parts;
}

/* The first block from `block` on that has numbers. */
static uint64_t next_sum_block(const mesh_sum *sum, uint32_t place, uint64_t block)
{
    share of;
    while (block < sum_blocks(sum) && sum_block_length(sum, place, block, &of) == 0)
        block++;
    return block;
}

static float *window_at(const mesh_sum *sum, uint32_t place, uint32_t stripe)
{
    return sum->intake[place].window + stripe % sum->window_blocks * WIRE_BLOCK_NUMBERS;
}

/* ---- the end ---- */

/* How many numbers of each part are in from all. */
static size_t whole_numbers(const mesh_sum *sum)
{
    uint64_t stripe = sum->cut.stripes;
    for (uint32_t i = 0; i < sum->count; i++)
        if (sum->intake[i].sum_block / sum->cut.parts < stripe)
            stripe = sum->intake[i].sum_block / sum->cut.parts;
    return sum->asked.whole + (stripe == sum->cut.stripes
                                   ? sum->cut.part_length
                                   : layout_stripe_start(&sum->cut, (uint32_t)stripe));
}

void mesh_sum_let_go(mesh *self)
{
    mesh_sum *sum = &self->sum;
    sum->whole = sum->runs ? whole_numbers(sum) : sum->whole;
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

static void fail(mesh *self, uint32_t place, const char *why)
{
    char text[sizeof(self->engine_progress.why)];
    uint32_t worker = self->sum.workers[place];
    snprintf(text, sizeof(text), "worker %u: %s", worker, why);
    mesh_sum_let_go(self);
    mesh_engine_is(self, TARRY_ENGINE_FAILED, worker, text);
}

static bool has_all_of(const mesh_sum *sum, uint32_t place)
{
    return sum->intake[place].sum_block == sum_blocks(sum);
}

static void look_whether_done(mesh *self)
{
    mesh_sum *sum = &self->sum;
    if (!sum->runs || sum->loads > 0)
        return;
    for (uint32_t i = 0; i < sum->count; i++)
        if (!has_all_of(sum, i))
            return;
    sum->runs = false;
    mesh_engine_is(self, TARRY_ENGINE_DONE, TARRY_ENGINE_NOBODY, "");
}

/* ---- a sum that stands still ---- */

uint64_t mesh_sum_due_ns(const mesh *self)
{
    return self->sum.runs ? mesh_pace_due_ns(&self->sum.pace) : TARRY_NEVER;
}

/* Whether it has to send something yet: its first word, its coded part for the own share, which may
 * be all that there is, or its share of the sum. */
static bool is_needed(const mesh_sum *sum, uint32_t place)
{
    const mesh_intake *intake = &sum->intake[place];
    return !intake->begun || !has_all_of(sum, place) ||
           (sum->has[place] && intake->part_stripe < sum->cut.stripes);
}

/* Whether the sum still waits for it to send something, or to take something. */
static bool owes(const mesh_sum *sum, uint32_t place)
{
    const mesh_member *member = sum->members[place];
    return place != sum->place &&
           (is_needed(sum, place) ||
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

void mesh_sum_look(mesh *self, uint64_t now_ns)
{
    mesh_sum *sum = &self->sum;
    if (!sum->runs || !mesh_pace_stands(&sum->pace, now_ns))
        return;
    bool all_begun = sum->begun == sum->count && has_share(sum, sum->place);
    if (sum->asked.early && !all_begun) { /* who has not begun may still compute */
        mesh_pace_moves(&sum->pace, now_ns);
        return;
    }
    uint32_t suspect = sum->count;
    for (uint32_t i = 0; i < sum->count; i++)
        if (owes(sum, i) && (suspect == sum->count || is_staler(sum, i, suspect)))
            suspect = i;
    assert(suspect < sum->count); /* else it would be done */
    fail(self, suspect, "nothing has moved for the silence limit");
}

/* Something of that member came in. */
static void note(mesh_sum *sum, uint32_t place)
{
    sum->intake[place].came_ns = clock_now_ns();
    mesh_pace_moves(&sum->pace, sum->intake[place].came_ns);
}

/* ---- out ---- */

static void on_released(void *user, void *owner)
{
    mesh *self = owner;
    (void)user;
    self->sum.loads--;
    mesh_pace_moves(&self->sum.pace, clock_now_ns());
    look_whether_done(self);
}

/* False: the connection is over, as is told by and by. */
static bool send_block(mesh *self, mesh_member *to, const wire_block *block, const float *numbers)
{
    mesh_sum *sum = &self->sum;
    uint8_t prefix[WIRE_HEAD_BYTES + LAYOUT_BLOCK];
    size_t size = wire_block_encode(block, prefix);
    const channel_load load = {
        .bytes = numbers,
        .size = block->count * NUMBER_BYTES,
        .tag = MESH_TAG_SUM,
        .released = on_released,
        .owner = self,
    };
    if (!channel_send_load(to->link->channel, prefix, size, &load))
        return false;
    sum->loads++;
    sum->moved += load.size;
    return true;
}

/* The own coded part, in the share of one who has begun, as far as that may go now. */
static void send_part(mesh *self, uint32_t place)
{
    mesh_sum *sum = &self->sum;
    wire_block block = {.name = sum->asked.name, .kind = WIRE_BLOCK_PART};
    uint32_t *stripe = &sum->intake[place].sent_stripe;
    if (!sum->has[sum->place])
        return;
    for (; *stripe < sum->cut.stripes && *stripe < sum->stripe + sum->ahead; ++*stripe) {
        share of = share_of(&sum->cut, *stripe, sum->count, place);
        block.first = of.first;
        block.count = of.length;
        if (of.length > 0 &&
            !send_block(self, sum->members[place], &block, sum->asked.part + of.first))
            return;
    }
}

/* More of the own coded part, to all who have begun. */
static void send_parts(mesh *self)
{
    const mesh_sum *sum = &self->sum;
    for (uint32_t k = 1; k < sum->count; k++) {
        uint32_t place = (sum->place + k) % sum->count; /* not all to the same one first */
        const mesh_member *to = sum->members[place];
        if (to != NULL && mesh_is_linked(to) && sum->intake[place].begun)
            send_part(self, place);
    }
}

/* A stripe of the own share of the sum, to all. */
static void send_sum(mesh *self, uint32_t stripe)
{
    mesh_sum *sum = &self->sum;
    share of = own_share(sum, stripe);
    wire_block block = {.name = sum->asked.name, .kind = WIRE_BLOCK_SUM, .first = of.first};
    for (uint32_t k = 1; k < sum->count; k++) {
        /* Not all to the same one first. */
        mesh_member *to = sum->members[(sum->place + k) % sum->count];
        for (block.part = 0; to != NULL && block.part < sum->cut.parts; block.part++) {
            block.count = layout_exists(&sum->cut, block.part, of.first, of.length);
            if (block.count > 0 && mesh_is_linked(to))
                send_block(self, to, &block, sum->asked.sum + block.part * sum->stride + of.first);
        }
    }
}

/* ---- decoding ---- */

/* Whether all coded parts of that stripe are in. */
static bool is_in(const mesh_sum *sum, uint32_t stripe)
{
    for (uint32_t i = 0; i < sum->count; i++)
        if (sum->has[i] && i != sum->place && sum->intake[i].part_stripe <= stripe)
            return false;
    return true;
}

static void tell_came(const mesh_sum *sum, uint32_t part, size_t first, size_t count)
{
    if (sum->asked.came != NULL && count > 0)
        sum->asked.came(sum->asked.user, part * sum->stride + sum->asked.whole + first, count);
}

static void decode_stripe(mesh_sum *sum, uint32_t stripe)
{
    share of = own_share(sum, stripe);
    for (uint32_t t = 0; t < sum->terms.count; t++) {
        uint32_t place = sum->terms.places[t];
        sum->z[t] =
            place == sum->place ? sum->asked.part + of.first : window_at(sum, place, stripe);
    }
    share_decode(sum->kernel, &sum->cut, of, &sum->terms, sum->z, KERNEL_SET,
                 sum->asked.sum + of.first, sum->stride);
    for (uint32_t part = 0; part < sum->cut.parts; part++)
        tell_came(sum, part, of.first, layout_exists(&sum->cut, part, of.first, of.length));
}

static void decode(mesh *self)
{
    mesh_sum *sum = &self->sum;
    uint32_t before = sum->stripe;
    if (!sum->runs || sum->begun < sum->count)
        return;
    while (sum->stripe < sum->cut.stripes && is_in(sum, sum->stripe)) {
        decode_stripe(sum, sum->stripe);
        send_sum(self, sum->stripe);
        sum->stripe = next_stripe(sum, sum->place, sum->stripe + 1);
        send_parts(self);
    }
    sum->intake[sum->place].sum_block = (uint64_t)sum->stripe * sum->cut.parts;
    for (uint32_t i = 0; before != sum->stripe && i < sum->count; i++)
        if (sum->members[i] != NULL && mesh_is_linked(sum->members[i]))
            channel_resume(sum->members[i]->link->channel);
    look_whether_done(self);
}

/* ---- who takes part ---- */

/* It has begun the sum that runs here. */
static void join(mesh *self, uint32_t place, const wire_begun *begun)
{
    mesh_sum *sum = &self->sum;
    mesh_intake *intake = &sum->intake[place];
    if (begun->dimension != sum->asked.dimension || begun->parts != sum->asked.parts) {
        fail(self, place, "it makes a sum of other numbers");
        return;
    }
    if (intake->begun)
        return; /* it has connected anew, and neither needs anything of the other */
    intake->begun = true;
    note(sum, place);
    sum->has[place] = !begun->empty;
    sum->begun++;
    send_part(self, place);
    if (sum->begun == sum->count)
        share_terms_set(&sum->terms, sum->asked.weights, sum->asked.parts, sum->count, sum->has);
    decode(self);
}

static bool is_this(const mesh_sum *sum, const wire_begun *begun)
{
    return sum->runs && begun->epoch == sum->epoch && sum_id_named(&begun->name, &sum->asked.name);
}

static void say_begun(mesh *self, mesh_member *member)
{
    const mesh_sum *sum = &self->sum;
    uint8_t frame[WIRE_HEAD_BYTES + LAYOUT_BEGUN];
    const wire_begun begun = {
        .name = sum->asked.name,
        .epoch = sum->epoch,
        .dimension = sum->asked.dimension,
        .parts = sum->asked.parts,
        .empty = !sum->has[sum->place],
    };
    channel_send(member->link->channel, frame, wire_begun_encode(&begun, frame));
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
    if (sum->runs && place < sum->count && meets(sum, place))
        say_begun(self, member);
}

void mesh_sum_lost(mesh *self, mesh_member *member, const char *why)
{
    const mesh_sum *sum = &self->sum;
    uint32_t place = place_of(sum, member);
    if (!sum->runs || place == sum->count)
        return;
    if (is_needed(sum, place))
        fail(self, place, why);
    else
        look_whether_done(self); /* it may have ended as it has all, too */
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

static channel_verdict misbehave(mesh_link *link)
{
    mesh_misbehaves(link, "it sends another block than the next one");
    return CHANNEL_END;
}

channel_verdict mesh_sum_begin(mesh_link *link, const wire_block *block, void **place)
{
    mesh_sum *sum = &link->mesh->sum;
    uint32_t from;
    *place = NULL;
    if (!is_wanted(link, block, &from))
        return CHANNEL_TAKE; /* to nowhere */
    const mesh_intake *intake = &sum->intake[from];
    if (block->kind == WIRE_BLOCK_SUM) {
        share of;
        if (intake->sum_block == sum_blocks(sum) ||
            block->part != intake->sum_block % sum->cut.parts ||
            block->count != sum_block_length(sum, from, intake->sum_block, &of) ||
            block->first != of.first)
            return misbehave(link);
        *place = sum->asked.sum + block->part * sum->stride + block->first;
        return CHANNEL_TAKE;
    }
    if (intake->part_stripe == sum->cut.stripes || !sum->has[from])
        return misbehave(link);
    share of = own_share(sum, intake->part_stripe);
    if (block->first != of.first || block->count != of.length)
        return misbehave(link);
    if (intake->part_stripe >= sum->stripe + sum->window_blocks)
        return CHANNEL_WAIT;
    *place = window_at(sum, from, intake->part_stripe);
    return CHANNEL_TAKE;
}

bool mesh_sum_complete(mesh_link *link, const wire_block *block)
{
    mesh *self = link->mesh;
    mesh_sum *sum = &self->sum;
    uint32_t from;
    if (!is_wanted(link, block, &from))
        return true;
    mesh_intake *intake = &sum->intake[from];
    note(sum, from);
    if (block->kind == WIRE_BLOCK_SUM) {
        tell_came(sum, block->part, block->first, block->count);
        intake->sum_block = next_sum_block(sum, from, intake->sum_block + 1);
        look_whether_done(self);
    } else {
        intake->part_stripe = next_stripe(sum, sum->place, intake->part_stripe + 1);
        decode(self);
    }
    return true;
}

/* ---- the beginning ---- */

int mesh_sum_make_room(mesh *self, uint32_t parts)
{
    mesh_sum *sum = &self->sum;
    size_t numbers = (size_t)parts * sum->count;
    if (numbers <= sum->rows_room)
        return TARRY_OK;
    float *rows = memory_allocate(&self->allocator, numbers, sizeof(float));
    if (rows == NULL)
        return TARRY_ERROR_NO_MEMORY;
    memory_release(&self->allocator, sum->terms.rows);
    sum->terms.rows = rows;
    sum->rows_room = numbers;
    return TARRY_OK;
}

static void begin(mesh *self, const tarry_engine_sum *asked, size_t stride)
{
    mesh_sum *sum = &self->sum;
    sum->asked = *asked;
    sum->stride = stride;
    sum->whole = 0;
    sum->cut = layout_make(asked->dimension, asked->parts, (size_t)sum->count * WIRE_BLOCK_NUMBERS);
    sum->runs = true;
    sum->begun = 0;
    sum->stripe = next_stripe(sum, sum->place, 0);
    sum->moved = 0;
    /* Who has no share does not hear who has begun: those who do name the one that all wait for
     * before it looks for one. */
    sum->pace.limit_ns = has_share(sum, sum->place) ? self->silence_ns : 2 * self->silence_ns;
    mesh_pace_moves(&sum->pace, clock_now_ns());
    for (uint32_t i = 0; i < sum->count; i++) {
        mesh_intake *intake = &sum->intake[i];
        intake->begun = !meets(sum, i);
        sum->has[i] = false;
        sum->begun += intake->begun;
        intake->came_ns = sum->pace.moved_ns;
        intake->part_stripe = next_stripe(sum, sum->place, 0);
        intake->sent_stripe = 0;
        intake->sum_block = next_sum_block(sum, i, 0);
    }
    sum->has[sum->place] = asked->part != NULL;
}

void mesh_sum_start(mesh *self, const tarry_engine_sum *asked, size_t stride, uint64_t epoch)
{
    mesh_sum *sum = &self->sum;
    assert(sum->count > 0 && !sum->runs);
    sum->epoch = epoch;
    begin(self, asked, stride);
    if (sum->count == 1)
        share_terms_set(&sum->terms, sum->asked.weights, sum->asked.parts, 1, sum->has);
    for (uint32_t i = 0; i < sum->count && sum->runs; i++) {
        mesh_member *member = sum->members[i];
        if (!meets(sum, i))
            continue;
        if (member == NULL) {
            fail(self, i, "is no member any more");
        } else if (!mesh_is_linked(member)) {
            mesh_hurry(self, member);
        } else {
            say_begun(self, member);
            if (sum->runs && is_this(sum, &member->link->begun))
                join(self, i, &member->link->begun);
        }
    }
    decode(self);
    mesh_set_tick(self);
}
