/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/grid.h"

#include "base/memory.h"
#include "sim/links/sending.h"

enum {
    ROW_UP,      /* slices of the coded part to their owners */
    COLUMN_UP,   /* pieces of the own slice to who adds them up */
    COLUMN_DOWN, /* sums of the own pieces */
    ROW_DOWN,    /* the own slice of the sum */
    STAGES,
};

typedef struct parcel {
    uint32_t to;
    uint64_t bytes;
} parcel;

typedef struct member {
    network_node *card;
    uint32_t stage;            /* that it sends, or is to; STAGES: it has sent all */
    uint32_t turn;             /* of the next message that it looks for */
    bool sends;                /* `next` is on its way */
    uint32_t missing[STAGES];  /* messages that it has not got */
    uint64_t there_ns[STAGES]; /* when those that it has got were there */
    parcel next;
    uint64_t left_ns;
} member;

typedef struct exchange {
    network *links;
    const route *of;
    uint64_t part_length, parts;
    member *members;
    sending senders;
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

/* The next message of the stage leaves, if there is one: *first_ns as of network_leave. */
static bool leave(exchange *all, uint32_t place, uint64_t from_ns, uint64_t *first_ns)
{
    member *its = &all->members[place];
    const uint32_t turns = turns_of(all, place, its->stage);
    while (its->turn < turns) {
        its->next = parcel_at(all, place, its->stage, its->turn++);
        if (its->next.bytes == 0)
            continue;
        its->left_ns =
            network_leave(all->links, &its->card->out, from_ns, its->next.bytes, first_ns);
        all->moved += its->next.bytes;
        return true;
    }
    return false;
}

/* A member that sends nothing begins the next stage that it has all for, and has messages in. */
static void go_on(exchange *all, uint32_t place)
{
    member *its = &all->members[place];
    uint64_t first_ns;
    while (!its->sends && its->stage < STAGES) {
        uint64_t from_ns = its->there_ns[ROW_UP];
        for (uint32_t before = 0; before < its->stage; before++) {
            if (its->missing[before] > 0)
                return;
            from_ns = network_later(from_ns, its->there_ns[before]);
        }
        its->sends = leave(all, place, from_ns, &first_ns);
        if (its->sends) {
            sending_add(&all->senders, place, first_ns);
        } else {
            its->stage++;
            its->turn = 0;
        }
    }
}

static void deliver(exchange *all)
{
    const uint32_t place = sending_first(&all->senders);
    member *from = &all->members[place], *to = &all->members[from->next.to];
    const uint32_t stage = from->stage, receiver = from->next.to;
    uint64_t first_ns = all->senders.first_ns[place];
    uint64_t there_ns =
        network_arrive(all->links, &to->card->in, first_ns, from->next.bytes, from->left_ns);
    to->missing[stage]--;
    to->there_ns[stage] = network_later(to->there_ns[stage], there_ns);
    from->sends = leave(all, place, 0, &first_ns);
    if (from->sends) {
        sending_next(&all->senders, first_ns);
    } else {
        sending_end(&all->senders);
        from->stage++;
        from->turn = 0;
        go_on(all, place);
    }
    go_on(all, receiver);
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

int grid_sum(network *state, const group_sum *sum, const route *of, const uint64_t *ready_ns,
             uint64_t *done_ns, uint64_t *moved)
{
    const uint32_t count = sum->count;
    exchange all = {.links = state,
                    .of = of,
                    .part_length = (sum->dimension + sum->parts - 1) / sum->parts,
                    .parts = sum->parts};
    all.members = memory_allocate(&state->allocator, count, sizeof(*all.members));
    int error = sending_init(&all.senders, count, &state->allocator);
    error = all.members != NULL ? error : TARRY_ERROR_NO_MEMORY;
    for (uint32_t place = 0; error == TARRY_OK && place < count; place++) {
        all.members[place].card = &state->workers[group_sum_member(sum, place)];
        all.members[place].there_ns[ROW_UP] = ready_ns[place];
        expect(&all, place);
    }
    for (uint32_t place = 0; error == TARRY_OK && place < count; place++)
        go_on(&all, place);
    while (error == TARRY_OK && all.senders.count > 0)
        deliver(&all);
    for (uint32_t place = 0; error == TARRY_OK && place < count; place++) {
        done_ns[place] = ready_ns[place];
        for (uint32_t stage = 0; stage < STAGES; stage++)
            done_ns[place] = network_later(done_ns[place], all.members[place].there_ns[stage]);
    }
    *moved = all.moved;
    sending_destroy(&all.senders, &state->allocator);
    memory_release(&state->allocator, all.members);
    return error;
}
