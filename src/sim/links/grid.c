/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/grid.h"

#include "base/memory.h"
#include "sim/links/sending.h"
#include "sim/links/sharing.h"

enum {
    ROW_UP,      /* slices of the coded part to their owners */
    COLUMN_UP,   /* pieces of the own slice to who adds them up */
    COLUMN_DOWN, /* sums of the own pieces */
    ROW_DOWN,    /* the own slice of the sum */
    STAGES,
};

#define NONE UINT32_MAX

typedef struct parcel {
    uint32_t to;
    uint64_t bytes;
} parcel;

/* A parcel on its way. */
typedef struct message {
    uint32_t to, stage; /* of free places `to` is the next one */
    uint64_t left_ns;   /* the sender's card; NEVER: not yet */
    uint64_t passed_ns; /* the receiver's */
} message;

typedef struct member {
    uint32_t stage;            /* that it sends, or is to; STAGES: it has sent all */
    bool begun;                /* it sends, or is about to */
    uint32_t unsent;           /* messages of the stage that have not left its card */
    uint32_t missing[STAGES];  /* messages that it has not got */
    uint64_t there_ns[STAGES]; /* when those that it has got were there */
} member;

typedef struct exchange {
    network *links;
    const route *of;
    uint64_t part_length, parts;
    member *members;
    sending starts; /* members, by when they begin a stage */
    sharing out, in;
    message *messages;
    uint32_t usual;            /* messages at the same time */
    uint32_t room, used, free; /* free: the first of those that were used and are not */
    uint64_t moved;
} exchange;

/* How many messages a stage may have, with those that would be empty or to itself. */
static uint32_t turns_of(const exchange *all, uint32_t place, uint32_t stage)
{
    if (stage == ROW_UP || stage == ROW_DOWN)
        return route_slices(all->of, place);
    return route_pieces(all->of, place, 0);
}

static uint64_t length_of(const exchange *all, const route_where *where)
{
    return route_find(where, all->part_length).length;
}

/* Message `turn` of a stage; of no bytes if there is none. */
static parcel parcel_at(const exchange *all, uint32_t place, uint32_t stage, uint32_t turn)
{
    const route *of = all->of;
    const uint32_t row = route_row_of(of, place), first = route_row_first(of, row);
    const uint32_t column = place - first, rows = of->shape.rows;
    if (stage == ROW_UP || stage == ROW_DOWN) {
        const uint32_t to = (column + turn) % route_slices(of, place);
        const route_slice slice = route_slice_at(of, place, stage == ROW_UP ? to : column);
        const uint64_t numbers = to == column ? 0 : length_of(all, &slice.where);
        return (parcel){first + to, sizeof(float) * numbers * (stage == ROW_UP ? 1 : all->parts)};
    }
    const uint32_t overlaps = turns_of(all, place, stage) / rows, overlap = turn % overlaps;
    const uint32_t other_row = (row + turn / overlaps) % rows;
    const route_piece there = route_piece_at(of, place, column, overlap * rows + other_row);
    const route_piece own = route_piece_at(of, place, column, overlap * rows + row);
    const uint64_t numbers = length_of(all, stage == COLUMN_UP ? &there.where : &own.where);
    return (parcel){there.parent,
                    there.parent == ROUTE_NOBODY ? 0 : sizeof(float) * numbers * all->parts};
}

/* A message's place, for as long as it is on its way. */
static int take_place(exchange *all, uint32_t *found)
{
    if (all->free != NONE) {
        *found = all->free;
        all->free = all->messages[*found].to;
        return TARRY_OK;
    }
    if (all->used == all->room) {
        const size_t room = memory_room(all->room, (size_t)all->used + 1, all->usual);
        void *grown = memory_grow(&all->links->allocator, all->messages, all->used, room,
                                  sizeof(*all->messages));
        if (grown == NULL)
            return TARRY_ERROR_NO_MEMORY;
        all->messages = grown;
        all->room = (uint32_t)room;
    }
    *found = all->used++;
    return TARRY_OK;
}

/* Its first byte leaves the sender now, and is at the receiver one latency later. */
static int send(exchange *all, uint32_t place, const parcel *what, uint64_t now)
{
    member *its = &all->members[place];
    uint32_t own;
    int error = take_place(all, &own);
    if (error != TARRY_OK)
        return error;
    all->messages[own] = (message){
        .to = what->to, .stage = its->stage, .left_ns = TARRY_NEVER, .passed_ns = TARRY_NEVER};
    its->unsent++;
    all->moved += what->bytes;
    error = sharing_add(&all->out, place, now, what->bytes, own);
    return error != TARRY_OK
               ? error
               : sharing_add(&all->in, what->to, network_after(now, all->links->latency_ns),
                             what->bytes, own);
}

/* A member that has sent a stage begins the next one once it has all for it. */
static void go_on(exchange *all, uint32_t place, uint64_t now)
{
    member *its = &all->members[place];
    if (its->begun || its->stage == STAGES)
        return;
    uint64_t from_ns = network_later(now, its->there_ns[ROW_UP]);
    for (uint32_t before = 0; before < its->stage; before++) {
        if (its->missing[before] > 0)
            return;
        from_ns = network_later(from_ns, its->there_ns[before]);
    }
    its->begun = true;
    sending_add(&all->starts, place, from_ns);
}

static void end_stage(exchange *all, uint32_t place, uint64_t now)
{
    member *its = &all->members[place];
    its->stage++;
    its->begun = false;
    go_on(all, place, now);
}

/* The first of `starts` sends all messages of its stage, over as many connections. */
static int begin(exchange *all)
{
    const uint32_t place = sending_first(&all->starts);
    const member *its = &all->members[place];
    const uint64_t now = all->starts.first_ns[place];
    int error = TARRY_OK;
    sending_end(&all->starts);
    for (uint32_t turn = 0; error == TARRY_OK && turn < turns_of(all, place, its->stage); turn++) {
        const parcel what = parcel_at(all, place, its->stage, turn);
        if (what.bytes > 0)
            error = send(all, place, &what, now);
    }
    if (error == TARRY_OK && its->unsent == 0)
        end_stage(all, place, now);
    return error;
}

/* A message that has passed both cards is there, its jitter later. */
static void arrive(exchange *all, uint32_t own, uint64_t now)
{
    message *its = &all->messages[own];
    if (its->left_ns == TARRY_NEVER || its->passed_ns == TARRY_NEVER)
        return;
    const uint64_t passed_ns =
        network_later(its->passed_ns, network_after(its->left_ns, all->links->latency_ns));
    const uint64_t there_ns = network_after(passed_ns, jitter_draw(&all->links->jitter));
    member *to = &all->members[its->to];
    to->missing[its->stage]--;
    to->there_ns[its->stage] = network_later(to->there_ns[its->stage], there_ns);
    const uint32_t receiver = its->to;
    its->to = all->free;
    all->free = own;
    go_on(all, receiver, now);
}

static void leave(exchange *all)
{
    const uint64_t now = sharing_next(&all->out);
    uint32_t own, place = sharing_end(&all->out, &own);
    all->messages[own].left_ns = now;
    arrive(all, own, now);
    if (--all->members[place].unsent == 0)
        end_stage(all, place, now);
}

static void receive(exchange *all, uint64_t now)
{
    const uint64_t passed_ns = sharing_next(&all->in);
    uint32_t own;
    sharing_end(&all->in, &own);
    all->messages[own].passed_ns = passed_ns;
    arrive(all, own, now);
}

/* One event after the other, until nothing happens any more. What a member sends now is at the
 * receiver's card a latency from now, so that these cards are taken to be so far ahead. */
static int play(exchange *all)
{
    int error = TARRY_OK;
    while (error == TARRY_OK) {
        const uint64_t starts_ns =
            all->starts.count > 0 ? all->starts.first_ns[sending_first(&all->starts)] : TARRY_NEVER;
        const uint64_t left_ns = sharing_next(&all->out), passed_ns = sharing_next(&all->in);
        const uint64_t now =
            passed_ns == TARRY_NEVER ? TARRY_NEVER : passed_ns - all->links->latency_ns;
        if (starts_ns == TARRY_NEVER && left_ns == TARRY_NEVER && passed_ns == TARRY_NEVER)
            break;
        if (left_ns <= starts_ns && left_ns <= now)
            leave(all);
        else if (now <= starts_ns)
            receive(all, now);
        else
            error = begin(all);
    }
    return error;
}

/* Counts what each one is to get. */
static void expect(exchange *all, uint32_t place)
{
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (uint32_t turn = 0; turn < turns_of(all, place, stage); turn++) {
            const parcel its = parcel_at(all, place, stage, turn);
            if (its.bytes > 0)
                all->members[its.to].missing[stage]++;
        }
}

static int prepare(exchange *all, const group_sum *sum, const uint64_t *ready_ns)
{
    const tarry_allocator *allocator = &all->links->allocator;
    all->members = memory_allocate(allocator, sum->count, sizeof(*all->members));
    const int errors[] = {sending_init(&all->starts, sum->count, allocator),
                          sharing_init(&all->out, sum->count, all->usual, allocator),
                          sharing_init(&all->in, sum->count, all->usual, allocator)};
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
        if (errors[i] != TARRY_OK || all->members == NULL)
            return TARRY_ERROR_NO_MEMORY;
    for (uint32_t place = 0; place < sum->count; place++) {
        network_node *card = &all->links->workers[group_sum_member(sum, place)];
        sharing_card(&all->out, place, &card->out);
        sharing_card(&all->in, place, &card->in);
        all->members[place].there_ns[ROW_UP] = ready_ns[place];
        expect(all, place);
    }
    for (uint32_t place = 0; place < sum->count; place++)
        go_on(all, place, 0);
    return TARRY_OK;
}

int grid_sum(network *state, const group_sum *sum, const route *of, const uint64_t *ready_ns,
             uint64_t *done_ns, uint64_t *moved)
{
    const uint32_t count = sum->count;
    exchange all = {.links = state,
                    .of = of,
                    .part_length = (sum->dimension + sum->parts - 1) / sum->parts,
                    .parts = sum->parts,
                    .usual = count * route_columns(of),
                    .free = NONE};
    int error = prepare(&all, sum, ready_ns);
    if (error == TARRY_OK)
        error = play(&all);
    for (uint32_t place = 0; error == TARRY_OK && place < count; place++) {
        done_ns[place] = ready_ns[place];
        for (uint32_t stage = 0; stage < STAGES; stage++) {
            const uint64_t there_ns = all.members[place].there_ns[stage];
            const bool lacks = all.members[place].missing[stage] > 0; /* what never passes */
            done_ns[place] = network_later(done_ns[place], lacks ? TARRY_NEVER : there_ns);
        }
    }
    *moved = all.moved;
    memory_release(&state->allocator, all.messages);
    sharing_destroy(&all.in);
    sharing_destroy(&all.out);
    sending_destroy(&all.starts, &state->allocator);
    memory_release(&state->allocator, all.members);
    return error;
}
