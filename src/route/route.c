/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route.h"

#include <assert.h>

#include "route/route_tree.h"

bool route_is_legal(tarry_shape shape, uint32_t count)
{
    switch (shape.kind) {
    case TARRY_SHAPE_DIRECT:
    case TARRY_SHAPE_TREE:
        return shape.rows == 0 && count > 0;
    case TARRY_SHAPE_GRID:
        return shape.rows >= 2 && shape.rows <= count / 2;
    case TARRY_SHAPE_AUTO:
        break;
    }
    return false;
}

/* ---- rows: the first count % rows of them have one seat more ---- */

static uint32_t rows_of(const route *of)
{
    return of->shape.kind == TARRY_SHAPE_GRID ? of->shape.rows : 1;
}

uint32_t route_columns_least(const route *of)
{
    return of->count / rows_of(of);
}

uint32_t route_columns(const route *of)
{
    return route_columns_least(of) + (of->count % rows_of(of) > 0);
}

uint32_t route_row_first(const route *of, uint32_t row)
{
    uint32_t more = of->count % rows_of(of);
    return row * route_columns_least(of) + (row < more ? row : more);
}

static uint32_t row_length(const route *of, uint32_t row)
{
    return route_columns_least(of) + (row < of->count % rows_of(of));
}

uint32_t route_row_of(const route *of, uint32_t seat)
{
    uint32_t least = route_columns_least(of), more = of->count % rows_of(of);
    uint32_t in_longer = more * (least + 1);
    return seat < in_longer ? seat / (least + 1) : more + (seat - in_longer) / least;
}

static uint32_t column_of(const route *of, uint32_t seat)
{
    return seat - route_row_first(of, route_row_of(of, seat));
}

/* ---- which numbers ---- */

static size_t lines_before(size_t lines, uint32_t cuts, uint32_t index)
{
    size_t more = lines % cuts;
    return lines / cuts * index + (index < more ? index : more);
}

route_span route_cut(size_t length, uint32_t cuts, uint32_t index)
{
    assert(index < cuts);
    size_t lines = length / ROUTE_LINE + (length % ROUTE_LINE != 0);
    size_t begin = lines_before(lines, cuts, index) * ROUTE_LINE;
    size_t end = lines_before(lines, cuts, index + 1) * ROUTE_LINE;
    begin = begin < length ? begin : length;
    end = end < length ? end : length;
    return (route_span){begin, end - begin};
}

static route_span common(route_span one, route_span other)
{
    size_t begin = one.first > other.first ? one.first : other.first;
    size_t one_end = one.first + one.length, other_end = other.first + other.length;
    size_t end = one_end < other_end ? one_end : other_end;
    return (route_span){begin, end > begin ? end - begin : 0};
}

route_span route_find(const route_where *where, size_t length)
{
    route_span found = route_cut(length, where->cuts, where->index);
    if (where->other_cuts > 0)
        found = common(found, route_cut(length, where->other_cuts, where->other));
    if (where->piece_cuts > 0) {
        route_span piece = route_cut(found.length, where->piece_cuts, where->piece);
        found = (route_span){found.first + piece.first, piece.length};
    }
    return found;
}

/* ---- slices ---- */

static bool is_tree(const route *of)
{
    return of->shape.kind == TARRY_SHAPE_TREE;
}

/* Whether nobody sends it anything, so that its coded part goes up as it is. */
static bool is_leaf(const route *of, uint32_t tree, uint32_t seat)
{
    uint32_t children[ROUTE_CHILDREN];
    return of->count > 1 && route_tree_children(of->count, tree, seat, children) == 0;
}

uint32_t route_slices(const route *of, uint32_t seat)
{
    return is_tree(of) ? ROUTE_TREES : row_length(of, route_row_of(of, seat));
}

route_slice route_slice_at(const route *of, uint32_t seat, uint32_t slice)
{
    route_slice found = {.where = {.cuts = route_slices(of, seat), .index = slice}};
    if (!is_tree(of))
        found.owner = route_row_first(of, route_row_of(of, seat)) + slice;
    else
        found.owner = is_leaf(of, slice, seat) ? route_tree_parent(of->count, slice, seat) : seat;
    return found;
}

uint32_t route_leaves_most(const route *of)
{
    return is_tree(of) ? ROUTE_CHILDREN + 1 : route_columns(of);
}

static uint32_t add_in_order(uint32_t *to, uint32_t count, uint32_t seat)
{
    uint32_t at = count;
    for (; at > 0 && to[at - 1] > seat; at--)
        to[at] = to[at - 1];
    to[at] = seat;
    return count + 1;
}

uint32_t route_leaves(const route *of, uint32_t seat, uint32_t slice, uint32_t *leaves)
{
    uint32_t count = 0;
    if (!is_tree(of)) {
        uint32_t row = route_row_of(of, seat);
        for (; count < row_length(of, row); count++)
            leaves[count] = route_row_first(of, row) + count;
        return count;
    }
    uint32_t children[ROUTE_CHILDREN],
        of_it = route_tree_children(of->count, slice, seat, children);
    count = add_in_order(leaves, count, seat);
    for (uint32_t i = 0; i < of_it; i++)
        if (is_leaf(of, slice, children[i]))
            count = add_in_order(leaves, count, children[i]);
    return count;
}

/* ---- pieces ---- */

/* Where rows differ in length, of those of the other length the first one's slice that overlaps
 * the seat's, and how many do. */
static uint32_t overlaps(const route *of, uint32_t seat, uint32_t *first)
{
    uint32_t column = column_of(of, seat), longest = route_columns(of);
    *first = column;
    if (route_columns_least(of) == longest)
        return 1;
    bool is_longer = row_length(of, route_row_of(of, seat)) == longest;
    if (!is_longer)
        return 2; /* c / (w - 1) lies between c / w and (c + 1) / w */
    *first = column > 0 ? column - 1 : 0;
    return column > 0 && column < longest - 1 ? 2 : 1;
}

/* Its length is not that of the seat's row. */
static bool is_other_row(const route *of, uint32_t seat, uint32_t row)
{
    return row_length(of, row) != row_length(of, route_row_of(of, seat));
}

uint32_t route_pieces(const route *of, uint32_t seat, uint32_t slice)
{
    uint32_t first;
    (void)slice;
    return of->shape.kind == TARRY_SHAPE_GRID ? overlaps(of, seat, &first) * of->shape.rows : 1;
}

/* Who of that row sums the numbers of the piece. */
static uint32_t owner_in_row(const route *of, uint32_t seat, uint32_t piece, uint32_t row)
{
    uint32_t first;
    overlaps(of, seat, &first);
    uint32_t column =
        is_other_row(of, seat, row) ? first + piece / of->shape.rows : column_of(of, seat);
    return route_row_first(of, row) + column;
}

route_piece route_piece_at(const route *of, uint32_t seat, uint32_t slice, uint32_t piece)
{
    route_piece found = {route_slice_at(of, seat, slice).where, ROUTE_NOBODY};
    if (is_tree(of))
        found.parent = route_tree_parent(of->count, slice, seat);
    if (of->shape.kind != TARRY_SHAPE_GRID)
        return found;
    uint32_t first, rows = of->shape.rows, row = piece % rows;
    overlaps(of, seat, &first);
    if (route_columns(of) != route_columns_least(of)) {
        uint32_t own = route_slices(of, seat);
        found.where.other_cuts = own == route_columns(of) ? own - 1 : own + 1;
        found.where.other = first + piece / rows;
    }
    found.where.piece_cuts = rows;
    found.where.piece = row;
    if (row != route_row_of(of, seat))
        found.parent = owner_in_row(of, seat, piece, row);
    return found;
}

uint32_t route_inners_most(const route *of)
{
    return of->shape.kind == TARRY_SHAPE_GRID ? of->shape.rows - 1 : ROUTE_CHILDREN;
}

uint32_t route_inners(const route *of, uint32_t seat, uint32_t slice, uint32_t piece,
                      uint32_t *inners)
{
    uint32_t count = 0;
    if (is_tree(of)) {
        uint32_t children[ROUTE_CHILDREN];
        uint32_t of_it = route_tree_children(of->count, slice, seat, children);
        for (uint32_t i = 0; i < of_it; i++)
            if (!is_leaf(of, slice, children[i]))
                count = add_in_order(inners, count, children[i]);
        return count;
    }
    uint32_t own = route_row_of(of, seat);
    if (of->shape.kind != TARRY_SHAPE_GRID || piece % of->shape.rows != own)
        return 0;
    for (uint32_t row = 0; row < of->shape.rows; row++)
        if (row != own)
            inners[count++] = owner_in_row(of, seat, piece, row);
    return count;
}
