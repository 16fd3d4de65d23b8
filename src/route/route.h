/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends what to whom so that each member of a group gets the sum of all.
 *
 * Members sit in seats 0 .. count - 1. Of each stripe of the numbers a seat sums *slices*: it gets
 * these numbers of the coded parts of its *leaves*, adds its own, and so decodes a partial sum. The
 * slice is cut into *pieces*, each of which is added up along a chain of *parents*: a seat adds the
 * partial sums of its *inner children* to its own, in their order, and sends the result to its
 * parent, or has the sum if it has none. Sums go back the same way, last to the leaves. So each
 * number is added up in one order alone, and all members get the same bits.
 *
 *   direct  Seat i sums slice i of `count`; all others are its leaves. One piece, without a parent.
 *   grid    Seats are cut into rows, whose lengths differ by at most one. A row of w seats sums the
 *           stripe in w slices; the row's others are a seat's leaves. Those of all rows who have
 *           the same number make its column; a slice is cut so that each of them is the parent of
 *           the others for an equal piece. Where rows differ in length, a slice of one overlaps two
 *           of the other, and has pieces for each.
 *   tree    Two slices, and a binary tree for each, so laid that (almost) nobody has children in
 *           both. A seat's children that have none themselves are its leaves.
 */
#ifndef ROUTE_ROUTE_H
#define ROUTE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include <tarry/shape.h>

#define ROUTE_NOBODY UINT32_MAX

enum { ROUTE_LINE = 16 }; /* spans begin at multiples of so many numbers */

typedef struct route {
    tarry_shape shape;
    uint32_t count; /* of seats, >= 1 */
} route;

/* Whether so many members can make a sum in that shape, which is not AUTO. */
bool route_is_legal(tarry_shape shape, uint32_t count);
/* The longest row of a legal grid, and the shortest one. Row r of `rows` begins at seat
 * route_row_first. */
uint32_t route_columns(const route *of);
uint32_t route_columns_least(const route *of);
uint32_t route_row_first(const route *of, uint32_t row);
uint32_t route_row_of(const route *of, uint32_t seat);

/* ---- which numbers ---- */

/* Numbers first .. first + length - 1. */
typedef struct route_span {
    size_t first;
    size_t length; /* may be 0 */
} route_span;

/* Cut `index` of `cuts` in a span of so many numbers: cuts lie in their order, are of whole lines
 * but for the last, and differ by at most a line. */
route_span route_cut(size_t length, uint32_t cuts, uint32_t index);

/* A slice, and the piece of it: for any length of the stripe. */
typedef struct route_where {
    uint32_t cuts, index;       /* slice `index` of `cuts` of the stripe, */
    uint32_t other_cuts, other; /* as far as it is in slice `other` of `other_cuts` (0: all) */
    uint32_t piece_cuts, piece; /* of that cut `piece` of `piece_cuts` (0: all) */
} route_where;

/* Those of the numbers 0 .. length - 1 of a stripe. */
route_span route_find(const route_where *where, size_t length);

/* ---- one seat's slices and pieces ---- */

/* A slice that a seat has to do with. */
typedef struct route_slice {
    route_where where;
    uint32_t owner; /* the seat itself, which sums it; else that which gets its coded part */
} route_slice;

/* A piece of an own slice. */
typedef struct route_piece {
    route_where where;
    uint32_t parent; /* ROUTE_NOBODY: none, the seat has the sum */
} route_piece;

/* All functions are for seat < count. Slices come in ascending order and together are the stripe;
 * so do the pieces of a slice, and are the slice. */
uint32_t route_slices(const route *of, uint32_t seat);
route_slice route_slice_at(const route *of, uint32_t seat, uint32_t slice);
/* Of an own slice: who sends their coded parts, in ascending order, with the seat itself among
 * them; there is room for route_leaves_most. */
uint32_t route_leaves(const route *of, uint32_t seat, uint32_t slice, uint32_t *leaves);
uint32_t route_leaves_most(const route *of);
uint32_t route_pieces(const route *of, uint32_t seat, uint32_t slice);
route_piece route_piece_at(const route *of, uint32_t seat, uint32_t slice, uint32_t piece);
/* Its inner children, in the order in which their partial sums are added to the own one; there is
 * room for route_inners_most. */
uint32_t route_inners(const route *of, uint32_t seat, uint32_t slice, uint32_t piece,
                      uint32_t *inners);
uint32_t route_inners_most(const route *of);

#endif
