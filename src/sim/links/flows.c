/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/links/flows.h"

#include "base/memory.h"

/* What a member sends and gets in a stage. */
typedef struct load {
    uint64_t out_bytes, in_bytes;
    uint64_t out_messages, in_messages;
} load;

typedef enum stage { ROW_UP, COLUMN_UP, COLUMN_DOWN, ROW_DOWN, STAGES } stage;

/* Of those who send to the same members: when the first one begins, and the last one has sent all.
 */
typedef struct company {
    uint64_t first_ns, last_ns;
} company;

typedef struct sketch {
    network *links;
    const group_sum *sum;
    const route *of;
    uint64_t part_length;
    company *rows, *columns; /* by row, and by number in the row */
    uint64_t moved;
} sketch;

uint64_t flows_messages(const route *of)
{
    const uint64_t in_row = route_columns(of), rows = of->shape.rows;
    const uint64_t in_column = rows > 1 ? 2 * (rows - 1) * (of->count % rows == 0 ? 1U : 2U) : 0;
    return of->count * (2 * (in_row - 1) + in_column);
}

static bool is_grid(const sketch *all)
{
    return all->of->shape.kind == TARRY_SHAPE_GRID;
}

/* Of the member's slice, and of those pieces of it that it adds up. */
static uint64_t slice_length(const sketch *all, uint32_t place, uint32_t row)
{
    const uint64_t count = all->of->count;
    if (!is_grid(all))
        return (all->part_length + count - 1) / count;
    const uint32_t column = place - route_row_first(all->of, row);
    const route_slice own = route_slice_at(all->of, place, column);
    return route_find(&own.where, all->part_length).length;
}

static uint64_t own_length(const sketch *all, uint32_t place, uint32_t row)
{
    const uint32_t rows = all->of->shape.rows;
    const uint32_t column = place - route_row_first(all->of, row);
    uint64_t length = 0;
    for (uint32_t piece = row; piece < route_pieces(all->of, place, column); piece += rows) {
        const route_piece own = route_piece_at(all->of, place, column, piece);
        length += route_find(&own.where, all->part_length).length;
    }
    return length;
}

static load load_of(const sketch *all, uint32_t place, uint32_t row, stage at)
{
    const uint64_t number = sizeof(float), parts = all->sum->parts;
    const uint64_t slice = slice_length(all, place, row);
    const uint64_t others = route_slices(all->of, place) - 1;
    const uint64_t away = all->part_length - slice;
    if (!is_grid(all)) {
        const uint64_t bytes =
            others * (at == ROW_UP ? compress_bytes(all->sum->up, (size_t)slice)
                                   : parts * compress_bytes(all->sum->down, (size_t)slice));
        return (load){bytes, bytes, others, others};
    }
    if (at == ROW_UP)
        return (load){number * away, number * others * slice, others, others};
    if (at == ROW_DOWN)
        return (load){number * parts * others * slice, number * parts * away, others, others};
    const uint64_t rows = all->of->shape.rows, own = own_length(all, place, row);
    const uint64_t pieces = route_pieces(all->of, place, 0) / rows * (rows - 1);
    const load up = {number * parts * (slice - own), number * parts * own * (rows - 1), pieces,
                     pieces};
    const load down = {up.in_bytes, up.out_bytes, pieces, pieces};
    return at == COLUMN_UP ? up : down;
}

static void add_to(company *of, uint64_t first_ns, uint64_t last_ns)
{
    of->first_ns = first_ns < of->first_ns ? first_ns : of->first_ns;
    of->last_ns = network_later(of->last_ns, last_ns);
}

/* Who sends to those with that number in their row: where rows differ in length, neighbours too. */
static company senders_of(const sketch *all, stage at, uint32_t row, uint32_t column)
{
    if (at == ROW_UP || at == ROW_DOWN)
        return all->rows[row];
    company found = all->columns[column];
    const uint32_t columns = route_columns(all->of);
    if (columns == route_columns_least(all->of))
        return found;
    if (column > 0)
        add_to(&found, all->columns[column - 1].first_ns, all->columns[column - 1].last_ns);
    if (column + 1 < columns)
        add_to(&found, all->columns[column + 1].first_ns, all->columns[column + 1].last_ns);
    return found;
}

/* from_ns[i]: when member i may begin the stage; becomes when it has sent and got all of it, which
 * for what it got is there_ns[i]. */
static void run_stage(sketch *all, stage at, uint64_t *from_ns, uint64_t *there_ns)
{
    const route *of = all->of;
    const company nobody = {TARRY_NEVER, 0};
    for (uint32_t row = 0; row < (is_grid(all) ? of->shape.rows : 1); row++)
        all->rows[row] = nobody;
    for (uint32_t column = 0; column < route_columns(of); column++)
        all->columns[column] = nobody;
    for (uint32_t place = 0; place < of->count; place++) {
        const uint32_t row = route_row_of(of, place), column = place - route_row_first(of, row);
        const load its = load_of(all, place, row, at);
        network_way *out = &all->links->workers[group_sum_member(all->sum, place)].out;
        uint64_t first_ns;
        uint64_t left_ns = network_leave_many(all->links, out, from_ns[place], its.out_bytes,
                                              its.out_messages, &first_ns);
        add_to(&all->rows[row], first_ns, left_ns);
        add_to(&all->columns[column], first_ns, left_ns);
        from_ns[place] = left_ns;
        all->moved += its.out_bytes;
    }
    for (uint32_t place = 0; place < of->count; place++) {
        const uint32_t row = route_row_of(of, place), column = place - route_row_first(of, row);
        const load its = load_of(all, place, row, at);
        const company from = senders_of(all, at, row, column);
        network_way *in = &all->links->workers[group_sum_member(all->sum, place)].in;
        there_ns[place] = network_arrive_many(all->links, in, from.first_ns, its.in_bytes,
                                              its.in_messages, from.last_ns);
        from_ns[place] = network_later(from_ns[place], there_ns[place]);
    }
}

int flows_sum(network *state, const group_sum *sum, const route *of, const uint64_t *ready_ns,
              uint64_t *done_ns, uint64_t *moved)
{
    sketch all = {.links = state,
                  .sum = sum,
                  .of = of,
                  .part_length = (sum->dimension + sum->parts - 1) / sum->parts};
    const uint32_t rows = is_grid(&all) ? of->shape.rows : 1;
    uint64_t *from_ns = memory_allocate(&state->allocator, sum->count, sizeof(*from_ns));
    all.rows = memory_allocate(&state->allocator, rows, sizeof(*all.rows));
    all.columns = memory_allocate(&state->allocator, route_columns(of), sizeof(*all.columns));
    int error = from_ns != NULL && all.rows != NULL && all.columns != NULL ? TARRY_OK
                                                                           : TARRY_ERROR_NO_MEMORY;
    for (uint32_t place = 0; error == TARRY_OK && place < sum->count; place++)
        from_ns[place] = done_ns[place] = ready_ns[place];
    for (stage at = ROW_UP; error == TARRY_OK && at < STAGES && sum->count > 1; at++)
        if (is_grid(&all) || at == ROW_UP || at == ROW_DOWN)
            run_stage(&all, at, from_ns, done_ns);
    *moved = all.moved;
    memory_release(&state->allocator, all.columns);
    memory_release(&state->allocator, all.rows);
    memory_release(&state->allocator, from_ns);
    return error;
}
